// How long libgomp's threads spin: set by the program before libgomp reads it, unless the user has.
#include <catch2/catch.hpp>

#include "test/support/binary.h"

namespace bv::test {
namespace {

// OMP_DISPLAY_ENV makes libgomp print the settings that it has read.
std::string spin_count(const std::string& variables) {
  const TempFolder folder;
  const std::string line = "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose " +
                           variables + " $BVTRAIN --version >" + (folder / "out") + " 2>&1";
  CHECK(std::system(line.c_str()) == 0);
  const std::string printed = read_text(folder / "out"), name = "GOMP_SPINCOUNT = '";
  const size_t begin = printed.find(name);
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size();
  return printed.substr(value, printed.find('\'', value) - value);
}

}  // namespace

TEST_CASE("OpenMP's threads spin briefly, or as long as the user says") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("not run: programs with a sanitizer leave libgomp's default");
#else
  CHECK(spin_count("") == "1000");
  CHECK(spin_count("GOMP_SPINCOUNT=7") == "7");
  CHECK(spin_count("OMP_WAIT_POLICY=passive") == "0");
#endif
}

TEST_CASE("the environment is whole again when a config reads it") {
  const TempFolder folder;
  const std::string config = folder.write("c.yaml", "seed: ${PWD}${OLDPWD}${HOME}\n");
  const std::string line = "env -i PWD=1 OLDPWD=2 HOME=3 $BVTRAIN --config " + config +
                           " --explain >" + (folder / "out") + " 2>&1";
  CHECK(std::system(line.c_str()) != 0);  // the other keys are missing
  CHECK_THAT(read_text(folder / "out"),
             !Catch::Contains("GOMP_SPINCOUNT") && !Catch::Contains("seed"));
}

}  // namespace bv::test

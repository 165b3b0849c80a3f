// Workdirs that lie in the folder of the images.
#include "lib/train/start.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("a new run must not write into a folder whose folders are classes") {
  const TempFolder dir;
  for (const char* folder : {"train/cat", "val/cat"}) dir.make(folder);
  const auto line = [&](const std::string& workdir, const std::string& source) {
    const std::string yaml =
        "input: {data: {name: digits}}\nevals:\n  test:\n    data: {name: " + source +
        ", data_dir: " + (dir / "val") + "}\n";
    return error_of(
        [&] { check_outside_data(parse_config(yaml, "t.yaml"), Workdir(dir / workdir)); });
  };
  CHECK(line("val/out", "image_folder") ==
        dir / "val/out: error: is in '" + (dir / "val") +
            "', the data of evals.test, where every folder is taken for a class: choose a "
            "--workdir outside of it");
  CHECK(line("val", "image_folder") != "");
  CHECK(line("out", "image_folder") == "");
  CHECK(line("val/out", "idx") == "");  // reads files of fixed names
  // A run that is there already continues with the classes of its checkpoint.
  dir.make("val/out/ckpt/step-1");
  dir.write("val/out/ckpt/step-1/manifest.json", "{}");
  CHECK(line("val/out", "image_folder") == "");
}

TEST_CASE("a cache must not be in a folder whose folders are classes") {
  const TempFolder dir;
  dir.make("train/cat");
  const auto line = [&](const std::string& cache) {
    const std::string yaml = "input:\n  data: {name: image_folder, data_dir: " + (dir / "train") +
                             "}\n  cache: {in: " + cache + ", gib: 1}\n";
    return error_of([&] { check_cache_outside_data(parse_config(yaml, "t.yaml")); });
  };
  CHECK(line(dir / "train/cache") ==
        "t.yaml:3:15: error: input.cache.in: is in '" + (dir / "train") +
            "', the data of input, where every folder is taken for a class: choose a folder "
            "outside of it");
  CHECK(line(dir / "cache") == "");
  CHECK(line("memory") == "");
}

}  // namespace bv::test

// Bad input to the real binary: it exits with 2 and one line, and creates no workdir.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/golden.h"

namespace bv::test {

// Returns `text` with the first `from` replaced by `to`. There must be one.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Returns configs/digits_cnn.yaml with `from` replaced by `to`.
inline std::string digits_with(const std::string& from, const std::string& to) {
  return replaced(read_file(source_file("configs/digits_cnn.yaml")), from, to);
}

// Returns a config without its evaluators, which come last.
inline std::string without_evals(const std::string& config) {
  return config.substr(0, config.find("evals:"));
}

const std::string kData = "data: {name: digits, split: train}";

struct Bad {
  TempFolder dir;

  Finished refuse(const std::string& config, const std::vector<std::string>& more = {}) {
    write(dir / "c.yaml", config);
    std::vector<std::string> args = {"--config", dir / "c.yaml", "--workdir", dir / "w"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.seconds < kWatchdog);  // it takes 0.4 s; a hostile file must not make it hang
    CHECK(!exists(dir / "w"));
    return finished;
  }
  // Runs bvtrain with `config` and returns its line, without the path of this test's folder.
  std::string line(const std::string& config, const std::vector<std::string>& more = {}) {
    return here(refuse(config, more).err);
  }
  std::string here(std::string text) const {
    for (size_t at; (at = text.find(dir.path() + "/")) != std::string::npos;)
      text.erase(at, dir.path().size() + 1);
    return text;
  }
};

}  // namespace bv::test

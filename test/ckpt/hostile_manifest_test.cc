// Manifests that somebody else has written, with the right checksum behind them.
#include <catch2/catch.hpp>

#include "lib/ckpt/manifest.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

const std::string kFile =
    R"({"name": "NAME", "bytes": 20, "chunk_bytes": 1048576, "xxh3_64": ["0123456789abcdef"]})";

std::string file_named(const std::string& name) {
  std::string file = kFile;
  return file.replace(file.find("NAME"), 4, name);
}

// Returns the error that reading a manifest with these files and metadata gives.
std::string refused_manifest(const std::string& files, const std::string& meta = "{}",
                             const std::string& step = "7") {
  const MemoryFolder folder;
  const std::string text = R"({"format": 1, "step": )" + step +
                           R"(, "world_size": 1, "keep": false, "files": )" + files +
                           R"(, "meta": )" + meta;
  folder.write("manifest.json",
               fmt::format("{},\n \"self\": \"{:016x}\"\n}}\n", text, hash64(text)));
  return error_of([&] { read_checkpoint(folder.path(), {}); });
}

}  // namespace

TEST_CASE("a manifest that names files elsewhere is refused", "[manifest]") {
  for (const std::string name : {"../state", "/etc/passwd", "a/b", "..", ""}) {
    CHECK(refused_manifest("[" + file_named(name) + "]") ==
          fmt::format("manifest.json: invalid file name '{}'", name));
  }
  CHECK(refused_manifest("[" + file_named("state") + "]") == "state: is missing");
}

TEST_CASE("a manifest that cannot be read says why, and one that could not is not written",
          "[manifest]") {
  const MemoryFolder folder;
  const auto line = [&] { return error_of([&] { read_manifest(folder.path()); }); };
  CHECK(line() == "manifest.json: is missing");
  folder.make("manifest.json");
  CHECK(line() == "manifest.json: is a folder");
  Manifest manifest;
  manifest.meta["class_names"] =
      nlohmann::json::array({std::string(limits::kCheckpointManifestBytes, 'a')});
  CHECK(error_of([&] { manifest.text(); }) ==
        "manifest.json: would take 128.0 MiB, and at most 128.0 MiB can be read back; the class "
        "names take 128.0 MiB");
}

TEST_CASE("a manifest of deep JSON is refused before it is parsed", "[manifest]") {
  const auto deep = [](size_t depth) {
    return R"({"x": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  const std::string text = "manifest.json: is nested more than 64 deep";
  CHECK(refused_manifest("[]", deep(63)) == text);
  CHECK(refused_manifest("[]", deep(1'000'000)) == text);
  CHECK(refused_manifest("[" + file_named("state") + "]", deep(60)) == "state: is missing");
}

TEST_CASE("a manifest whose numbers do not fit is refused", "[manifest]") {
  const auto with = [](std::string from, const std::string& to) {
    std::string file = file_named("state");
    return "[" + file.replace(file.find(from), from.size(), to) + "]";
  };
  CHECK(refused_manifest(with("\"bytes\": 20", "\"bytes\": 9223372036854775807")) ==
        "manifest.json: 'state' has 1 checksums for 9223372036854775807 bytes");
  CHECK(refused_manifest(with("\"bytes\": 20", "\"bytes\": 18446744073709551616"))
            .starts_with("manifest.json: 'bytes' is "));
  CHECK(refused_manifest(with("\"bytes\": 20", "\"bytes\": -1"))
            .starts_with("manifest.json: 'bytes' is "));
  CHECK(refused_manifest(with("0123456789abcdef", "0123456789abcdeg")) ==
        "manifest.json: a checksum is not 16 hexadecimal digits");
  CHECK(refused_manifest("[]", "{}", "9223372036854775807") ==
        "manifest.json: 'step' is 9223372036854775807, at most 9007199254740992 is possible");
  CHECK(refused_manifest(with("1048576", "0")) == "manifest.json: chunk_bytes is not 1048576");
}

}  // namespace bv::test

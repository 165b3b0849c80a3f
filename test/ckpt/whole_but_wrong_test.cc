// Manifests with a correct checksum that no run has written.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/manifest.h"
#include "test/ckpt/states.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("checkpointer: a manifest that is whole but wrong is refused") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10, 20});
  const Manifest good = read_manifest(workdir.ckpt().step(20));
  const auto line = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = good;
    change(manifest);
    std::ofstream(workdir.ckpt().step(20) + "/manifest.json") << manifest.text();
    return error_of([&] { Checkpointer::load(workdir.ckpt().step(20)); });
  };
  const std::string place = workdir.ckpt().step(20) + ": error: manifest.json: ";
  CHECK(line([](Manifest& m) { m.files[0].name = "../step-10/x"; }) ==
        place + "invalid file name '../step-10/x'");
  CHECK(line([](Manifest& m) {
          m.files[0].checksums.push_back(0);
        }).find(" has 2 checksums for ") != std::string::npos);
  CHECK(line([](Manifest& m) {
          m.files[0].bytes = uint64_t{1} << 60;
        }).find(" has 1 checksums for ") != std::string::npos);
  line([](Manifest& m) { m.step = 21; });
  CHECK(Checkpointer::latest(workdir)->step == 10);
  CHECK(Checkpointer::latest_step(workdir.ckpt()) == 10);
  CHECK(Checkpointer::latest_step(workdir.ckpt(), /*resumes=*/true) == 10);
}

TEST_CASE("checkpointer: wrong types in a manifest that is whole are one line, and a fallback") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10, 20});
  const Manifest good = read_manifest(workdir.ckpt().step(20));
  const auto line = [&](const std::string& member, const char* value) {
    Manifest manifest = good;
    manifest.meta[nlohmann::json::json_pointer(member)] = nlohmann::json::parse(value);
    std::ofstream(workdir.ckpt().step(20) + "/manifest.json") << manifest.text();
    CHECK(Checkpointer::latest(workdir)->step == 10);
    CHECK(Checkpointer::peek(workdir.dir())->step == 10);
    return error_of([&] { Checkpointer::load(workdir.ckpt().step(20)); });
  };
  const std::string place = workdir.ckpt().step(20) + ": error: manifest.json: meta";
  CHECK(line("/chrono/accum_train_time", "\"3\"") ==
        place + ".chrono.accum_train_time is a string, expected a number");
  CHECK(line("/chrono/accum_examples_seen", "1.5") ==
        place + ".chrono.accum_examples_seen is the number 1.5, expected an integer");
  CHECK(line("/class_names", R"(["a", 1])") ==
        place + ".class_names is a list, expected a list of strings");
  CHECK(line("/row", R"([["loss", 0.5], ["acc", "many"]])") ==
        place + ".row.1.1 is a string, expected a number");
  CHECK(line("/row", R"([["loss"]])") == place + ".row.0 does not hold a name and a value");
  CHECK(line("/position", "-1") == place + ".position is the number -1, expected an integer");
  // Positions in the stream of examples could overflow.
  for (const char* member : {"position", "examples_left_out", "skipped_steps", "last_row"}) {
    CHECK(line(fmt::format("/{}", member), "9223372036854775807") ==
          fmt::format("{}.{} is 9223372036854775807, at most 9007199254740992 is possible", place,
                      member));
  }
  CHECK(line("/chrono/accum_examples_seen", "9007199254740993") ==
        place +
            ".chrono.accum_examples_seen is 9007199254740993, at most 9007199254740992 is "
            "possible");
  CHECK(line("/device", "5") == place + ".device is the number 5, expected a string");
  CHECK(line("/bad_step", R"({"reason": 1})") ==
        place + ".bad_step.reason is the number 1, expected a string");
  CHECK(line("/bad_step", R"({"reason": "loss", "examples": []})") ==
        place + ".bad_step lacks 'bad_examples'");
  CHECK(line("/compute_threads", "1000000") == place + ".compute_threads is 1000000");
  CHECK(line("/image", "[1, 2]") == place + ".image does not hold three numbers");
  CHECK(line("/data", R"({"input": "x"})") == place + ".data lacks 'evals'");
  CHECK(line("/data", R"({"input": "x", "examples": "9", "evals": {}})") ==
        place + ".data.examples is a string, expected an integer");
  CHECK(line("/data", R"({"input": "x", "evals": {}, "content": ["x"]})") ==
        place + ".data.content is a list, expected an object");
  CHECK(line("/data", R"({"input": "x", "evals": {}, "content": {"input": 7}})") ==
        place + ".data.content.input is the number 7, expected a string");
  CHECK(line("/data", R"({"input": "x", "evals": {}, "labels": {"evals.a": 7}})") ==
        place + ".data.labels.evals.a is the number 7, expected a string");
  CHECK(line("/config", "null") == place + ".config is null, expected a string");
  Manifest older = good;  // earlier versions did not write data.examples
  older.meta["data"] = {{"input", "x"}, {"evals", nlohmann::json::object()}};
  older.meta["position"] = int64_t{1} << 53;
  for (const Manifest& manifest : {good, older}) {
    std::ofstream(workdir.ckpt().step(20) + "/manifest.json") << manifest.text();
    CHECK(Checkpointer::latest(workdir)->step == 20);  // members that it does not know are free
  }
}

}  // namespace bv::test

// bvtrain data check, stats and index with the real binary, and the keys quarantine and sample.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "test/init/data_folders.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using Json = nlohmann::json;

// A JPEG file whose beginning and end are intact, but not its middle.
std::string hollow_jpeg() {
  std::string file = plain_jpeg(64, 64, 90);
  const size_t scan = file.find("\xFF\xDA");
  file.replace(scan + 20, file.size() - scan - 22, 10, '\0');
  return file;
}

// photos/train has 20 cats, of which cat/bad.jpg is hollow, and 6 dogs, of which dog/text.jpg is
// not an image; photos/val has 4 of each, all intact.
class PhotoFolder : public TempFolder {
 public:
  PhotoFolder() {
    write_class(path() + "/photos/train", "cat", 19, 20);
    write_class(path() + "/photos/train", "dog", 5, 200, 20, 12);
    write_class(path() + "/photos/val", "cat", 4, 20);
    write_class(path() + "/photos/val", "dog", 4, 200);
    write("photos/train/cat/bad.jpg", hollow_jpeg());
    write("photos/train/dog/text.jpg", "not an image");
    write("c.yaml", fmt::format(R"(
num_classes: auto
total_steps: 8
log_training_steps: 1
input:
  data: {{name: image_folder, data_dir: {0}/photos, split: train}}
  batch_size: 6
  pp: &pp decode|resize(8)|value_range(-1, 1)|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels")
evals:
  val: {{type: classification, data: {{name: image_folder, data_dir: {0}/photos, split: val}}, pp_fn: *pp, loss_name: softmax_xent, log_steps: 4}}
model_name: cnn
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
)",
                                path()));
  }

  std::string config() const { return *this / "c.yaml"; }
};

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> all;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    all.push_back(Json::parse(text.substr(at, text.find('\n', at) - at)));
  return all;
}

}  // namespace

TEST_CASE("data check lists broken examples of a folder and of a config, in order") {
  const PhotoFolder dir;
  const std::string photos = dir / "photos";
  const Finished folder = run({"data", "check", photos, "--threads", "3"});
  CHECK(folder.code == 3);
  const std::vector<Json> lines = json_lines(folder.out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("data") == photos);
  CHECK(lines[0].at("example") == "train/cat/bad.jpg");
  CHECK(lines[0].at("file") == photos + "/train/cat/bad.jpg");
  CHECK(lines[1].at("example") == "train/dog/text.jpg");
  CHECK(lines[1].at("reason") == "not a JPEG, PNG or WebP image: it begins with 6E 6F 74 20");
  CHECK(folder.err == fmt::format("bvtrain data check: error: 2 of 34 examples are broken ({}: 2 "
                                  "of 34)\n",
                                  photos));

  const std::string list = dir / "list.jsonl";
  const Finished config =
      run({"data", "check", "--config", dir.config(), "--pp", "--output", list});
  CHECK(config.code == 3);
  CHECK(config.out.empty());
  CHECK(config.err ==
        fmt::format("bvtrain data check: error: 2 of 34 examples are broken (input: 2 of 26, "
                    "evals.val: 0 of 8); the key `quarantine: {}` excludes them\n",
                    list));
  CHECK(json_lines(read_text(list))[1].at("data") == "input");

  const Finished sound =
      run({"data", "check", "--config", dir.config(), "--only", "evals.val", "--output", list});
  CHECK(sound.code == 0);
  CHECK(contains(sound.err, "All 8 examples are valid (evals.val: 8)\n"));
  CHECK(read_text(list).empty());
}

TEST_CASE("a run leaves out the examples of the list, and only those") {
  const PhotoFolder dir;
  const std::string list = dir / "list.jsonl";
  CHECK(run({"--config", dir.config(), "--workdir", dir / "w"}).code == 2);
  run({"data", "check", "--config", dir.config(), "--output", list});
  const Finished trained = run({"--config", dir.config(), "--workdir", dir / "w", "--set",
                                "input.quarantine=" + list, "--set", "total_steps=20"});
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(contains(trained.err, "input.quarantine: 2 of 26 examples of input are excluded\n"));
  CHECK_FALSE(exists(dir / "w/skipped.jsonl"));
  // A broken file that is not in the list ends the run.
  dir.write("short.jsonl", read_text(list).substr(0, read_text(list).find('\n') + 1));
  const Finished ended =
      run({"--config", dir.config(), "--workdir", dir / "w2", "--set",
           "input.quarantine=" + (dir / "short.jsonl"), "--set", "total_steps=20"});
  CHECK(ended.code != 0);
  CHECK(contains(ended.err, "train/dog/text.jpg"));
  const Finished eval = run({"--config", dir.config(), "--dry-run", "--set",
                             "input.quarantine=" + list, "--set", "evals.val.quarantine=" + list});
  CHECK(eval.code == 0);
  CHECK(contains(eval.err, "has no examples of evals.val, only of input\n"));
}

TEST_CASE("a list of rows ends the start after the rows have moved") {
  const TempFolder dir;
  std::string rows = "image,label\n";
  for (int i = 0; i < 8; ++i) {
    dir.write(fmt::format("q/{}.jpg", i), i == 2 ? hollow_jpeg() : plain_jpeg(8, 8, 20 * i));
    rows += fmt::format("{}.jpg,{}\n", i, i % 2);
  }
  dir.write("q/m.csv", rows);
  const std::string list = dir / "q/list.jsonl";
  dir.write("c.yaml", fmt::format(R"(
num_classes: 2
total_steps: 2
log_training_steps: 1
input:
  data: {{name: csv, fname: {0}/q/m.csv}}
  batch_size: 2
  quarantine: {0}/q/list.jsonl
  pp: decode|resize(8)|value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
loss: softmax_xent
optax_name: sgd
lr: 0.1
)",
                                  dir.path()));
  const auto check_data = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"data", "check", "--config", dir / "c.yaml"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  };
  REQUIRE(check_data({"--output", list}).code == 3);
  const std::vector<Json> lines = json_lines(read_text(list));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].at("example") == dir / "q/m.csv:4");
  CHECK(lines[0].at("file") == dir / "q/2.jpg");
  CHECK(lines[0].at("offset").is_number());
  CHECK(lines[0].at("files") == Json::array({"2.jpg"}));
  const auto start = [&] { return run({"--config", dir / "c.yaml", "--dry-run"}); };
  const Finished fits = start();
  INFO(fits.err);
  CHECK(fits.code == 0);
  CHECK(contains(fits.err, "input.quarantine: 1 of 8 examples of input is excluded\n"));
  // A run's skipped examples are also such a list.
  REQUIRE(run({"--config", dir / "c.yaml", "--workdir", dir / "w", "--set", "total_steps=8",
               "--set", "input.quarantine=null", "--set", "input.skip_errors=true"})
              .code == 0);
  const std::string skipped = dir / "w/skipped.jsonl";
  REQUIRE(json_lines(read_text(skipped)).size() == 1);
  CHECK(json_lines(read_text(skipped))[0].at("files") == Json::array({"2.jpg"}));

  dir.write("q/m.csv", replace_all(rows, "2.jpg,0\n", ""));
  CHECK(contains(
      run({"--config", dir / "c.yaml", "--dry-run", "--set", "input.quarantine=" + skipped}).err,
      skipped + ":1: error: '" + (dir / "q/m.csv:4") + "' names 3.jpg now"));
  const Finished moved = start();
  CHECK(moved.code == 2);
  CHECK(moved.err ==
        fmt::format(
            "{0}:1: error: '{1}:4' names 3.jpg now, but 2.jpg in this list, which no longer fits "
            "the data; renew it with `bvtrain data check --config CONFIG --output {0}`\n",
            list, dir / "q/m.csv"));
  CHECK(check_data({"--output", list}).code == 0);
  CHECK(start().code == 0);
}

TEST_CASE("a balanced run continues as if it had not stopped, on any number of ranks") {
  const PhotoFolder dir;
  for (const char* file : {"cat/bad.jpg", "dog/text.jpg"})
    std::filesystem::remove(dir / ("photos/train/" + std::string(file)));
  const auto train = [&](const std::string& workdir, const std::string& steps,
                         std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"--config", dir.config(), "--workdir", dir / workdir, "--accept-changes", "--set",
                 "evals=null", "--set", "lr=0.0001", "--set", "input.sample=balanced", "--set",
                 "ckpt_steps=4", "--set", "total_steps=" + steps, "--set", "compute_threads=1"});
    const Finished finished = run(more);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  };
  train("whole", "8");
  train("parts", "4");
  train("parts", "8");
  CHECK(repeatable_rows(dir / "whole").back() == repeatable_rows(dir / "parts").back());
  train("uniform", "8", {"--set", "input.sample=uniform"});
  CHECK(repeatable_rows(dir / "whole").back() != repeatable_rows(dir / "uniform").back());
  train("ranks", "8", {"--devices", "cpu:2"});
  const double one = std::stod(metric_rows(dir / "whole").back().at("training_loss"));
  const double two = std::stod(metric_rows(dir / "ranks").back().at("training_loss"));
  CHECK(one > 0.01);
  CHECK(std::abs(one - two) < 1e-3 * std::abs(one));
}

TEST_CASE("data stats measures a folder") {
  const PhotoFolder dir;
  const std::string photos = dir / "photos";
  const Finished text = run({"data", "stats", photos});
  CHECK(text.code == 0);
  CHECK(contains(text.out, photos + ": 34 examples, 2 of them broken and not counted below\n"));
  CHECK(contains(text.out, "classes: 2\n  cat            23   71.88 %\n"));
  CHECK(contains(text.out, "pixels: width 12 to 16, median 16; height 16 to 20, median 16\n"));
  CHECK(contains(text.err,
                 "2 broken examples are not counted; `bvtrain data check` lists what is "
                 "broken\n"));
  const Finished json =
      run({"data", "stats", "--config", dir.config(), "--only", "evals", "--json"});
  const Json found = Json::parse(json.out).at("data").at(0);
  CHECK(found.at("data") == "evals.val");
  CHECK(found.at("classes")[1] == Json({{"name", "dog"}, {"examples", 4}}));
  CHECK(found.at("images") == 8);
  CHECK(found.at("empty").empty());
  CHECK(found.at("pixels")[0].at("mean").size() == 3);
  CHECK(json.err.empty());
}

TEST_CASE("data index stores the index of each data set") {
  const PhotoFolder dir;
  for (const char* file : {"cat/bad.jpg", "dog/text.jpg"})
    std::filesystem::remove(dir / ("photos/train/" + std::string(file)));
  dir.age();
  const Environment cache = {{"XDG_CACHE_HOME", dir / "cache"}};
  const Finished first = run({"data", "index", "--config", dir.config()}, cache);
  INFO(first.err);
  CHECK(first.code == 0);
  CHECK(contains(first.out, "input: 24 examples, opened in "));
  CHECK(contains(first.out, "evals.val: 8 examples, opened in "));
  CHECK(count(first.out, "index stored in " + (dir / "cache/bvtrain/index/")) == 2);
  const Finished again = run({"data", "index", "--config", dir.config()}, cache);
  CHECK(count(again.out, ", no new index\n") == 2);
}

TEST_CASE("what data commands cannot do is one line") {
  const PhotoFolder dir;
  const auto refusal = [](const std::vector<std::string>& args) {
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return finished.err;
  };
  CHECK(refusal({"data"}) == "bvtrain data: error: give one of check, stats and index\n");
  CHECK(refusal({"data", "check"}) ==
        "bvtrain data check: error: give --config FILE, or a folder of data\n");
  CHECK(refusal({"data", "stats", "--config", dir.config(), dir / "photos"}) ==
        "bvtrain data stats: error: give either --config or a folder\n");
  CHECK(refusal({"data", "index", dir / "none"}) ==
        fmt::format("{}: error: no such folder\n", dir / "none"));
  CHECK(refusal({"data", "check", dir / "photos", "--pp"}) ==
        "--pp: error: needs --config, which has the pp strings\n");
  CHECK(refusal({"data", "check", "--config", dir.config(), "--only", "input,val"}) ==
        "--only val: error: unknown data set 'val'; known: input, evals.val\n");
  dir.write("empty/readme.txt", "x");
  CHECK(refusal({"data", "check", dir / "empty"})
            .starts_with((dir / "empty") +
                         ": error: has no data that can be recognized; give --config, "));
}

TEST_CASE("a signal ends data check at once, without half a list") {
  const TempFolder dir;
  dir.write("c.yaml", "input: {data: {name: synthetic, size: 100000000, image_size: 16}}\n");
  dir.make("out");
  const auto [signal, code] = GENERATE(std::pair(SIGTERM, 143), std::pair(SIGINT, 130));
  Child child({"data", "check", "--config", dir / "c.yaml", "--output", dir / "out/list.jsonl"});
  for (int i = 0; i < 2000 && std::filesystem::is_empty(dir / "out"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_FALSE(std::filesystem::is_empty(dir / "out"));  // the file that is being written
  child.kill(signal);
  CHECK(child.wait().code == code);
  CHECK(std::filesystem::is_empty(dir / "out"));
}

}  // namespace bv::test

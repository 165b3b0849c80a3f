// bvtrain ckpt ls, verify, diff, average and rm, with the real binary on one trained run.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/weights_file.h"
#include "lib/util/text.h"
#include "test/support/compare.h"
#include "test/support/digits_run.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A finished run with checkpoints of steps 5, 10, 15 and 20, and the best one. It also has that of
// step 0 if step 0 is the best.
struct TrainedRun : DigitsRun {
  TrainedRun()
      : DigitsRun(digits_config("lr: 0.01\nema: {decay: 0.9}\nkeep_ckpt_steps: 10\n"
                                "max_checkpoints_to_keep: 9\nbest: {metric: test/loss}\nevals:\n") +
                  digits_evaluator("test", {"log_steps: 5"})) {
    const Finished finished = train();
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  }
};

const TrainedRun& trained() {
  static const TrainedRun made;
  return made;
}

Finished ckpt(std::vector<std::string> args, int code = 0) {
  args.insert(args.begin(), "ckpt");
  Finished finished = run(args);
  INFO(finished.err);
  CHECK(finished.code == code);
  return finished;
}

json listed(const std::string& workdir) {
  json all = json::parse(ckpt({"ls", workdir, "--json"}).out);
  json by_name;
  for (const json& each : all.at("checkpoints")) by_name[each.at("name").get<std::string>()] = each;
  by_name["metric"] = all.at("metric");
  return by_name;
}

std::string last_line(const std::string& text) {
  const auto lines = split(trim(text), '\n');
  return lines.back();
}

}  // namespace

TEST_CASE("ckpt ls lists sizes, values and why each checkpoint is kept") {
  const json all = listed(trained().workdir);
  CHECK(all.at("metric") == "test/prec@1");
  CHECK(all.at("step-5").at("kept") == json::array({"recent"}));
  CHECK(all.at("step-10").at("kept") == json::array({"keep_ckpt"}));
  CHECK(all.at("step-20").at("kept").at(0) == "newest");
  CHECK(all.at("step-5").at("folder") == trained().step(5));
  CHECK(all.at("step-5").at("fault").is_null());
  const std::string best = all.at("best").at("kept").at(0);
  CHECK(best.starts_with("best test/loss "));
  for (const TextRow& row : metric_rows(trained().workdir)) {
    const std::string name = "step-" + row.at("step");
    INFO(name);
    if (all.contains(name) && row.contains("test/prec@1"))
      CHECK(all.at(name).at("value") == std::stod(row.at("test/prec@1")));
  }
  const std::string text = ckpt({"ls", trained().workdir + "/ckpt"}).out;
  CHECK(contains(text, "step-10  "));
  CHECK(contains(text, " ago  test/prec@1 "));
  CHECK(contains(text, "  keep_ckpt\n"));
  CHECK(contains(text, fmt::format("best (step {})  ", all.at("best").at("step").get<int64_t>())));
  CHECK(last_line(text).ends_with(best));
  CHECK(count(text, "\n") == all.size() - 1);
}

TEST_CASE("ckpt verify finds a damaged checkpoint, and names it") {
  const std::string whole = ckpt({"verify", trained().workdir}).out;
  CHECK(count(whole, ": intact, ") == count(whole, "\n"));
  CHECK(contains(whole, "step-5: intact, "));
  CHECK(contains(whole, "best: intact, "));
  CHECK(ckpt({"verify", trained().workdir + ":best"}).out.starts_with("best: intact, "));

  TempFolder copy;
  fs::create_directories(copy / "ckpt");
  fs::copy(trained().step(5), copy / "ckpt/step-5", fs::copy_options::recursive);
  fs::copy(trained().step(10), copy / "ckpt/step-10", fs::copy_options::recursive);
  const std::string shard = copy / "ckpt/step-10/state-00000-of-00001.safetensors";
  std::string content = read_text(shard);
  content.back() = static_cast<char>(content.back() ^ 1);
  write(shard, content);
  const Finished damaged = ckpt({"verify", copy.path()}, 5);
  CHECK(contains(damaged.out, "step-5: intact, "));
  CHECK(contains(damaged.out, "step-10: state-00000-of-00001.safetensors: checksum of chunk "));
  CHECK(damaged.err == "bvtrain ckpt verify: error: 1 of 2 checkpoints damaged\n");
  fs::remove(copy / "ckpt/step-10/manifest.json");
  CHECK(contains(ckpt({"ls", copy.path()}).out, "damaged: manifest.json: is missing"));
  const std::string none = ckpt({"verify", copy / "ckpt/step-5", copy / "none"}, 2).err;
  CHECK(none == copy / "none: error: no such checkpoint\n");
}

TEST_CASE("ckpt diff shows the tensors that differ most") {
  const int best = listed(trained().workdir).at("best").at("step");
  const std::string same = ckpt({"diff", trained().step(best), trained().workdir + ":best"}).out;
  CHECK(last_line(same) == "bitwise equal");
  const std::vector<std::string> args = {"diff", trained().step(5), trained().workdir, "--top",
                                         "3"};
  const std::string text = ckpt(args).out;
  CHECK(contains(text, "a: " + trained().step(5) + ", step 5\nb: " + trained().step(20) +
                           ", step 20\nrelative  max abs"));
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const json diff = json::parse(ckpt(with_json).out);
  CHECK(last_line(text) == fmt::format("{} of {} tensors differ", diff.at("differing").get<int>(),
                                       diff.at("tensors").get<int>()));
  REQUIRE(diff.at("largest").size() == 3);
  CHECK(contains(text, diff.at("largest").at(0).at("name")));
  CHECK(diff.at("largest").at(0).at("relative") >= diff.at("largest").at(2).at("relative"));
  CHECK(diff.at("config").empty());
}

TEST_CASE("ckpt average writes the mean, with the model card of an export") {
  const TempFolder dir;
  const std::string file = dir / "mean.safetensors";
  const Finished finished =
      ckpt({"average", trained().workdir, "--steps", "10,5", "--output", file});
  CHECK(contains(finished.err, "the mean of the checkpoints of steps 5, 10, as safetensors to "));
  const auto exported = run({"export", "--workdir", trained().step(10), "--output", dir / "e.npz"});
  REQUIRE(exported.code == 0);
  CHECK(read_weights_metadata(file) == read_weights_metadata(dir / "e.npz"));

  const auto mean_of = [&](const std::string& root, const std::string& name) {
    const auto value = [&](int step) {
      const NamedTensors all = Checkpointer::load(trained().step(step)).tensors;
      return all.at(root + name).to(at::kDouble);
    };
    return ((value(5) + value(10)) / 2).to(at::kFloat);
  };
  const NamedTensors means = read_safetensors(file);
  CHECK(means.size() > 2);
  for (const auto& [name, mean] : means) {
    INFO(name);
    if (name.starts_with("params/")) CHECK(same_bits(mean, mean_of("", name)));
  }
  ckpt({"average", trained().workdir, "--last", "2", "--ema", "--output", dir / "ema.npz"});
  CHECK(read_weights_metadata(dir / "ema.npz").at("bvtrain.step") == "20");
  ckpt({"average", trained().workdir, "--steps", "5,10", "--ema", "--output", file});
  for (const auto& [name, mean] : read_safetensors(file)) {
    INFO(name);
    if (name.starts_with("params/"))
      CHECK(same_bits(mean, mean_of("ema/", name.substr(std::string("params/").size()))));
  }
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"average", trained().workdir, "--output", dir / "none.npz"};
    args.insert(args.end(), more.begin(), more.end());
    return ckpt(args, 2).err;
  };
  CHECK(refused({}) == "bvtrain ckpt average: error: give --steps or --last\n");
  CHECK(contains(refused({"--steps", "5,7"}), "/ckpt: error: has no checkpoint of step 7; there "));
  CHECK(contains(refused({"--last", "99"}), "/ckpt: error: has fewer checkpoints than 99: only "));
  CHECK(!fs::exists(dir / "none.npz"));
  const auto refused_path = [&](const std::string& path) {
    return ckpt({"average", path, "--last", "1", "--output", dir / "none.npz"}, 2).err;
  };
  CHECK(refused_path(dir / "nowhere") == dir / "nowhere: error: no such checkpoint\n");
  CHECK(refused_path(trained().step(5)) ==
        trained().step(5) +
            ": error: is one checkpoint; give the workdir or the ckpt/ folder of several\n");
}

TEST_CASE("ckpt: what is wrong with the command line") {
  CHECK(ckpt({}, 2).err == "bvtrain ckpt: error: give one of ls, verify, diff, average and rm\n");
  CHECK(ckpt({"rm", trained().workdir}, 2).err ==
        "bvtrain ckpt rm: error: give --steps or --all-but-newest\n");
  CHECK(ckpt({"ls", trained().dir.path()}, 2).err ==
        trained().dir.path() +
            ": error: holds no checkpoint (neither manifest.json nor step-<n>/ nor "
            "ckpt/step-<n>/)\n");
  CHECK(ckpt({"rm", trained().dir.path(), "--all-but-newest"}, 2).err ==
        trained().dir.path() + ": error: is not a workdir: it has no folder ckpt/\n");
}

TEST_CASE("ckpt rm removes checkpoints, but not the newest and not while the run is going") {
  const TempFolder copy;
  const std::string workdir = copy / "out";
  fs::copy(trained().workdir, workdir, fs::copy_options::recursive);
  const auto step = [&](int n) { return workdir + "/ckpt/" + fmt::format("step-{}", n); };
  const std::string before = ckpt({"ls", workdir, "--json"}).out;
  {
    Workdir held(workdir);
    held.claim();
    const std::string busy = ckpt({"rm", workdir, "--steps", "5"}, 2).err;
    CHECK(contains(busy, workdir + ": error: the workdir is in use by process "));
  }
  CHECK(ckpt({"rm", workdir, "--steps", "5,20"}, 2).err ==
        step(20) +
            ": error: is the newest intact checkpoint, from which the run continues; nothing was "
            "removed\n");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"ckpt", "rm", workdir, "--steps", "5", "--dry-run"},
        std::vector<std::string>{"--dry-run", "ckpt", "rm", workdir, "--steps", "5"}}) {
    const Finished dry = run(args);
    INFO(dry.err);
    CHECK(dry.code == 0);
    CHECK(contains(dry.out, "would remove step-5: "));
  }
  CHECK(ckpt({"ls", workdir, "--json"}).out == before);

  const std::string removed = ckpt({"rm", workdir, "--steps", "5"}).out;
  CHECK(removed.starts_with("removed step-5: "));
  CHECK(last_line(removed).starts_with("freed "));
  CHECK(!fs::exists(step(5)));
  ckpt({"rm", workdir, "--all-but-newest"});
  const json left = listed(workdir);
  CHECK(left.size() == 3);  // with "metric"
  CHECK(left.contains("step-20"));
  CHECK(left.contains("best"));
  ckpt({"verify", workdir});
  const Finished again = run({"--config", trained().dir / "c.yaml", "--workdir", workdir});
  INFO(again.err);
  CHECK(again.code == 0);
}

}  // namespace bv::test

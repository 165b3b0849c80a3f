// --json: one object on stdout with the content of the text output. With the real binary.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using nlohmann::json;

json parsed(const std::vector<std::string>& args) {
  const Finished finished = run(args);
  INFO(finished.err << finished.out);
  REQUIRE(finished.code == 0);
  return json::parse(finished.out);  // throws if there is anything else
}

}  // namespace

TEST_CASE("--list --json has the names of the text") {
  const json ops = parsed({"--list", "ops", "--json"});
  CHECK(ops.at("kind") == "ops");
  std::string text;
  for (const json& entry : ops.at("entries")) text += entry.at("name").get<std::string>() + "\n";
  CHECK(text == run({"--list", "ops"}).out);

  const json models = parsed({"--list", "models", "--json"});
  CHECK(models.at("num_classes") == 1000);
  const std::string listed = run({"--list", "models"}).out;
  for (const json& entry : models.at("entries")) {
    CHECK(contains("\n" + listed, "\n" + entry.at("name").get<std::string>() + "\n"));
    for (const json& variant : entry.at("variants")) {
      const std::string line =
          fmt::format("  {:<12} {:>14} parameters\n", variant.at("name").get<std::string>(),
                      human_count(variant.at("parameters")));
      CHECK(contains(listed, line));
    }
  }
}

TEST_CASE("--dry-run says what precision is, in the text and as JSON") {
  const std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"),
                                         "--dry-run"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return more;
  };
  const json dry = parsed(with({"--json"}));
  const std::string text = run(args).out;
  CHECK(contains(text, fmt::format("precision   auto: {}, because {}\n",
                                   dry.at("precision").get<std::string>(),
                                   dry.at("precision_reason").get<std::string>())));
  CHECK(contains(text,
                 fmt::format("model       {}: {} parameters", dry.at("model").get<std::string>(),
                             human_count(dry.at("parameters")))));
  CHECK(contains(
      text, fmt::format("{} steps of {} = {:.2f} epochs of {} examples",
                        human_count(dry.at("total_steps")), dry.at("batch_size").get<int64_t>(),
                        dry.at("epochs").get<double>(), human_count(dry.at("training_examples")))));
  CHECK(contains(text, "start       " + dry.at("start").get<std::string>() + "\n"));
  CHECK(contains(text, "memory      " + human_bytes(dry.at("memory_bytes_per_process")) + " for "));
  for (const auto& [name, entry] : dry.at("evaluators").items())
    CHECK(contains(text, fmt::format("evaluator   {}: {} examples\n", name,
                                     human_count(entry.at("examples")))));
  CHECK(dry.at("checked_examples") == 2);
  // On other devices `auto` means something else.
  const json gpus = parsed(with({"--json", "--devices", "cuda:0,1,2,3"}));
  CHECK(gpus.at("precision") == "bf16");
  CHECK(gpus.at("precision_reason") == "the device is a GPU");
  CHECK(gpus.at("processes") == 4);
  CHECK(parsed(with({"--json", "--set", "precision=float32"})).at("precision_reason") == "");
}

TEST_CASE("--explain shows what precision auto means") {
  const std::string config = source_file("configs/digits_cnn.yaml");
  const std::string cpu = run({"--config", config, "--explain"}).out;
  CHECK((contains(cpu, "auto (float32)") || contains(cpu, "auto (bf16)")));
  CHECK(contains(run({"--config", config, "--explain", "--devices", "cuda"}).out, "auto (bf16)"));
}

TEST_CASE("bench --json") {
  const std::string config = source_file("configs/digits_cnn.yaml");
  const json bench = parsed({"bench", "--config", config, "--seconds", "0.01", "--json"});
  CHECK(bench.at("batch_size") == 64);
  for (const char* what : {"loader", "step", "training"}) {
    const json& rate = bench.at("images_per_second").at(what);
    CHECK(rate.at("min") <= rate.at("median"));
    CHECK(rate.at("median") <= rate.at("max"));
    CHECK(rate.at("min") > 0);
  }

  const json sizes =
      parsed({"bench", "collectives", "--devices", "cpu:2", "--most-mb", "1", "--json"});
  CHECK(sizes.at("processes") == 2);
  CHECK(sizes.at("sizes").front().at("bytes") == 4096);
  CHECK(sizes.at("sizes").back().at("bytes") == 1 << 20);
  CHECK(sizes.at("sizes").back().at("all_reduce_ms") > 0);
  // On a busy host a megabyte may take no longer than 4 KiB.
  CHECK((sizes.at("bandwidth_gb").is_null() || sizes.at("bandwidth_gb") > 0));

  const std::vector<std::string> scaling = {"bench",        "scaling", "--config",       config,
                                            "--processes",  "1,4",     "--compute-ms",   "8",
                                            "--update-ms",  "2",       "--bandwidth-gb", "1",
                                            "--latency-us", "50"};
  std::vector<std::string> with_json = scaling;
  with_json.push_back("--json");
  const json predicted = parsed(with_json);
  const std::vector<std::string> lines = split(run(scaling).out, '\n');
  REQUIRE(predicted.at("predictions").size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const json& row = predicted.at("predictions")[i];
    CHECK(lines.at(i + 2) ==
          fmt::format("{:9} {:6} {:9} {:10.3f} {:10.3f} {:10.1f}% {:12.1f} {:12.2f}",
                      row.at("processes").get<int>(), row.at("hosts").get<int>(),
                      row.at("examples_per_process").get<int>(), row.at("step_ms").get<double>(),
                      row.at("exposed_ms").get<double>(), 100 * row.at("efficiency").get<double>(),
                      row.at("images_per_second").get<double>(),
                      row.at("sent_bytes").get<double>() / 0x1p20));
  }
}

TEST_CASE("--json without anything to print is refused") {
  const Finished train = run({"--config", source_file("configs/digits_cnn.yaml"), "--json"});
  CHECK(train.code == 2);
  CHECK(train.out.empty());
  CHECK(train.err == "--json: error: needs --list or --dry-run here\n");
  const Finished unknown = run({"--list", "modles", "--json"});
  CHECK(unknown.code == 2);
  CHECK(unknown.out.empty());
}

}  // namespace bv::test

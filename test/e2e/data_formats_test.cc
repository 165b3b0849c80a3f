// Training on the same images in every format, and on mixtures, with the real binary.
#include <catch2/catch.hpp>

#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/digits_40.h"

namespace bv::test {
namespace {

// Returns a config that trains on `data` for 12 steps, with an evaluator on `test`.
std::string config_on(const std::string& data, const std::string& test, const std::string& decode) {
  const std::string pp = decode +
                         "value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
                         "keep(\"image\", \"labels\")";
  return R"(
num_classes: 10
total_steps: 12
log_training_steps: 4
ckpt_steps: 4
compute_threads: 1
precision: float32
input:
  data: )" +
         data + "\n  batch_size: 16\n  pp: " + pp + R"(
model_name: cnn
model: {widths: [4]}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
evals:
  val:
    type: classification
    data: )" +
         test + "\n    pp_fn: " + pp + "\n    loss_name: softmax_xent\n    log_steps: 4\n";
}

// The weights and the metrics of a run that has ended.
struct Ended {
  std::string weights;
  std::vector<TextRow> rows;
};

Ended train_in(const TempFolder& dir, const std::string& name, const std::string& yaml,
               const std::vector<std::string>& flags = {}, const Environment& environment = {}) {
  const std::string config = dir.write(name + ".yaml", yaml);
  std::vector<std::string> args = {"--config", config, "--workdir", dir / name};
  args.insert(args.end(), flags.begin(), flags.end());
  const Finished finished = run(args, environment);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  Ended ended;
  ended.weights = read_file(dir / name + "/ckpt/step-12/state-00000-of-00001.safetensors");
  ended.rows = repeatable_rows(dir / name);
  return ended;
}

}  // namespace

TEST_CASE("the same images train the same model, whatever the format") {
  const TempFolder dir;
  const std::string at = digits_40();
  const Ended npz = train_in(dir, "npz",
                             config_on("{name: npz, fname: " + at + "/train.npz}",
                                       "{name: npz, fname: " + at + "/test.npz}", ""));
  REQUIRE(npz.rows.size() > 3);
  REQUIRE(npz.rows.back().contains("val/loss"));
  const std::string decode = "decode(channels=1)|";
  const std::string features = ", features: {image: image/encoded, label: image/class/label}}";
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> formats = {
      {"tfds", {"{name: digits_40, split: train}", "{name: digits_40, split: test}"}},
      {"array_record",
       {"{name: digits_40, data_dir: " + at + "/tfds_array_record}",
        "{name: digits_40, data_dir: " + at + "/tfds_array_record, split: test}"}},
      {"wds",
       {"{name: webdataset, urls: '" + at + "/wds/train-{000..001}.tar'}",
        "{name: webdataset, urls: '" + at + "/wds/test-*.tar'}"}},
      {"tfrecord",
       {"{name: tfrecord, files: '" + at + "/tfrecord/train-*'" + features,
        "{name: tfrecord, files: '" + at + "/tfrecord/test-{00000..00001}-of-00002'" + features}}};
  for (const auto& [name, sections] : formats) {
    INFO(name);
    const Ended other = train_in(dir, name, config_on(sections.first, sections.second, decode), {},
                                 {{"TFDS_DATA_DIR", at + "/tfds"}});
    CHECK(other.weights == npz.weights);
    CHECK(other.rows == npz.rows);
  }
}

TEST_CASE("a mixture trains the same on one and two processes, and after a kill") {
  const TempFolder dir;
  const std::string at = digits_40();
  const std::string pp =
      "value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
      "keep(\"image\", \"labels\")";
  std::string yaml = config_on("{own: 3, tfds: 1}", "{name: npz, fname: " + at + "/test.npz}", "");
  const std::string old = "  pp: " + pp;
  yaml.replace(yaml.find(old), old.size(),
               "  own: {data: {name: digits, split: 'train[:200]'}, pp: '" + pp +
                   "'}\n  tfds: {data: {name: digits_40, data_dir: " + at +
                   "/tfds}, pp: 'decode(channels=1)|" + pp + "'}");
  const Ended one = train_in(dir, "one", yaml);
  const Ended two = train_in(dir, "two", yaml, {"--devices", "cpu:2"});
  REQUIRE(one.rows.size() == two.rows.size());
  // All examples of a step come from one of the two.
  const auto passes = [&](const char* name) { return std::stod(one.rows.back().at(name)); };
  CHECK(200 * passes("input/epoch/own") + 40 * passes("input/epoch/tfds") ==
        Approx(240 * passes("epoch")).epsilon(1e-9));
  CHECK(200 * passes("input/epoch/own") == Approx(180 * passes("epoch")).epsilon(0.15));
  for (size_t i = 0; i < one.rows.size(); ++i) {
    for (const char* key : {"training_loss", "val/loss"}) {
      if (!one.rows[i].contains(key)) continue;
      CHECK(std::stod(one.rows[i].at(key)) ==
            Approx(std::stod(two.rows[i].at(key))).epsilon(1e-4).margin(1e-6));
    }
  }
  // A run that is killed after its first checkpoint and continues is bit-identical at the end.
  const std::string config = dir.write("parts.yaml", yaml);
  REQUIRE(run({"--config", config, "--workdir", dir / "parts"},
              {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:1"}})
              .code == 137);
  const Ended parts = train_in(dir, "parts", yaml);
  CHECK(parts.weights == one.weights);
  CHECK(parts.rows == one.rows);
}

}  // namespace bv::test

// bvtrain predict: its inputs, outputs and weights of every kind are compared with the run's own
// evaluation.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

struct TrainedOnDigits {
  TempFolder dir;
  TrainedOnDigits() {
    const Finished finished = run({"--config", source_file("configs/digits_cnn.yaml"), "--workdir",
                                   dir / "w", "--set", "total_epochs=2"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  }
  // All digits of the test split: `image` (360, 8, 8, 1) uint8, from the IDX file.
  std::string test_images() const {
    const std::string idx =
        read_file(source_file("lib/input/sources/digits/test-images-idx3-ubyte"));
    const int64_t n = (std::ssize(idx) - 16) / 64;
    at::Tensor image = at::zeros({n, 8, 8, 1}, at::kByte);
    std::copy(idx.begin() + 16, idx.end(),
              reinterpret_cast<char*>(image.mutable_data_ptr<uint8_t>()));
    write_npz(dir / "test.npz", {{"image", image}});
    return dir / "test.npz";
  }
  Finished predict(std::vector<std::string> args) const {
    args.insert(args.begin(), "predict");
    return run(args);
  }
};

}  // namespace

TEST_CASE("images with another scale than those of the training are predicted with a warning") {
  const TrainedOnDigits t;
  const auto predicted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--workdir", t.dir / "w", "--output", t.dir / "p.csv"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = t.predict(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished.err;
  };
  const std::string images = t.test_images();
  CHECK_FALSE(contains(predicted({"--input", images}), "scaled"));
  const std::string doubt =
      " after preprocessing, but those of the training had values from -1 to 1: are they scaled in "
      "the same way?";
  CHECK(contains(predicted({"--input", images, "--pp", "value_range(0, 1)"}),
                 "the images have values from 0 to 1" + doubt));
  const std::string weights = t.dir / "m.safetensors";
  REQUIRE(run({"export", "--workdir", t.dir / "w", "--output", weights}).code == 0);
  const Finished from_file = t.predict({"--weights", weights, "--input", images, "--output",
                                        t.dir / "p.csv", "--pp", "value_range(0, 1)"});
  CHECK(contains(from_file.err, "the images have values from 0 to 1" + doubt));
  write_npz(t.dir / "dark.npz", {{"image", at::ones({2, 8, 8, 1}, at::kByte)}});
  CHECK(contains(predicted({"--input", t.dir / "dark.npz"}), doubt));
}

TEST_CASE("predictions of a run are those of its evaluation") {
  const TrainedOnDigits t;
  const std::string images = t.test_images();
  const Finished finished =
      t.predict({"--workdir", t.dir / "w", "--input", images, "--output", t.dir / "p.npz",
                 "--outputs", "logits,pre_logits,image,conv_0,logits", "--ema"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const NamedTensors out = read_npz(t.dir / "p.npz");
  const std::string labels =
      read_file(source_file("lib/input/sources/digits/test-labels-idx1-ubyte")).substr(8);
  const at::Tensor best = out.at("logits").argmax(1);
  int64_t right = 0;
  for (int64_t i = 0; i < best.size(0); ++i) right += best[i].item<int64_t>() == labels[i];
  const double accuracy = std::stod(metric_rows(t.dir / "w").back().at("test/prec@1"));
  CHECK(static_cast<double>(right) / best.size(0) == Approx(accuracy).margin(1e-6));
  CHECK(out.at("image").sizes() == at::IntArrayRef({best.size(0), 8, 8, 1}));
  CHECK(out.at("image").min().item<float>() == -1);
  CHECK(out.at("pre_logits").size(0) == best.size(0));
  CHECK(out.at("conv_0").dim() == 4);

  // Weights from export, an explicit pp and model_init, and another batch size.
  REQUIRE(
      t.predict({"--workdir", t.dir / "w", "--input", images, "--output", t.dir / "r.npz"}).code ==
      0);
  const at::Tensor last = read_npz(t.dir / "r.npz").at("logits").argmax(1);
  REQUIRE(run({"export", "--workdir", t.dir / "w", "--output", t.dir / "params.npz"}).code == 0);
  write(t.dir / "m.yaml", "model_name: cnn\nnum_classes: 10\nprecision: float32\n");
  const auto with_batch = [&](const char* batch, const std::string& load) {
    return t.predict({"--config", t.dir / "m.yaml", "--set", "model_init=" + (t.dir / "params.npz"),
                      "--set", "model_load=" + load, "--input", images, "--output", t.dir / "q.npz",
                      "--pp", "value_range(-1, 1)", "--batch-size", batch});
  };
  const Finished misspelt = with_batch("7", "{dont_lod: [head/.*]}");
  CHECK(misspelt.code == 2);
  CHECK(misspelt.err ==
        "--set model_load={dont_lod: [head/.*]}: error: unknown key 'model_load.dont_lod' (did you "
        "mean 'dont_load'?)\n");
  const auto from_file = [&](const char* batch) {
    const Finished other = with_batch(batch, "{}");
    INFO(other.err);
    REQUIRE(other.code == 0);
    return read_npz(t.dir / "q.npz").at("logits");
  };
  const at::Tensor sevens = from_file("7");
  CHECK(sevens.allclose(from_file("500"), 1e-5, 1e-5));
  CHECK(sevens.argmax(1).eq(last).sum().item<int64_t>() >=
        best.size(0) * 98 / 100);  // bf16 against float32

  const Finished lines = t.predict(
      {"--workdir", t.dir / "w", "--input", images, "--output", t.dir / "p.jsonl", "--top", "3"});
  REQUIRE(lines.code == 0);
  const auto rows = split(read_file(t.dir / "p.jsonl"), '\n');
  REQUIRE(std::ssize(rows) == best.size(0) + 1);
  const nlohmann::json row = nlohmann::json::parse(rows[5]);
  CHECK(row.at("file") == "row 5");
  CHECK(row.at("top").size() == 3);
  CHECK(row.at("top")[0].at("index") == last[5].item<int64_t>());
  CHECK(row.at("top")[0].at("class") == std::to_string(last[5].item<int64_t>()));
  CHECK(row.at("top")[0].at("probability") >= row.at("top")[1].at("probability"));
}

// The training config has keys that predict does not use.
TEST_CASE("predict takes the checkpoint of a sharded run, and every key that training knows") {
  TempFolder dir;
  write_npz(dir / "a.npz", {{"image", at::zeros({3, 8, 8, 1}, at::kByte)}});
  const std::string config = R"(
num_classes: 10
total_steps: 2
input:
  data: {name: digits, split: train}
  batch_size: 16
  pp: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8], dense: 16}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
log_training_steps: 1
evals: {test: {type: classification, data: {name: digits, split: "test[:16]"}, pp_fn: *pp,
               loss_name: softmax_xent, batch_size: 16}}
sharding_strategy: zero1
mesh: [[data, 2]]
mesh_allow_split_physical_axes: false
bucket_mb: 1
profile: {first_step: 2, steps: 1}
prefetch_to_device: 2
ckpt_timeout: 1
)";
  write(dir / "c.yaml", config);
  const Finished trained =
      run({"--config", dir / "c.yaml", "--workdir", dir / "w", "--devices", "cpu:2"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto predict = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"predict",     "--workdir", dir / "w",    "--input",
                                     dir / "a.npz", "--output",  dir / "p.npz"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  };
  const Finished plain = predict({});
  INFO(plain.err);
  REQUIRE(plain.code == 0);
  CHECK(read_npz(dir / "p.npz").at("logits").sizes() == at::IntArrayRef{3, 10});
  CHECK(run({"export", "--workdir", dir / "w", "--output", dir / "e.npz"}).code == 0);

  const Finished explained = run({"--config", dir / "c.yaml", "--explain"});
  INFO(explained.err);
  REQUIRE(explained.code == 0);
  std::string all = "model_name: cnn\nnum_classes: 10\nmodel: {widths: [8], dense: 16}\n";
  int count = 0;
  for (const std::string& line : split(explained.out, '\n')) {
    const std::string name = line.substr(0, line.find(' '));
    if (name.empty() || name == "key" || name.find_first_of(".[:") != std::string::npos) continue;
    ++count;
    // A key without a value is unknown too.
    if (all.find("\n" + name + ":") == std::string::npos && !all.starts_with(name + ":"))
      all += name + ": null\n";
  }
  CHECK(count > 40);
  write(dir / "m.yaml", all);
  const Finished every = predict({"--config", dir / "m.yaml", "--pp", "value_range(-1, 1)"});
  INFO(every.err);
  CHECK(every.code == 0);
  write(dir / "m.yaml", all + "modl_init: null\n");
  CHECK(predict({"--config", dir / "m.yaml", "--pp", "value_range(-1, 1)"}).code == 2);
}

TEST_CASE("predict preprocesses without a model, and refuses what it cannot do") {
  TempFolder dir;
  write_npz(dir / "a.npz", {{"image", at::zeros({3, 5, 4, 3}, at::kByte)}});
  write(dir / "empty.yaml", "{}\n");
  const std::vector<std::string> image = {"predict",     "--config",    dir / "empty.yaml",
                                          "--input",     dir / "a.npz", "--output",
                                          dir / "i.npz", "--pp",        "value_range(-1, 1)"};
  std::vector<std::string> only_image = image;
  only_image.insert(only_image.end(), {"--outputs", "image"});
  REQUIRE(run(only_image).code == 0);
  CHECK(read_npz(dir / "i.npz").at("image").eq(-1).all().item<bool>());

  const auto refused = [&](const std::vector<std::string>& args) {
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    std::string text = finished.err;
    for (size_t at; (at = text.find(dir.path() + "/")) != std::string::npos;)
      text.erase(at, dir.path().size() + 1);
    return text;
  };
  CHECK(refused(image) == "empty.yaml: error: num_classes: missing: an integer is required\n");
  write(dir / "m.yaml", "model_name: cnn\nnum_classes: 10\nmodel: {}\n");
  std::vector<std::string> no_weights = image;
  no_weights[2] = dir / "m.yaml";
  CHECK(refused(no_weights) ==
        "bvtrain predict: error: no weights: give --workdir, --weights FILE, or --set "
        "model_init=FILE\n");
  no_weights[4] = dir / "none";
  CHECK(refused(no_weights) == "none: error: no such file or folder\n");
  write(dir / "m.yaml", "model_name: cnn\nnum_classes: 10\nmodl_init: x\n");
  CHECK(run({"predict", "--config", dir / "m.yaml", "--input", dir / "a.npz", "--output", "x.txt"})
            .err ==
        "--output x.txt: error: unknown suffix '.txt'; known: .npz, .jsonl, .csv; or give "
        "--format\n");
  CHECK(refused({"predict", "--input", dir / "a.npz", "--output", dir / "x.npz"}) ==
        "bvtrain predict: error: give --workdir D, or --weights F, or --config C\n");
  CHECK(!exists(dir / "x.npz"));
}

}  // namespace bv::test

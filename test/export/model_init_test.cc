// Export of a config with model_init: the metadata and the weights are those of the file or run.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/config/load_config.h"
#include "lib/export/export.h"
#include "lib/model/init.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

const std::string kModel = "model_name: cnn, model: {widths: [4], dense: 8}, num_classes: 2";

// A run of a cnn with a checkpoint.
struct SmallRun {
  MemoryFolder folder;
  const std::string workdir = folder / "w";
  SmallRun() { save(7); }
  void save(int64_t step) const {
    const auto model = make_model("cnn", "{widths: [4], dense: 8}", {2, 8, 8, 1});
    init_parameters(*model, static_cast<uint64_t>(step), std::nullopt);
    Snapshot snapshot;
    snapshot.step = step;
    for (const auto& [name, value] : named_parameters(*model)) {
      snapshot.tensors["params/" + name] = value.detach().clone();
      snapshot.tensors["ema/" + name] = value.detach() + 1;
    }
    snapshot.meta = {{"config", parse_config("{" + kModel + "}", "r.yaml").json()},
                     {"precision", "bf16"},
                     {"image", {8, 8, 1}},
                     {"image_values", {-1, 1}},
                     {"class_names", {"cat", "dog"}}};
    Checkpointer checkpointer{Workdir(workdir)};
    checkpointer.save(std::move(snapshot), false);
    checkpointer.wait();
  }
};

TrainedModel from(const std::string& path, const std::string& dont_load = "[]") {
  const std::string config = fmt::format("{{{}, model_init: '{}', model_load: {{dont_load: {}}}}}",
                                         kModel, path, dont_load);
  return load_trained_model(parse_config(config, "c.yaml"), std::nullopt);
}

}  // namespace

TEST_CASE("export: model_init gives the metadata that it records") {
  const SmallRun run;
  const std::string file = run.folder / "m.safetensors";
  for (const bool ema : {false, true}) {
    INFO("ema: " << ema);
    const TrainedModel whole = load_trained_model(Checkpointer::load(run.workdir), ema);
    const Metadata expected = metadata_of(whole);
    CHECK(expected.at("bvtrain.ema") == (ema ? "true" : "false"));
    CHECK(expected.at("bvtrain.step") == "7");
    const TrainedModel again = from(ema ? run.workdir + ":ema" : run.workdir);
    CHECK(again.params.at("head/bias").equal(whole.params.at("head/bias")));
    CHECK(metadata_of(again) == expected);
    export_weights(whole, "safetensors", file);
    CHECK(metadata_of(from(file)) == expected);
  }
}

TEST_CASE("export: model_init of a workdir gives weights and metadata of one checkpoint") {
  const SmallRun run;
  const Metadata whole = metadata_of(from(run.workdir));
  const at::Tensor kernel = from(run.workdir).params.at("head/kernel");
  run.save(9);
  const std::string newest = run.workdir + "/ckpt/step-9";
  CHECK(recorded_training(run.workdir).step == 9);
  for (const auto& entry : std::filesystem::directory_iterator(newest)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = read_text(entry.path().string());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write(entry.path().string(), bytes);
  }
  const TrainedModel again = from(run.workdir);
  CHECK(again.origin.ends_with("/step-7"));
  CHECK(again.params.at("head/kernel").equal(kernel));
  CHECK(metadata_of(again) == whole);
  CHECK(recorded_training(run.workdir).step == 7);
  CHECK(recorded_training(run.workdir + ":ema").ema);
}

TEST_CASE("export: arrays without elements do not say how large the images are") {
  const TempFolder dir;
  const std::string file = dir / "w.safetensors";
  write_safetensors(file, {{"pos_embedding", at::empty({1, int64_t{1} << 50, 0})},
                           {"embedding/kernel", at::empty({int64_t{1} << 40, 16, 3, 0})}});
  const std::string config =
      "{model_name: vit, model: {variant: mu/16}, num_classes: 2, model_init: '" + file + "'}";
  CHECK(error_of([&] { load_trained_model(parse_config(config, "c.yaml"), std::nullopt); }) ==
        file +
            ": error: does not record the size of the model's images; give --image-size "
            "HEIGHT,WIDTH[,CHANNELS]");
}

TEST_CASE("export: model_load may not leave out what the model has") {
  const SmallRun run;
  CHECK(error_of([&] { from(run.workdir, "['fc_norm/.*']"); }) == "");
  CHECK_THAT(error_of([&] { from(run.workdir, "['head/.*']"); }),
             Catch::StartsWith("c.yaml:1:") &&
                 Catch::EndsWith(": error: model_load.dont_load leaves out head/bias, head/kernel, "
                                 "which would be untrained; --set model_load=null loads "
                                 "everything"));
}

}  // namespace bv::test

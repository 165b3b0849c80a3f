#include "lib/predict/replay_step.h"

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/model/init.h"
#include "lib/optim/param_groups.h"
#include "lib/predict/predict_model.h"
#include "lib/predict/trained_parts.h"
#include "lib/train/start.h"
#include "lib/util/file.h"

namespace bv {
namespace {

Restored read_bad_step(const std::string& folder) {
  const std::string weights = folder + "/" + kBadStepWeights;
  if (!file_exists(weights + "/" + kManifestName)) {
    throw Error(
        Exit::usage, folder,
        file_exists(folder + "/" + kBadStepReport)
            ? "has no weights: the step was detected after its update, or the state was sharded; "
              "`bvtrain replay --workdir D` repeats the run from its last checkpoint, if it has one"
            : "is not the folder of a bad step, such as D/post-mortem/step-12");
  }
  Restored restored = Checkpointer::load(weights);
  if (!restored.meta.contains("bad_step"))
    throw Error(Exit::usage, weights, "is not of a bad step");
  return restored;
}

// Reads the examples of a batch that was too large to save. The checkpoint's metadata say where the
// stream of examples was.
BadStep read_examples_again(const Restored& before, const nlohmann::json& bad_step_meta) {
  const Config config = parse_config_json(run_config(before), before.folder, {});
  const Recipe recipe(config, before.meta.value("synthetic", false), /*meta=*/true, Group::single(),
                      c10::kCPU, 0, classes_of(before));
  const int64_t step = before.step + 1;
  const int64_t seen = before.step * recipe.length.batch_size;
  const int64_t shift = before.meta.value("position", seen) - seen;
  BadStep bad = bad_step(recipe, step, bad_step_meta.at("reason").get<std::string>(),
                         whole_batch(recipe, step, shift), shift);
  if (bad.examples != bad_step_meta.at("examples").get<std::vector<std::string>>()) {
    throw Error(Exit::usage, before.folder,
                "the run did not save the step's batch, and its data have other examples now");
  }
  return bad;
}

// Reads the batch that the run has saved.
BadStep read_batch(const std::string& folder, const Restored& before,
                   const nlohmann::json& bad_step_meta) {
  BadStep bad;
  bad.step = before.step + 1;
  bad.reason = bad_step_meta.at("reason").get<std::string>();
  bad.examples = bad_step_meta.at("examples").get<std::vector<std::string>>();
  bad.bad_examples = bad_step_meta.at("bad_examples").get<std::vector<std::string>>();
  if (batch_checksum(folder) != bad_step_meta.at("batch").get<std::string>()) {
    throw Error(Exit::usage, folder + "/" + kBadStepBatch,
                "its checksum is not the one in weights/: the file was changed");
  }
  bad.batch = read_npz(folder + "/" + kBadStepBatch);
  return bad;
}

}  // namespace

BadStep replay_step(const std::string& folder) {
  const Restored before = read_bad_step(folder);
  const nlohmann::json& meta = before.meta;
  const Config config = parse_config_json(run_config(before), before.folder, {});
  TrainedParts parts = make_trained_parts(config, before);
  throw_problems(config);
  init_parameters(*parts.model, 0, std::nullopt);
  copy_weights(before, /*ema=*/false, *parts.model);
  freeze_parameters(config, *parts.model);
  const nlohmann::json& about = meta.at("bad_step");
  BadStep bad = about.value("batch", std::string()).empty() ? read_examples_again(before, about)
                                                            : read_batch(folder, before, about);
  bad.update = about.value("update", false);
  bad.norms = parameter_norms(*parts.model);
  bad.float32 = diagnose(*parts.model, *parts.task, bad.batch, read_mixup(config),
                         static_cast<uint64_t>(config.get<int64_t>("seed", 0)), bad.step,
                         meta.value("ranks", 1));
  return bad;
}

}  // namespace bv

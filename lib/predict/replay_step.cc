#include "lib/predict/replay_step.h"

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/model/init.h"
#include "lib/predict/predict_model.h"
#include "lib/predict/trained_parts.h"
#include "lib/train/start.h"
#include "lib/util/file.h"

namespace bv {
namespace {

Restored read_weights(const std::string& folder) {
  const std::string weights = folder + "/" + kBadStepWeights;
  if (!file_exists(weights + "/" + kManifestName)) {
    throw Error(
        Exit::usage, folder,
        file_exists(folder + "/" + kBadStepReport)
            ? "has no weights: the step was detected after its update, or the state was sharded; "
              "`bvtrain replay --workdir D` repeats the run from its last checkpoint"
            : "is not the folder of a bad step, such as D/post-mortem/step-12");
  }
  Restored restored = Checkpointer::load(weights);
  if (!restored.meta.contains("bad_step"))
    throw Error(Exit::usage, weights, "is not of a bad step");
  return restored;
}

}  // namespace

BadStep replay_step(const std::string& folder) {
  const Restored before = read_weights(folder);
  const nlohmann::json& meta = before.meta;
  const Config config = parse_config_json(run_config(before), before.folder, {});
  TrainedParts parts = make_trained_parts(config, before);
  throw_problems(config);
  init_parameters(*parts.model, 0, std::nullopt);
  copy_weights(before, /*ema=*/false, *parts.model);
  BadStep bad;
  bad.step = before.step + 1;
  bad.reason = meta.at("bad_step").at("reason").get<std::string>();
  bad.examples = meta.at("bad_step").at("examples").get<std::vector<std::string>>();
  bad.bad_examples = meta.at("bad_step").at("bad_examples").get<std::vector<std::string>>();
  bad.norms = parameter_norms(*parts.model);
  if (batch_checksum(folder) != meta.at("bad_step").value("batch", std::string())) {
    throw Error(Exit::usage, folder + "/" + kBadStepBatch,
                "its checksum is not the one in weights/: the file was changed");
  }
  bad.batch = read_npz(folder + "/" + kBadStepBatch);
  bad.float32 = diagnose(*parts.model, *parts.task, bad.batch, read_mixup(config),
                         static_cast<uint64_t>(config.get<int64_t>("seed", 0)), bad.step,
                         meta.value("ranks", 1));
  return bad;
}

}  // namespace bv

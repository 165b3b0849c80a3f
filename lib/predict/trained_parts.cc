#include "lib/predict/trained_parts.h"

namespace bv {

TrainedParts make_trained_parts(const Config& config, const Restored& from) {
  if (!from.meta.contains("image"))
    throw Error(Exit::usage, from.folder, "does not record the size of the model's images");
  const auto image = from.meta.at("image").get<std::vector<int64_t>>();
  const auto num_classes = config.get<int64_t>("num_classes");
  const auto name = config.get<std::string>("model_name");
  TrainedParts parts;
  parts.env = {num_classes, image[0], image[1], image[2]};
  parts.model =
      Model::Registry::make(name, config.section("model"), config.place("model_name"), parts.env);
  TaskEnv env;
  const std::string task = config.get("task", "classify");
  env.loss_name = config.get("loss", default_loss(task));
  env.loss_place = config.place("loss");
  env.label_smoothing = config.get<double>("label_smoothing", 0.0);
  env.num_classes = num_classes;
  parts.task = Task::Registry::make(task, config.section("task_kw"), config.place("task"), env);
  parts.task->add_buffers(*parts.model, num_classes);
  return parts;
}

}  // namespace bv

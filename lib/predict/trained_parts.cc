#include "lib/predict/trained_parts.h"

#include "lib/train/recipe.h"

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
  parts.task = Task::Registry::make(config.get("task", "classify"), config.section("task_kw"),
                                    config.place("task"), read_task_env(config, num_classes));
  parts.task->add_buffers(*parts.model, num_classes);
  return parts;
}

}  // namespace bv

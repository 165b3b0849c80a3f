#include "lib/evals/common/predict.h"

#include <ATen/core/grad_mode.h>

#include "lib/input/example.h"

namespace bv {
namespace {

[[noreturn]] void refuse_activation(const std::string& name, Outputs outputs, Features features) {
  outputs.merge(features);
  throw Error(Exit::usage, "",
              fmt::format("the model has no output '{}'; it has: {}", name, names_of(outputs)));
}

// Returns the batch on the device of the model's parameters. The copy is asynchronous: `batch` must
// live until the outputs have been read.
Batch to_device_of(const Model& model, const Batch& batch) {
  if (model.parameters().empty()) return batch;
  const c10::Device device = model.parameters().front().value.device();
  Batch moved;
  for (const auto& [name, value] : batch) moved[name] = value.to(device, /*non_blocking=*/true);
  return moved;
}

[[noreturn]] void refuse_tta(const std::string& activation) {
  throw Error(Exit::usage, "",
              fmt::format("tta averages the model's outputs, but this evaluator uses the "
                          "activation '{}'; remove tta",
                          activation));
}

// Returns the mean of the outputs over all variants of the images.
Outputs mean_over_forms(const Task& task, const std::string& pred, Model& model, Batch input,
                        Pass& pass, const Tta& tta) {
  const auto forms = tta_forms(input.at("image"), tta);
  Outputs mean;
  for (const auto& [images, weight] : forms) {
    input["image"] = images;
    for (auto& [name, value] : task.predict(pred, model, input, pass)) {
      const at::Tensor share = value * weight;
      mean[name] = mean.contains(name) ? mean[name] + share : share;
    }
  }
  return mean;
}

// Throws if the model does not take images of this size. An evaluator may have several data sets,
// and the check before the run covers only one of them.
void check_size(const Model& model, const Batch& batch) {
  const auto image = batch.find("image");
  if (image == batch.end() || image->second.dim() != 4) return;  // the task refuses that
  const int64_t height = image->second.size(1), width = image->second.size(2);
  if (model.takes_size(height, width)) return;
  throw Error(Exit::usage, "",
              fmt::format("the images are {}x{}, but the model was built for another size and "
                          "cannot take them; make pp_fn resize them",
                          height, width));
}

}  // namespace

Predict bind_prediction(const Task& task, const std::string& pred, Model& model,
                        Precision precision, const Tta& tta) {
  return [&task, pred, &model, precision, tta](const Batch& batch,
                                               const std::vector<std::string>& activations) {
    const c10::NoGradGuard no_grad;
    check_size(model, batch);
    task.check_values(batch);
    Features features;
    Pass pass;
    pass.precision = precision;
    if (!activations.empty()) {
      pass.features = &features;
      pass.wanted = &activations;
    }
    const UnitScope scope(model, pass);
    const Batch input = to_device_of(model, batch);
    Outputs outputs = tta.any() ? mean_over_forms(task, pred, model, input, pass, tta)
                                : task.predict(pred, model, input, pass);
    for (const std::string& name : activations) {
      if (outputs.contains(name)) continue;
      if (tta.any()) refuse_tta(name);
      if (!features.contains(name)) {
        pass.wanted = nullptr;  // predict again to list what the model has
        task.predict(pred, model, input, pass);
        refuse_activation(name, outputs, features);
      }
      outputs[name] = features.at(name);
    }
    for (auto& [name, value] : outputs)
      if (!value.is_meta()) value = value.cpu();
    return outputs;
  };
}

}  // namespace bv

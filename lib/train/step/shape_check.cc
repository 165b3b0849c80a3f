#include "lib/train/step/shape_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <functional>
#include <utility>

#include "lib/train/recipe_reading.h"

namespace bv {
namespace {

// Runs `body`. Errors that name no place get `place`.
void at_place(const Place& place, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != Exit::usage || !error.needs_place()) throw;
    throw Error(Exit::usage, place, error.component().empty() ? error.message() : error.what());
  }
}

}  // namespace

Batch probe_evaluator(const EvalJob& job, const Config& keys, int64_t n) {
  Batch batch;
  read_example(keys, "pp_fn", [&] { batch = job.evaluator->probe(n); });
  if (!batch.empty() && !batch.contains("image"))
    keys.fail("pp_fn", fmt::format("gives no 'image' (it gives {})", names_of(batch)));
  return batch;
}

ShapeCheck::ShapeCheck(const Config& config, const std::string& model_name, const ModelEnv& env,
                       Precision precision, const Task& task)
    : task_(task), env_(env), precision_(precision) {
  {
    const MetaDevice meta;
    model_ =
        Model::Registry::make(model_name, config.section("model"), config.place("model_name"), env);
  }
  task_.add_buffers(*model_, env_.num_classes);
}

Batch ShapeCheck::on_meta(const Batch& batch) const {
  Batch shapes;
  for (const auto& [name, value] : batch)
    shapes[name] = at::empty(value.sizes(), value.options().device(at::kMeta));
  return shapes;
}

void ShapeCheck::training(const Example& first, const Place& place) const {
  const at::NoGradGuard no_grad;
  Batch batch;
  for (const auto& [name, value] : first) batch[name] = value.unsqueeze(0);
  Pass pass;
  pass.precision = precision_;
  at_place(place, [&] {
    try {
      task_.loss(*model_, on_meta(batch), pass);
    } catch (const c10::Error&) {
      // The model was built for images of this size, so the shapes fit: an operator lacks an
      // implementation on the meta device.
    }
  });
}

void ShapeCheck::evaluation(const EvalJob& job, const Batch& batch, const Config& keys) const {
  Outputs outputs = check_prediction(job.pred, batch, keys.place("pp_fn"));
  check_outputs(job, batch, std::move(outputs), keys);
}

Outputs ShapeCheck::check_prediction(const std::string& pred, const Batch& batch,
                                     const Place& place) const {
  const at::NoGradGuard no_grad;
  const at::Tensor& image = batch.at("image");
  const auto fail = [&](const std::string& why) { throw Error(Exit::usage, place, why); };
  const std::string fault = image_fault(image.dim() - 1, image.scalar_type());
  if (!fault.empty()) fail(fault);
  const auto wrong_size = [&] {
    fail(fmt::format(
        "gives images of {}x{}x{}, but the model was built for {}x{}x{} and cannot take "
        "them",
        image.size(1), image.size(2), image.size(3), env_.height, env_.width, env_.channels));
  };
  if (image.size(3) != env_.channels || !model_->takes_size(image.size(1), image.size(2)))
    wrong_size();
  Pass pass;
  pass.precision = precision_;
  Outputs outputs;
  at_place(place, [&] {
    try {
      outputs = task_.predict(pred, *model_, on_meta(batch), pass);
    } catch (const c10::Error&) {
      // With images of the model's own size, the cause is an operator without an implementation on
      // the meta device.
      if (image.size(1) != env_.height || image.size(2) != env_.width) wrong_size();
    }
  });
  return outputs;
}

// Throws if an evaluator requests an activation that the model does not have, if its test-time
// augmentation does not work, or if it cannot use the outputs. Otherwise only the first evaluation
// would detect this.
void ShapeCheck::check_outputs(const EvalJob& job, const Batch& batch, Outputs outputs,
                               const Config& keys) const {
  if (outputs.empty()) return;
  const std::vector<std::string> activations = job.evaluator->activations();
  try {
    if (!activations.empty() || job.tta.any()) {
      outputs = bind_prediction(task_, job.pred, *model_, precision_, job.tta)(on_meta(batch),
                                                                               activations);
    }
    job.evaluator->check_outputs(batch, outputs);
  } catch (const Error& error) {
    if (error.code() != Exit::usage || !error.needs_place() || !error.component().empty()) throw;
    keys.fail("", error.message());
  }
}

}  // namespace bv

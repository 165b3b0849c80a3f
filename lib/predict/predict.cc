#include "lib/predict/predict.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <utility>

#include "lib/ckpt/weights_file.h"
#include "lib/config/load_config.h"
#include "lib/device/spin_throttle.h"
#include "lib/export/trained_model.h"
#include "lib/input/data_notes.h"
#include "lib/model/model_size_limit.h"
#include "lib/model/target_scale.h"
#include "lib/predict/predict_data.h"
#include "lib/report/log.h"
#include "lib/tasks/task.h"
#include "lib/train/keys.h"
#include "lib/train/weights/weights.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// The trained model, with its weights loaded.
class Predictor {
 public:
  // `numbers`: the model predicts numbers. Frees the tensors of the checkpoint in `from`.
  Predictor(PredictModel& from, const PredictRequest& request, const PredictData& data,
            bool numbers)
      : device_(request.device),
        precision_(precision_as_trained(from.config, from.precision, request.device)) {
    const Config& config = from.config;
    const at::Tensor& image = data.first_image();
    check_image(image, data.pp_place());
    const ModelEnv env = {config.get<int64_t>("num_classes"), image.size(0), image.size(1),
                          image.size(2)};
    const std::string weights = weights_of(from);
    const auto name = config.get<std::string>("model_name");
    if (from.checkpoint) {
      const ModelSizeLimit limit(bytes_in(from.checkpoint->tensors), from.origin);
      model_ = build(config, env);
      check_size(*model_, from, image, data.pp_place());
      if (from.checkpoint->tensors.contains(fmt::format("buffers/{}", kTargetMean)))
        add_target_scale(*model_, env.num_classes);
      copy_weights(*from.checkpoint, from.ema, *model_);
      from.checkpoint->tensors.clear();
      warn_of_other_weights(config, from.ema);
    } else {
      // The file may describe any model, so a model without memory is compared with it first.
      const std::optional<uint64_t> bytes = weights.empty() ? std::nullopt : peek_weights(weights);
      std::shared_ptr<Model> shapes = build_shapes(config, env, bytes, weights);
      check_size(*shapes, from, image, data.pp_place());
      const bool scale = numbers && !weights.empty() && has_target_scale(weights, *shapes);
      if (scale) add_target_scale(*shapes, env.num_classes);
      const std::vector<WeightCopy> copies = plan_file(from, weights, *shapes);
      model_ = build(config, env);
      if (scale) add_target_scale(*model_, env.num_classes);
      fill(copies);
    }
    move_to(device_, *model_);
    log::info("Predicting with {} of {}{}, precision {}", name,
              from.checkpoint ? from.origin : weights,
              device_.is_cpu() ? "" : " on " + device_.str(),
              precision_ == Precision::bf16 ? "bf16" : "float32");
  }

  // Returns the logits, and in `features` the activations that `wanted` names; null: all of them.
  // They are on the device of the request.
  at::Tensor operator()(const at::Tensor& images, const std::vector<std::string>* wanted,
                        Features& features) {
    const at::NoGradGuard no_grad;
    Pass pass;
    pass.precision = precision_;
    pass.features = &features;
    pass.wanted = wanted;
    return in_target_units(*model_, model_->forward(images.to(device_), pass));
  }

 private:
  // `place`: what sets the preprocessing.
  static void check_image(const at::Tensor& image, const Place& place) {
    const std::string fault = image_fault(image.dim(), image.scalar_type());
    if (!fault.empty()) throw Error(Exit::usage, place, fault);
  }

  // Throws at `place` if the images have another number of channels than the training images, or a
  // size that the weights do not fit.
  static void check_size(const Model& model, const PredictModel& from, const at::Tensor& image,
                         const Place& place) {
    if (from.image.size() != 3 || image.sizes() == at::IntArrayRef(from.image)) return;
    if (image.size(2) != from.image[2] || !weights_fit_places(model, from.image[0], from.image[1],
                                                              /*resampled=*/!from.checkpoint)) {
      throw Error(Exit::usage, place,
                  fmt::format("gives images of {}, but the model was trained on {} and cannot take "
                              "them",
                              shape_text(image.sizes()), shape_text(from.image)));
    }
    log::warn("preprocessed images have shape {}, but the model was trained on {}",
              shape_text(image.sizes()), shape_text(from.image));
  }

  // Returns the weights file, empty if the weights are in a checkpoint or missing.
  static std::string weights_of(const PredictModel& from) {
    if (from.checkpoint || !from.weights.empty()) return from.weights;
    return from.config.get("model_init", "");
  }

  static uint64_t bytes_in(const NamedTensors& tensors) {
    uint64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
    return bytes;
  }

  // Builds the model. All its values come from the weights, so none are initialized.
  static std::shared_ptr<Model> build(const Config& config, const ModelEnv& env) {
    std::shared_ptr<Model> model =
        Model::Registry::make(config.get<std::string>("model_name"), config.section("model"),
                              config.place("model_name"), env);
    throw_problems(config);
    return model;
  }

  // The same without memory. Throws Error(Exit::usage) if the model is far too large for `bytes`
  // bytes of weights, if that is known.
  static std::shared_ptr<Model> build_shapes(const Config& config, const ModelEnv& env,
                                             std::optional<uint64_t> bytes,
                                             const std::string& weights) {
    const MetaDevice no_memory;
    std::optional<ModelSizeLimit> limit;
    if (bytes) limit.emplace(*bytes, weights);
    return build(config, env);
  }

  // Returns what to copy from a weights file into a model such as `model`: all its parameters and
  // buffers.
  static std::vector<WeightCopy> plan_file(const PredictModel& from, const std::string& path,
                                           const Model& model) {
    if (path.empty()) {
      throw Error(Exit::usage, "bvtrain predict",
                  "no weights: give --workdir, --weights FILE, or --set model_init=FILE");
    }
    if (!from.weights.empty()) {  // a config's `model_load` belongs to its own model_init
      for (const char* key : {"model_init", "model_load"}) from.config.mark_read(key);
      return plan_weights(path, model, {});
    }
    const DontLoad dont_load = read_dont_load(from.config);
    throw_problems(from.config);
    require_all_loaded(dont_load, model);
    return plan_weights(path, model, dont_load.patterns, dont_load.place.text());
  }

  void fill(const std::vector<WeightCopy>& copies) {
    NamedTensors targets;
    for (const auto& [name, parameter] : named_parameters(*model_)) targets[name] = parameter;
    for (const auto& [name, buffer] : named_buffers(*model_)) targets["buffers/" + name] = buffer;
    const c10::AutoGradMode no_grad(false);
    for (const WeightCopy& copy : copies) targets.at(copy.name).copy_(copy.from);
  }

  const c10::Device device_;
  const Precision precision_;
  const SpinThrottle throttle_{at::get_num_threads()};
  std::shared_ptr<Model> model_;
};

[[noreturn]] void unknown_output(const std::string& output, const Features& features) {
  std::vector<std::string> known = {"image", "logits"};
  for (const auto& [name, value] : features) {
    if (name != "logits") known.push_back(name);
  }
  throw Error(Exit::usage, "--outputs", unknown_name_message("output", output, known));
}

// Returns the requested outputs for one batch of preprocessed images.
NamedTensors outputs_of(const PredictRequest& request, Predictor* predictor,
                        const at::Tensor& images) {
  Features features;
  if (predictor) {
    const at::Tensor logits = (*predictor)(images, &request.outputs, features);
    features["logits"] = logits;
  }
  NamedTensors arrays;
  for (const std::string& output : request.outputs) {
    if (output == "image") {
      arrays[output] = images.clone();
      continue;
    }
    const auto found = features.find(output);
    if (found == features.end()) {
      if (predictor) (*predictor)(images, /*wanted=*/nullptr, features);  // for the message
      unknown_output(output, features);
    }
    arrays[output] = found->second.to(at::kCPU, at::kFloat).contiguous().clone();
  }
  return arrays;
}

// Makes each row with an output that is NaN or infinite a row with an error, which the arrays do
// not have. Warns of each. Returns their number.
int64_t refuse_not_finite(PredictedBatch& batch) {
  at::Tensor good;  // (n) bool
  for (const auto& [name, values] : batch.arrays) {
    if (name == "image") continue;
    const at::Tensor finite = at::isfinite(values.reshape({values.size(0), -1})).all(1);
    good = good.defined() ? good.logical_and(finite) : finite;
  }
  if (!good.defined() || good.all().item<bool>()) return 0;
  int64_t place = 0;  // in the arrays
  for (PredictedRow& row : batch.rows) {
    if (!row.error.empty() || good[place++].item<bool>()) continue;
    row = {.name = row.name, .error = "the model's output is NaN or infinite"};
    log::warn("skipped {}: {}", row.name, row.error);
  }
  const at::Tensor kept = good.nonzero().squeeze(1);
  for (auto& [name, values] : batch.arrays) values = values.index_select(0, kept);
  if (kept.numel() == 0) batch.arrays.clear();
  return place - kept.numel();
}

// Finds labels that are no class of the model, which no prediction can match.
class OtherLabels {
 public:
  // `remedy`: the end of the error message.
  OtherLabels(const PredictData& data, std::string remedy)
      : data_(data), remedy_(std::move(remedy)) {}

  // Throws Error(Exit::usage) for such a label if data.labels_are_classes().
  void find_in(const PredictedBatch& batch) {
    const auto logits = batch.arrays.find("logits");
    if (batch.numbers || logits == batch.arrays.end() || logits->second.dim() != 2) return;
    const int64_t classes = logits->second.size(1);
    for (const PredictedRow& row : batch.rows) {
      if (!row.label || row.label->classes.empty() || row.label->classes.back() < classes) continue;
      const std::string known =
          data_.labels().tell_presence()
              ? "the model has one class, so a label is 1 (the image has it) or 0"
              : fmt::format("the classes of the model are 0 .. {}", classes - 1);
      const std::string what =
          fmt::format("the label of {} is {}, but {}", row.name, row.label->classes.back(), known);
      if (data_.labels_are_classes())
        throw Error(Exit::usage, data_.labels_place(), what + remedy_);
      if (count_++ == 0) first_ = what;
    }
  }
  void warn() const {
    if (count_ == 0) return;
    log::warn("{}: {} {} no class of the model, so {} as wrong; the first: {}",
              data_.labels_place(), counted(count_, "label"), count_ == 1 ? "is" : "are",
              count_ == 1 ? "its image counts" : "their images count", first_);
  }

 private:
  const PredictData& data_;
  const std::string remedy_;
  int64_t count_ = 0;
  std::string first_;
};

}  // namespace

PredictedCounts predict(PredictModel& model, const PredictRequest& request,
                        const std::function<void(const PredictedBatch&)>& each) {
  check(!request.outputs.empty(), "no outputs requested");
  const std::string loss = read_loss(model.config);
  PredictedBatch batch;
  batch.numbers = compares_numbers(loss);  // a weights file's card names no task
  PredictData data(model, request, batch.numbers);
  std::optional<Predictor> predictor;
  if (std::any_of(request.outputs.begin(), request.outputs.end(),
                  [](const std::string& name) { return name != "image"; })) {
    predictor.emplace(model, request, data, batch.numbers);
    finish_reading(model.config, kEvalKeys);
  }
  const RightLabels& labels = data.labels();
  batch.class_names = model.class_names;
  if (batch.class_names.empty() && labels.have_names_of_data())
    batch.class_names = data.data().class_names();
  batch.labelled = data.labelled();
  batch.multilabel = labels.multilabel();
  batch.threshold = labels.threshold();
  batch.sigmoid = loss == "sigmoid_xent" || batch.multilabel;
  OtherLabels other_labels(
      data, request.eval.empty() ? "; to predict without labels, leave the array 'label' out" : "");
  PredictedCounts counts;
  while (data.next()) {
    batch.rows = data.rows();
    batch.arrays.clear();
    if (data.images().size(0) > 0)
      batch.arrays = outputs_of(request, predictor ? &*predictor : nullptr, data.images());
    other_labels.find_in(batch);
    counts.examples += std::ssize(batch.rows);
    const int64_t not_finite = refuse_not_finite(batch);
    counts.not_finite += not_finite;
    counts.failed += std::ssize(batch.rows) - data.images().size(0) + not_finite;
    each(batch);
  }
  if (counts.not_finite > 0 && counts.failed == counts.examples) {
    throw Error(Exit::diverged, "bvtrain predict",
                "the model's output is NaN or infinite for each image that could be read");
  }
  other_labels.warn();
  for (const std::string& line : data.notes()) log::warn("{}", line);
  return counts;
}

}  // namespace bv

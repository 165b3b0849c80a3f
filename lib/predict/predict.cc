#include "lib/predict/predict.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "lib/ckpt/weights_file.h"
#include "lib/config/load_config.h"
#include "lib/device/spin_throttle.h"
#include "lib/params/state_part.h"
#include "lib/predict/predict_inputs.h"
#include "lib/train/keys.h"
#include "lib/train/recipe.h"
#include "lib/train/weights.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Prediction does not need most keys of training, so they count as read. Any other key that nobody
// has read is misspelt and is reported.
void finish_config(const Config& config) {
  for (const auto& keys : {kRunKeys, kInputKeys, kInitKeys, kTaskKeys, kStepKeys, kEvalKeys}) {
    for (const std::string_view key : keys) config.mark_read(key);
  }
  for (const auto& [key, instead] : kSupersededKeys) config.mark_read(key);
  for (const std::string_view duration : kLengthKeys) {
    for (const std::string_view unit : kLengthUnits)
      config.mark_read(fmt::format("{}{}", duration, unit));
  }
  config.done();
  throw_problems(config);
}

// Returns the pp_fn of the first evaluator that has one.
std::optional<Pipeline> evaluator_pp(const Config& config) {
  for (const auto& [name, keys] : config.section("evals").items()) {
    keys.mark_read();
    if (!keys.has("pp_fn")) continue;
    Pipeline pp(keys, "pp_fn");
    throw_problems(config);
    return pp;
  }
  return std::nullopt;
}

// Returns the section of the evaluator `name`, which must have its own data.
Config evaluator(const Config& config, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [key, keys] : config.section("evals").items()) {
    keys.mark_read();
    known.push_back(key);
    if (key == name && keys.has("data")) return keys;
  }
  if (std::find(known.begin(), known.end(), name) != known.end())
    throw Error(Exit::usage, "--eval " + name, "this evaluator has no `data` of its own");
  throw Error(Exit::usage, "--eval " + name, unknown_name_message("evaluator", name, known));
}

std::shared_ptr<const Dataset> open_data(const Config& config, const PredictRequest& request) {
  if (request.eval.empty())
    return std::make_shared<Dataset>(open_inputs(request.inputs), "inputs", Place{});
  DataEnv env;
  env.source.seed = static_cast<uint64_t>(config.get<int64_t>("seed", 0));
  env.source.num_classes = config.get<int64_t>("num_classes", 0);
  const auto open = prepare_data(evaluator(config, request.eval).section("data"), env);
  throw_problems(config);
  return open();
}

Pipeline read_pp(const Config& config, const std::optional<Restored>& checkpoint,
                 const PredictRequest& request) {
  if (request.pp) return Pipeline(*request.pp, Place{"--pp"});
  if (!request.eval.empty()) {
    Pipeline pp(evaluator(config, request.eval), "pp_fn");
    throw_problems(config);
    return pp;
  }
  if (checkpoint) {
    const Config trained =
        parse_config(checkpoint->meta.at("config").get<std::string>(), checkpoint->folder);
    if (auto pp = evaluator_pp(trained)) return *pp;
  }
  if (auto pp = evaluator_pp(config)) return *pp;
  throw Error(Exit::usage, config.place(),
              "no evaluator has a pp_fn; give --pp (--pp \"\" uses images as they are)");
}

// Iterates over the inputs once, in batches without padding.
class Inputs {
 public:
  Inputs(const Config& config, const std::optional<Restored>& checkpoint,
         const PredictRequest& request)
      : data_(open_data(config, request)),
        pp_(std::make_shared<Pipeline>(read_pp(config, checkpoint, request))),
        size_(request.first > 0 ? std::min(request.first, data_->size()) : data_->size()) {
    LoaderOptions options;
    options.batch_size = std::min(request.batch_size, size_);
    options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    options.shuffle = false;
    options.evaluation = true;
    loader_ = std::make_unique<Loader>(data_, pp_, options);
  }
  const Dataset& data() const { return *data_; }
  int64_t size() const { return size_; }
  bool finished() const { return done_ == size_; }
  // Returns the next batch of images (n, height, width, channels); it is valid until the next call.
  const at::Tensor& next() {
    const Batch& batch = loader_->next();
    const auto image = batch.find("image");
    if (image == batch.end()) throw Error(Exit::usage, "--pp", "gives no 'image'");
    const int64_t n = std::min(batch.at("_mask").size(0), size_ - done_);
    done_ += n;
    image_ = image->second.narrow(0, 0, n);
    return image_;
  }

 private:
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  const int64_t size_;  // number of examples requested
  int64_t done_ = 0;
  std::unique_ptr<Loader> loader_;
  at::Tensor image_;
};

// The trained model, with its weights loaded.
class Predictor {
 public:
  Predictor(const Config& config, const std::optional<Restored>& checkpoint,
            const PredictRequest& request, const at::Tensor& image)
      : precision_(read_precision(config)) {
    if (image.dim() != 4)
      throw Error(Exit::usage, "--pp", "gives an 'image' that is not (height, width, channels)");
    if (image.scalar_type() != at::kFloat)
      throw Error(Exit::usage, "--pp", "gives an 8-bit 'image'; add value_range(-1, 1)");
    const ModelEnv env = {config.get<int64_t>("num_classes"), image.size(1), image.size(2),
                          image.size(3)};
    if (const auto path = config.get("model_init", ""); !checkpoint && !path.empty())
      peek_weights(path);  // fails early, before a large model is built
    model_ = Model::Registry::make(config.get<std::string>("model_name"), config.section("model"),
                                   config.place("model_name"), env);
    throw_problems(config);
    init_parameters(*model_, 0, std::nullopt);
    if (checkpoint) {
      load_checkpoint(*checkpoint, request.ema);
    } else {
      if (request.ema) throw Error(Exit::usage, "--ema", "needs a --workdir");
      load_model_init(config);
    }
  }

  at::Tensor operator()(const at::Tensor& image, Features& features) {
    const at::NoGradGuard no_grad;
    Pass pass;
    pass.precision = precision_;
    pass.features = &features;
    return model_->forward(image, pass);
  }

 private:
  void load_checkpoint(const Restored& checkpoint, bool ema) {
    std::vector<std::pair<std::string, at::Tensor>> views;
    bool averaged = false;
    const auto name_of = [&](const char* kind, const std::string& path) {
      const bool average = ema && checkpoint.tensors.contains("ema/" + path);
      averaged |= average;
      return (average ? "ema/" : kind) + path;
    };
    for (auto& [path, parameter] : named_parameters(*model_))
      views.emplace_back(name_of("params/", path), parameter.detach());
    for (auto& [path, buffer] : named_buffers(*model_))
      views.emplace_back(name_of("buffers/", path), buffer);
    if (ema && !averaged)
      throw Error(Exit::usage, checkpoint.folder, "has no averaged weights (--ema)");
    // With averaged weights some of params/ stay unused, which is no error.
    const std::vector<std::string> prefixes =
        ema ? std::vector<std::string>{} : std::vector<std::string>{"params/", "buffers/"};
    copy_in(views, checkpoint.tensors, prefixes, checkpoint.folder);
  }

  void load_model_init(const Config& config) {
    const std::string path = config.get("model_init", "");
    if (path.empty()) {
      throw Error(Exit::usage, "bvtrain predict",
                  "no weights: give --workdir, or --set model_init=FILE");
    }
    const DontLoad dont_load = read_dont_load(config);
    throw_problems(config);
    load_weights(path, *model_, dont_load.patterns, dont_load.place.text());
  }

  Precision precision_;
  const SpinThrottle throttle_{at::get_num_threads()};
  std::shared_ptr<Model> model_;
};

// Returns the labels of the first n examples, or nothing unless each is a single whole number.
std::vector<int64_t> labels(const Dataset& data, int64_t n) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    const Example example = data.read(i);
    const auto label = example.find("label");
    if (label == example.end() || label->second.numel() != 1 ||
        !at::isIntegralType(label->second.scalar_type(), false))
      return {};
    labels.push_back(label->second.item<int64_t>());
  }
  return labels;
}

[[noreturn]] void unknown_output(const std::string& output, const Features& features) {
  std::vector<std::string> known = {"image", "logits"};
  for (const auto& [name, value] : features) {
    if (name != "logits") known.push_back(name);
  }
  throw Error(Exit::usage, "--outputs", unknown_name_message("output", output, known));
}

}  // namespace

Prediction predict(const Config& config, const std::optional<Restored>& checkpoint,
                   const PredictRequest& request) {
  check(!request.outputs.empty(), "no outputs requested");
  const std::set<std::string> outputs(request.outputs.begin(), request.outputs.end());
  const bool needs_model = std::any_of(outputs.begin(), outputs.end(),
                                       [](const std::string& name) { return name != "image"; });
  Inputs inputs(config, checkpoint, request);
  std::optional<Predictor> predictor;
  std::map<std::string, std::vector<at::Tensor>> parts;
  while (!inputs.finished()) {
    const at::Tensor& image = inputs.next();
    Features features;
    at::Tensor logits;
    if (needs_model) {
      if (!predictor) {
        predictor.emplace(config, checkpoint, request, image);
        finish_config(config);
      }
      logits = (*predictor)(image, features);
    }
    for (const std::string& output : outputs) {
      at::Tensor value = output == "image" ? image : output == "logits" ? logits : at::Tensor();
      if (!value.defined()) {
        const auto found = features.find(output);
        if (found == features.end()) unknown_output(output, features);
        value = found->second;
      }
      const bool as_is = output == "image";
      parts[output].push_back(as_is ? value.clone() : value.to(at::kFloat).contiguous().clone());
    }
  }
  Prediction result;
  for (auto& [output, tensors] : parts) result.arrays[output] = at::cat(tensors);
  for (int64_t i = 0; i < inputs.size(); ++i) result.names.push_back(inputs.data().describe(i));
  const bool known = !request.eval.empty() || inputs.data().source().labels(0).defined();
  if (request.labels && known) result.labels = labels(inputs.data(), inputs.size());
  result.class_names = inputs.data().source().class_names();
  if (checkpoint && checkpoint->meta.contains("class_names"))
    result.class_names = checkpoint->meta.at("class_names").get<std::vector<std::string>>();
  result.sigmoid = config.get("loss", "sigmoid_xent") == "sigmoid_xent";
  return result;
}

}  // namespace bv

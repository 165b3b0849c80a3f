#include "lib/train/recipe.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "lib/config/count.h"
#include "lib/device/compute_threads.h"
#include "lib/device/cuda.h"
#include "lib/device/deterministic.h"
#include "lib/device/device_graph.h"
#include "lib/device/peak_flops.h"
#include "lib/train/keys.h"
#include "lib/train/recipe_reading.h"
#include "lib/train/step/shape_check.h"
#include "lib/train/training_labels.h"
#include "lib/util/host.h"
#include "lib/util/pattern.h"

namespace bv {
namespace {

std::vector<double> read_growth_ratios(const Config& config, const Recipe& recipe) {
  const char* const key = "periodic_action_growth_ratios";
  const auto ratios = config.maybe<std::vector<double>>(key).value_or(std::vector<double>());
  const auto in_seconds = [](const std::optional<Every>& every) {
    return every && every->seconds > 0;
  };
  if (std::any_of(ratios.begin(), ratios.end(), [](double ratio) { return !(ratio >= 1); }))
    config.problem(key, "must be numbers of at least 1");
  for (const double ratio : ratios) {
    double below = ratio;  // its first digits
    while (below >= 10) below /= 10;
    if (ratio < 10 || std::find(ratios.begin(), ratios.end(), below) != ratios.end()) continue;
    config.warn(key, fmt::format("{0} has no effect, because factors are below 10, as in JAXline; "
                                 "write {1} for the steps {1}, {2}, {3} and so on",
                                 ratio, below, 10 * below, 100 * below));
  }
  if (!ratios.empty() && (in_seconds(recipe.log_training) || in_seconds(recipe.ckpt)))
    config.problem(key, "needs intervals in steps: log_training and ckpt cannot be in seconds");
  return ratios;
}

// Whether loaders keep images as bytes and the step normalizes them, so that the copy to a GPU is
// four times smaller. The environment variable BVTRAIN_BYTE_IMAGES=0 or 1 overrides it.
bool images_travel_as_bytes(c10::Device device) {
  const char* value = std::getenv("BVTRAIN_BYTE_IMAGES");
  return value != nullptr ? std::string_view(value) == "1" : !device.is_cpu();
}

// Warns if `model_init` sets the biases that init_head_bias is for.
void warn_of_loaded_biases(const Config& config, const StartFrom& start) {
  const auto leaves_out = [](const std::string& pattern) {
    return Pattern::name_problem(pattern).empty() && Pattern(pattern).matches("head/bias");
  };
  const std::vector<std::string>& patterns = start.dont_load.patterns;
  if (!config.has("init_head_bias") || start.model_init.empty() || !start.resume.empty() ||
      std::any_of(patterns.begin(), patterns.end(), leaves_out))
    return;
  config.warn("init_head_bias",
              "has no effect, because `model_init` sets the biases of the last layer");
}

// Replaces a model that could not be built, so that the optimizer's keys are still checked.
class NoModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
};

}  // namespace

PrecisionChoice read_precision_choice(const Config& config, c10::Device device) {
  const std::string word = config.word("precision", "auto", {"float32", "bf16", "auto"});
  PrecisionChoice choice = choose_precision(word, device, cpu_bf16());
  const bool vit = config.is_text("model_name", "vit") && config.is_map("model");
  for (const auto& [dtype, precision] :
       {std::pair{"float32", Precision::float32}, std::pair{"bfloat16", Precision::bf16}}) {
    if (!vit || !config.section("model").is_text("dtype_mm", dtype)) continue;
    if (!choice.automatic && choice.precision != precision)
      config.warn("precision", fmt::format("has no effect, because model.dtype_mm is {}", dtype));
    choice.precision = precision;
    choice.of_model = true;
    choice.reason = choice.automatic ? fmt::format("model.dtype_mm is {}", dtype) : "";
  }
  if (choice.automatic) config.explain_as("precision", choice.name());
  return choice;
}

Precision read_precision(const Config& config, c10::Device device) {
  return read_precision_choice(config, device).precision;
}

TaskEnv read_task_env(const Config& config, int64_t num_classes) {
  TaskEnv env;
  env.loss_name = config.get("loss", default_loss(config.get("task", "classify")));
  env.loss_place = config.place("loss");
  env.label_smoothing = config.get<double>("label_smoothing", 0.0);
  env.smoothing_place = config.place("label_smoothing");
  if (!(env.label_smoothing >= 0 && env.label_smoothing < 1)) {
    config.problem("label_smoothing",
                   fmt::format("must be at least 0 and below 1, got {}", env.label_smoothing));
  }
  env.num_classes = num_classes;
  const double s = env.label_smoothing;
  if (num_classes == 1 && s > 0 && config.get("task", "classify") == "classify") {
    config.warn("label_smoothing",
                fmt::format("with one class, big_vision's formula changes the labels 0 and 1 to {} "
                            "and 1, not to {} and {}",
                            s, s / 2, 1 - s / 2));
  }
  return env;
}

EvalDefaults read_eval_defaults(const Config& config, int64_t batch_size) {
  EvalDefaults defaults;
  defaults.env.batch_size = config.get<int64_t>("batch_size_eval", batch_size);
  if (defaults.env.batch_size < 1) {
    config.problem("batch_size_eval", "must be positive");
    defaults.env.batch_size = batch_size;
  }
  defaults.task = config.get("task", "classify");
  defaults.env.loss = config.get("loss", default_loss(defaults.task));
  defaults.env.multilabel = defaults.task == "classify" && config.is_map("task_kw") &&
                            config.section("task_kw").is_text("multilabel", "true");
  defaults.has_ema = config.has("ema");
  return defaults;
}

Recipe::Recipe(const Config& from, bool synthetic, bool meta, Group& group, c10::Device device,
               int ranks_at_start, ClassNames classes)
    : config(from),
      group(group),
      ranks{group.size(), ranks_at_start},
      device(device),
      classes_(std::move(classes)) {
  // Each part is built in a separate attempt(), so that one start reports the problems of all
  // parts. If a part fails, the parts that need it are built with a placeholder. They must not
  // report a problem that exists only because of the placeholder.
  byte_images_ = !meta && images_travel_as_bytes(device);
  attempt(config, [&] { read_run(); });
  attempt(config, [&] { read_input(synthetic); });
  read_length();
  attempt(config, [&] { read_task(); });
  attempt(config, [&] { read_model(meta); });
  attempt(config, [&] { read_optimizer(); });
  mark_read(kStepKeys);  // a failed key may have kept the others from being read
  attempt(config, [&] { read_evaluators(); });
  probe_shapes();
  config.done(/*although_incomplete=*/true);
  throw_problems(config);
  if (meta) return;
  step_config_.image_normalization = image_normalization;
  // The step is built last, because it initializes the parameters: a large model takes long.
  step = std::make_unique<TrainStep>(*model, *task, std::move(step_config_), seed, precision, group,
                                     parameter_init(*model, seed, head_bias_), device);
  if (device.is_cuda())
    graph_refusal = graph_ ? step->use_graph(cuda_graph_recorder(device)) : "graph: off";
}

double Recipe::peak_flops() const {
  if (device.is_cpu()) return 0;
  return bv::peak_flops(cuda_name(device.index()), precision == Precision::bf16);
}

void Recipe::mark_read(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) config.mark_read(key);
}

void Recipe::read_run() {
  seed = static_cast<uint64_t>(config.get<int64_t>("seed", 0));
  precision_choice = read_precision_choice(config, device);
  precision = precision_choice.precision;
  const bool varies = config.word("deterministic", "auto", {"auto", "true", "false"}) == "false";
  if (!device.is_cpu()) set_deterministic(!varies);
  graph_ = config.word("graph", "auto", {"auto", "off"}) == "auto";
  compute_threads = read_count(config, "compute_threads", 1, usable_cores());
  try {
    start_compute_threads(compute_threads);
  } catch (const Error& error) {
    config.problem("compute_threads", error.message());
  }
  start.resume = config.get("resume", "");
  start.model_init = config.get("model_init", "");
  start.dont_load = read_dont_load(config);
  if (!start.dont_load.patterns.empty() && start.model_init.empty())
    config.warn("model_load", "has no effect without model_init");
  config.get("pp_modules", std::vector<std::string>{});  // no effect: every op is built in
  for (const auto& [key, instead] : kSupersededKeys) config.superseded(key, instead);
}

void Recipe::read_length() {
  length.made_up = length.batch_size == 0 || length.data_size == 0;
  if (length.batch_size == 0) length.batch_size = loader.ranks;
  if (length.data_size == 0) length.data_size = length.batch_size;
  std::optional<int64_t> total;
  attempt(config, [&] {
    total = duration_steps(config, "total", length);
    if (!total)
      missing_duration(config, "total",
                       "the length of training is missing: give total_steps, total_epochs or "
                       "total_examples");
  });
  length.made_up |= !total;
  length.total_steps = total.value_or(1);
  length.no_training = total == 0;
  attempt(config, [&] {
    log_training = duration_every(config, "log_training", length);
    if (!log_training)
      missing_duration(config, "log_training",
                       "log_training_steps (or _epochs, _examples, _percent, _seconds) is missing",
                       /*in_seconds=*/true);
  });
  // ckpt_steps, keep_ckpt_steps and the same in other units: Trainer::plan_step() applies them.
  attempt(config, [&] { ckpt = duration_every(config, "ckpt", length); });
  attempt(config, [&] { keep_ckpt = duration_every(config, "keep_ckpt", length); });
  attempt(config, [&] { log_images = duration_every(config, "log_images", length); });
  attempt(config, [&] { growth_ratios = read_growth_ratios(config, *this); });
  newest_kept = read_count(config, "max_checkpoints_to_keep", 1, 2);
  attempt(config, [&] {
    constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
    const bool any = length.made_up || length.no_training;
    profile = read_profile(config, any ? kAny : length.total_steps);
  });
}

void Recipe::read_model(bool meta) {
  const bool named = attempt(config, [&] { model_name = config.get<std::string>("model_name"); });
  head_bias_ = config.maybe<double>("init_head_bias");
  warn_of_loaded_biases(config, start);
  const Config keys = config.section("model");
  if (!named) return;
  const auto image = first_.find("image");
  const bool known = image != first_.end();
  // Without an example, the model's keys are checked with images whose side is a multiple of most
  // patch sizes. On the meta device they use no memory.
  constexpr int64_t kSide = 10080;
  env_ = known ? ModelEnv{num_classes, image->second.size(0), image->second.size(1),
                          image->second.size(2)}
               : ModelEnv{std::max<int64_t>(num_classes, 1), kSide, kSide, 3};
  std::optional<MetaDevice> on_meta;
  if (meta || !known) on_meta.emplace();
  model = Model::Registry::make(model_name, keys, config.place("model_name"), env_);
  if (task) task->add_buffers(*model, env_.num_classes);
}

void Recipe::read_task() {
  const std::string name = config.get("task", "classify");
  TaskEnv env = read_task_env(config, num_classes);
  env.class_names = classes_.names;
  for (const InputPart& part : inputs_) {
    if (part.training.pp && !part.training.pp->uses_data_labels())
      env.label_feature = part.training.pp->made_from("labels");
  }
  if (data) env.label_counts = [this] { return count_labels(*data); };
  task = Task::Registry::make(name, config.section("task_kw"), config.place("task"), env);
}

void Recipe::read_optimizer() {
  const NoModel no_model;
  const Model& known_model = model ? *model : static_cast<const Model&>(no_model);
  StepConfig options;
  const bool good =
      attempt(config, [&] { options = read_step(config, known_model, length, ranks.count); });
  if (good) freeze_parameters(options.groups, known_model);  // for has_batch_statistics()
  if (good && known_model.has_frozen_statistics() && !config.has("model_init") &&
      !config.has("resume")) {
    config.warn("schedule",
                "freezes batch norms whose running statistics are still 0 and 1, so they do not "
                "normalize; model_init loads trained ones");
  }
  if (loader.batch_size > 0) {
    options.grad_accum_steps = grad_accum_steps =
        read_grad_accum_steps(config, known_model, length.batch_size, ranks);
  }
  nan_limit = options.nan_limit;
  nan_rolls_back = options.rolls_back && !length.no_training;
  rollback_examples = options.rollback_examples;
  const bool saves = (ckpt && *ckpt) || (keep_ckpt && *keep_ckpt);
  if (nan_rolls_back && !saves)
    config.problem("nan", "rollback needs checkpoints to return to; add ckpt_steps");
  if (!good || !model) return;
  cost = step_cost(options, *model, ranks.count);
  step_config_ = std::move(options);
}

void Recipe::read_evaluators() {
  EvalDefaults defaults = read_eval_defaults(config, length.batch_size);
  EvalEnv& env = defaults.env;
  env.threads = loader.threads;
  env.seed = seed;
  env.pinned = loader.pinned;
  env.data = data_env_;
  // Without training, the data of `input` does not say what the model has learned.
  if (length.no_training && env.data.classes) env.data.classes->trained.clear();
  env.group = &group;
  defaults.classes_known = classes_known_;
  if (task) defaults.predictions = task->predictions();
  evals = read_evals(config.section("evals"), defaults, length);
  warn_of_default_loss();
  selection = read_selection(config, evals, length);
}

// Fits the task to the labels of the training data.
void Recipe::fit_task(const Config& input) {
  if (step_config_.mixup.p > 0 && !first_.contains("labels")) {
    config.fail("mixup", fmt::format("mixes the feature 'labels', which input.pp does not give (it "
                                     "gives {})",
                                     names_of(first_)));
  }
  LabelledExamples examples =
      labelled_examples(*data, seed, loader, first_.contains("labels") ? "labels" : "label");
  if (!data_env_.synthetic) {
    examples.warn_of_split = [this](size_t part, const std::string& why) {
      inputs_.at(part).keys.section("data").warn("split", why);
    };
  }
  read_example(input, "data", [&] { task->fit(*model, examples, first_); });
}

// Fits the model to some training images.
void Recipe::fit_model(const Config& input) {
  if (model->fit_images() == 0) return;
  const LabelledExamples examples = labelled_examples(*data, seed, loader);
  read_example(input, "data", [&] {
    model->fit(spread_images(examples, model->fit_images(), image_normalization));
  });
}

// Finds problems that would otherwise end the run later. Opens every evaluator's data, reads a few
// examples and passes one through the model on the meta device.
void Recipe::probe_shapes() {
  const Config input = config.section("input"), section = config.section("evals");
  std::optional<ShapeCheck> shapes;  // absent if the model's sizes are unknown
  if (model && task && !first_.empty() && data_env_.source.num_classes == num_classes) {
    shapes.emplace(config, model_name, env_, precision, *task);
    const bool fits = attempt(config, [&] { shapes->training(first_, input.place("pp")); });
    if (fits) attempt(config, [&] { fit_task(input); });
    if (fits) attempt(config, [&] { fit_model(input); });
    if (fits) look_at_images();
  }
  for (EvalJob& job : evals) {
    if (!job.sound) continue;
    attempt(config, [&] {
      const Config keys = section.section(job.name);
      const Batch batch = probe_evaluator(job, keys, kImagesToLookAt);
      warn_of_training_examples(job, keys);
      if (batch.empty()) return;  // this evaluator needs no predictions
      check_values(keys, batch.at("image"));
      if (shapes) shapes->evaluation(job, batch, keys);
    });
  }
}

}  // namespace bv

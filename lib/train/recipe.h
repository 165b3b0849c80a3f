// The recipe of a run: its config turned into objects, in the order of big_vision's train.py. It
// finds everything that can be wrong with a run before any work is done and before anything is
// written: the keys, a few training examples (lib/input/loader/check_examples.h), the model, the
// optimizer, and each evaluator with an example of its data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/duration.h"
#include "lib/input/image/value_span.h"
#include "lib/input/loader/loader.h"
#include "lib/input/prepare_data.h"
#include "lib/input/quarantine.h"
#include "lib/input/sample_rule.h"
#include "lib/model/model.h"
#include "lib/model/precision_choice.h"
#include "lib/tasks/task.h"
#include "lib/train/eval_job.h"
#include "lib/train/profile.h"
#include "lib/train/selection.h"
#include "lib/train/step/step.h"
#include "lib/train/step/step_cost.h"
#include "lib/train/weights/weights.h"

namespace bv {

// Where the weights come from if the workdir has no checkpoint, as in big_vision's train.py.
struct StartFrom {
  std::string resume;      // key resume: the whole state of another run
  std::string model_init;  // key model_init: a file with parameters only
  DontLoad dont_load;      // key model_load.dont_load
};

// Reads the key `precision`. Lets --explain show what `auto` means.
PrecisionChoice read_precision_choice(const Config& config, c10::Device device = c10::kCPU);
Precision read_precision(const Config& config, c10::Device device = c10::kCPU);
// Reads `loss` and `label_smoothing`, for a model with so many classes. Records problems.
TaskEnv read_task_env(const Config& config, int64_t num_classes);
// Reads batch_size_eval, whose default is `batch_size`, the task, the loss and whether the run
// keeps averaged weights. Records problems.
EvalDefaults read_eval_defaults(const Config& config, int64_t batch_size);

struct Recipe {
  // Builds all parts of the run. With `meta` the model has shapes but no memory, and there is no
  // step. `group` must outlive this. The model trains on `device`. `ranks_at_start` is the number
  // of ranks that the run began with, before any elastic restart; 0: the same as now. `classes` are
  // the classes of the checkpoint that the run continues from; without names they are those of the
  // training data. Throws all problems of the config together, as one Error(Exit::usage).
  Recipe(const Config& config, bool synthetic, bool meta = false, Group& group = Group::single(),
         c10::Device device = c10::kCPU, int ranks_at_start = 0, ClassNames classes = {});

  Config config;
  uint64_t seed = 0;
  int64_t num_classes = 0;
  PrecisionChoice precision_choice;  // with the reason for `precision`
  Precision precision = Precision::float32;
  int compute_threads = 1;
  Group& group;
  Ranks ranks;
  c10::Device device = c10::kCPU;
  RunLength length;  // input.batch_size, the size of the data, total_steps
  StartFrom start;

  std::shared_ptr<const TrainingData> data;
  // If it is set, `data` gives images as bytes, and the step normalizes them.
  std::optional<Normalization> image_normalization;
  LoaderOptions loader;
  // The range of the pixel values of a few training images after preprocessing; nullopt for
  // generated data.
  std::optional<ValueSpan> image_values;

  std::string model_name;
  std::shared_ptr<Model> model;  // initialized (unless meta)
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;  // null if meta
  std::string graph_refusal;  // why no CUDA graph of the step is made; "" if one is, or on CPUs
  StepCost cost;
  int64_t grad_accum_steps = 1;  // the result of read_grad_accum_steps(): micro-batches per step
  std::vector<EvalJob> evals;

  std::optional<Every> log_training;  // log_training_steps, or another unit
  std::optional<Every> ckpt;          // ckpt_steps, ckpt_seconds, ...
  std::optional<Every> keep_ckpt;     // keep_ckpt_steps, ...
  std::optional<Every> log_images;    // log_images_steps, ...
  std::vector<double> growth_ratios;  // periodic_action_growth_ratios
  int newest_kept = 2;                // max_checkpoints_to_keep
  std::optional<int64_t> nan_limit;   // how many bad steps are allowed; absent: nan is `stop`
  bool nan_rolls_back = false;        // nan: rollback
  int64_t rollback_examples = 0;      // 0: those from the checkpoint to the bad step
  Selection selection;                // best and early_stop
  std::optional<ProfileSteps> profile;

  const ModelEnv& env() const { return env_; }
  // Returns the device's peak FLOPs per second in the run's precision; 0: not known.
  double peak_flops() const;
  double steps_per_epoch() const {
    return static_cast<double>(length.data_size) / static_cast<double>(length.batch_size);
  }

 private:
  // A data set to train on.
  struct InputPart {
    Config keys;  // the mapping that has its `data` and `pp`
    TrainingData::Part training;
    OpenDataset open;  // empty if its keys are wrong
    SampleRule sample;
    std::shared_ptr<const Quarantine> quarantine = {};

    // Returns what lists of broken examples call it: "input" or "input.<name>".
    std::string name() const { return training.name.empty() ? "input" : "input." + training.name; }
  };
  void read_run();
  void read_input(bool synthetic);
  bool read_data_sets(const Config& input, const DataEnv& env);
  void open_data(const std::vector<std::string>& keep_only);
  void make_sampler_of(InputPart& part);
  void make_data(const std::vector<std::string>& keep_only);
  void warn_of_data() const;
  void check_examples(const InputPart& part, bool has_classes);
  void read_loader(const Config& input);
  // recipe_classes.cc
  void find_classes();
  bool read_num_classes();
  void count_classes();
  void check_labels(const Config& input, bool has_classes);

  void read_length();
  void read_model(bool meta);
  void read_task();
  void read_optimizer();
  void read_evaluators();
  void warn_of_default_loss() const;
  void warn_of_training_examples(const EvalJob& job, const Config& keys) const;
  void probe_shapes();
  void fit_task(const Config& input);
  void fit_model(const Config& input);
  void look_at_images();
  void check_layout(const InputPart& part, const Example& first) const;
  bool may_differ_in_scale(const Config& keys, const ValueSpan& span) const;
  void check_values(const Config& keys, const at::Tensor& images) const;
  void mark_read(std::initializer_list<std::string_view> keys) const;
  ClassNames classes_;  // the class numbering of all data sets
  DataEnv data_env_;
  std::vector<InputPart> inputs_;
  std::optional<ImageCacheOptions> image_cache_;  // input.cache
  bool byte_images_ = false;                      // images stay bytes until the step if possible
  bool config_counts_classes_ = false;            // num_classes: auto
  bool classes_known_ = false;                    // num_classes fits the training data
  Example first_;  // the first training example, preprocessed; empty if something is wrong with it
  ModelEnv env_;
  std::optional<double> head_bias_;
  StepConfig step_config_;  // moved into `step` at the end
  bool graph_ = true;       // key graph
};

}  // namespace bv

// A config made into parts. Everything that can be wrong with a run is found here, before any work
// and before anything is written: keys, data, one example of each split, model, optimizer,
// evaluators. The order of the reads is the order of the reference's section 1.2.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/duration.h"
#include "lib/input/loader/loader.h"
#include "lib/model/model.h"
#include "lib/tasks/task.h"
#include "lib/train/evaluation.h"
#include "lib/train/profile.h"
#include "lib/train/step.h"
#include "lib/train/weights.h"

namespace bv {

// Where the weights come from when the workdir has no checkpoint (reference 5.3).
struct StartFrom {
  std::string resume;      // whole state of another run
  std::string model_init;  // parameters only
  DontLoad dont_load;
};

// Key `precision`; `auto` is bf16 where the device computes it natively.
Precision read_precision(const Config& config, c10::Device device = c10::kCPU);

class ShapeCheck;

struct Recipe {
  // Builds everything. With meta = true the model has shapes but no memory. `group` (null: a group
  // of one) must outlive this; the model trains on `device`. `first_ranks`: that the run began
  // with, if an elastic restart has another number. Throws all problems of the config together as
  // one Error(Exit::usage).
  Recipe(const Config& config, bool synthetic, bool meta = false, Group* group = nullptr,
         c10::Device device = c10::kCPU, int first_ranks = 0);

  Config config;
  uint64_t seed = 0;
  int64_t num_classes = 0;
  Precision precision = Precision::float32;
  int compute_threads = 1;
  Group* group = nullptr;  // null: a group of one
  Ranks ranks;
  c10::Device device = c10::kCPU;
  RunLength length;  // batch_size, data_size, total_steps
  StartFrom start;

  std::shared_ptr<const Dataset> data;
  std::shared_ptr<const Pipeline> pp;
  LoaderOptions loader;

  std::string model_name;
  std::shared_ptr<Model> model;  // initialised (unless meta)
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;  // null if meta
  double state_bytes = 0;           // parameters, gradients, optimizer state, averages
  double sent_bytes = 0;            // by each rank in a step: gradients, gathered parameters
  int64_t grad_accum_steps = 1;     // equal parts that each rank computes its examples in
  std::vector<EvalJob> evals;

  std::optional<Every> log_training, ckpt, keep_ckpt;
  std::optional<ProfileSteps> profile;

  const ModelEnv& env() const { return env_; }
  double steps_per_epoch() const {
    return static_cast<double>(length.data_size) / static_cast<double>(length.batch_size);
  }

 private:
  void read_run();
  void read_input(bool synthetic);
  void read_length();
  void read_model(bool meta);
  void read_task();
  void read_optimizer();
  void read_evaluators();
  void probe_shapes();
  void check_layers(const Config& keys, const EvalJob& job, const Batch& batch,
                    const ShapeCheck& shapes) const;
  void mark_read(std::initializer_list<std::string_view> keys) const;
  DataEnv data_env_;
  Example first_;  // after pp
  ModelEnv env_;
  std::optional<double> head_bias_;
  StepConfig step_config_;  // until the step is made
};

}  // namespace bv

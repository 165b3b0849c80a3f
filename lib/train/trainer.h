// The training loop, in the reference's order (section 1.3): restore, initial evaluations, then per
// step: update, measurements, checkpoint, evaluators, end of the metrics row.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir.h"
#include "lib/report/clock.h"
#include "lib/report/metrics.h"
#include "lib/train/profile.h"
#include "lib/train/recipe.h"
#include "lib/train/weights.h"

namespace bv {

struct TrainerOptions {
  std::vector<std::string> argv;  // for run.json
  std::string tool_version;
  bool cleanup = false;  // remove the workdir after a successful end
};

class Trainer {
 public:
  // `workdir` may be null: then nothing is written. Rank 0 must have claimed it already: it alone
  // writes to it, but for the ranks' logs and their parts of checkpoints. `group` must outlive
  // this.
  Trainer(Recipe& recipe, Workdir* workdir, TrainerOptions options, Group& group);
  ~Trainer();

  // Reads `resume` or `model_init`, unless the workdir has a checkpoint of its own. Called before
  // the workdir is claimed, so that a file that does not fit leaves no trace; run() calls it else.
  void load_start();
  // Trains to the end, or until a signal. Returns Exit::ok, or the signal's code after a committed
  // checkpoint. Throws Error: diverged, storage, data.
  Exit run();
  // For a process that is about to end by an error: the rows so far get into their files, if the
  // disk answers soon.
  void keep_rows();

 private:
  bool leads() const { return group_.rank() == 0; }
  // All ranks write checkpoints where they have shared the state out, else rank 0 alone.
  bool saves() const { return workdir_ && (leads() || recipe_.step->sharded()); }
  void open_checkpoints();
  void restore();
  void share_start();
  void share_state();
  void fill_from(std::vector<WeightCopy> weights);
  void share_weights();
  void load_everything(const Restored& from, const std::string& why);
  void keep_threads(int threads, int ranks);
  void log_parameters() const;
  void open_metrics();
  void write_run_json(const std::string& start) const;
  void initial_row();
  void finish_interrupted_row();
  Exit loop();
  ControlWord control_word() const;
  void agree(const ControlWord& sums);
  void count_failures(double sum);
  double now() const;
  // What is due at a step besides the update.
  struct Plan {
    bool log = false, save = false, keep = false;
    std::vector<EvalJob*> evals;
  };
  Plan plan_step(int64_t step);
  void update(int64_t step, const Plan& plan);
  void measure(int64_t step, const Plan& plan);
  void check_finite(int64_t step) const;
  void save(int64_t step, bool keep);
  void evaluate(EvalJob& job, int64_t step);
  Exit stop(int64_t step, Exit code);
  void finish();
  void show_progress(int64_t step);

  Recipe& recipe_;
  Workdir* workdir_;
  Group& group_;
  TrainerOptions options_;
  const int64_t total_;
  int64_t first_step_ = 0;
  bool resumed_here_ = false;  // from this workdir's own checkpoint
  Row interrupted_row_;        // what the checkpoint's step had measured before it was saved
  std::string start_;          // "scratch", "workdir", "resume", "model_init"
  NamedTensors weights_;       // on rank 0, of parameters that are shared out, until the start
  std::string start_folder_;   // of the checkpoint that the run starts from; empty: none
  Chrono::State chrono_state_;

  std::unique_ptr<MetricWriter> metrics_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::unique_ptr<Loader> loader_;
  Chrono chrono_;
  Profile profile_;
  bool muted_ = false;  // chrono's measurements are dropped
  std::optional<Due> log_due_, ckpt_due_, keep_due_;
  int64_t step_ = 0;  // the last one begun
  // What all ranks know alike: rank 0's clock at the end of the last step, and a signal seen by
  // any.
  double shared_now_ = 0;
  Exit shared_stop_ = Exit::ok;
  std::set<int64_t> failed_;  // examples that any rank could not read
  double failures_ = 0;       // the sum of their numbers on each rank, when they were gathered
  int64_t saved_step_ = -1;
  double last_loss_ = 0, shown_ = 0, waited_ = 0, wait_start_ = 0;
};

}  // namespace bv

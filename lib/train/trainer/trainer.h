// The training loop. A run first restores its state. Before the first step it runs evaluators in
// these cases:
//   - It starts at step 0: all evaluators with an interval, except those with `skip_first`. A run
//     without a step to train runs all.
//   - It starts from the last step of another run (`resume`): all evaluators.
//   - It continues from its own workdir's checkpoint, and the row of that step was not finished:
//     the evaluators that had not run.
// Each step then updates the weights, measures, saves a checkpoint, runs the evaluators that are
// due and ends its row of metrics. The order is that of big_vision's train.py.
//
// trainer_start.cc restores the state, trainer_changes.cc keeps the history of the config,
// trainer.cc holds the loop, trainer_evaluation.cc runs evaluators, trainer_save.cc saves
// checkpoints, trainer_selection.cc finds the best step, trainer_rollback.cc returns to a
// checkpoint, trainer_post_mortem.cc keeps what is known of a bad step, trainer_replicas.cc checks
// that all ranks hold the same state, trainer_skipped.cc lists what the run has skipped,
// trainer_end.cc ends the run.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/report/chrono.h"
#include "lib/report/metric_writer.h"
#include "lib/report/pace.h"
#include "lib/report/run_result.h"
#include "lib/report/skipped_examples.h"
#include "lib/train/profile.h"
#include "lib/train/recipe.h"
#include "lib/train/run_changes.h"
#include "lib/train/start.h"
#include "lib/train/weights/weights.h"

namespace bv {

// What one process has done in all its trainers: with `nan: rollback` it may have several.
struct ProcessSoFar {
  double rolled_back = 0;  // when it last returned to a checkpoint (monotonic_seconds())
  int64_t first_step = 0;  // from which the process continued
  double program_time = 0, train_time = 0;  // that the checkpoint of that step had accumulated
  double training_seconds = 0;              // of the process, also for steps that were undone
  double paused_seconds = 0;                // of the process, in evaluations and saves
  int64_t failed_saves = 0, left_out_saves = 0;
};

struct TrainerOptions {
  std::vector<std::string> argv;  // for run.json
  std::string tool_version, commit;
  bool cleanup = false;         // remove the workdir after the last step
  bool accept_changes = false;  // continue a checkpoint although the config has changed
  bool synthetic = false;       // all data are generated
  // data_summary() of the recipe; only needed with a workdir. It is computed once, so that a save
  // does not read the data, which may have been moved by then.
  nlohmann::json data_summary = {};
  // If set, run() calls it right before the loop of steps: the start has ended.
  std::function<void()> before_first_step = {};
  // Set if earlier trainers of this process ended by returning to a checkpoint.
  std::optional<ProcessSoFar> before = {};
};

// Thrown by Trainer::run() with `nan: rollback` after a step whose values are not finite, on all
// ranks. Another Trainer with the same recipe then continues from the last checkpoint.
struct RolledBack {};

class Trainer {
 public:
  // With a null `workdir` nothing is written. Otherwise rank 0 must have claimed it before run().
  // Only rank 0 writes to the workdir, except that each rank writes its own log, its own profile
  // (trace/rank-<r>.json) and, if the state is sharded, its own file of a checkpoint. All ranks
  // must construct their trainers together, because a sharded state needs a collective here.
  // `recipe`, `workdir` and `group` must outlive the trainer.
  Trainer(Recipe& recipe, Workdir* workdir, TrainerOptions options, Group& group);
  ~Trainer();

  // Reads `resume` or `model_init`, unless the workdir has its own checkpoint. Rank 0 may call
  // this before it claims the workdir, so that a file that does not fit leaves no trace there;
  // otherwise run() calls it. A second call does nothing.
  void load_start();
  // Compares the config with that of the checkpoint from which the run continues or with which it
  // has finished, and logs the changes. Throws Error(Exit::usage) if a change affects the training,
  // unless they are accepted. For rank 0, before run().
  // `finished`: the workdir's run has nothing left to do.
  void check_changes(const std::optional<Restored>& checkpoint, bool finished);
  // Trains to the last step or until a signal. Returns Exit::ok, or the signal's code. After a
  // signal it saves a checkpoint first, unless there is no workdir or no step was done. When this
  // returns, the checkpoint is committed on rank 0; any other rank has written its own file of a
  // sharded one. Throws Error with Exit::diverged, Exit::storage or Exit::data, and RolledBack.
  Exit run();
  // What this process has done, for the trainer that continues after RolledBack.
  ProcessSoFar process() const;
  // Writes the rows that are still in memory to their files, in a separate thread, and waits at
  // most two seconds for it. Call it only right before _exit(), because the thread uses this object
  // and may still run afterwards.
  void flush_rows();
  // Writes the report of a run that has diverged, with all rows that have ended. With several ranks
  // it only requests the report, and flush_rows() has it written: call that afterwards. For a run
  // that ends otherwise it does nothing. Logs a warning if the report cannot be written.
  void report_failure(Exit code, const std::string& line) noexcept;
  // Writes result.json for a run that an error ends after its start; otherwise does nothing. Logs a
  // warning if the file cannot be written.
  void record_failure(Exit code, const std::string& line) noexcept;

 private:
  enum class Save {
    may_be_left_out,  // if saves are due too often
    always,
    keep  // always, and the checkpoint is never deleted
  };

  // What is due at a step besides the update.
  struct Plan {
    bool log = false, images = false;
    std::optional<Save> save;
    std::set<std::string> evals;  // by name
  };

  // What rank 0 decides from a row: for which entries of `best` the row is the best so far; why the
  // run ends (empty: it does not); or what is wrong with the metric of entry `fault_in`.
  struct Choice {
    std::vector<int64_t> better;
    std::string ends, fault;
    int64_t fault_in = 0;
  };

  bool is_rank0() const { return group_.rank() == 0; }
  // Every rank writes checkpoints if the state is sharded, otherwise only rank 0 does.
  bool writes_checkpoints() const { return workdir_ && (is_rank0() || recipe_.step->sharded()); }

  // The start (trainer_start.cc). Rank 0 reads the state and broadcasts it. Only a sharded run that
  // starts from a checkpoint broadcasts nothing of the state: every rank reads the checkpoint, and
  // takes the tensors that it holds as a whole and its own slices of the others.
  ReadOptions read_options() const;
  void restore();
  void load_checkpoint(const Restored& from, const std::string& why);
  void copy_weights(std::vector<WeightCopy> weights);
  void warn_of_untrained(const std::vector<WeightCopy>& weights) const;
  void warn_of_other_version(const Restored& from) const;
  void warn_of_other_length() const;
  void warn_of_other_classes(const std::string& key, const std::string& file,
                             const std::vector<WeightCopy>& weights) const;
  void adopt_threads(int threads, int ranks);
  void broadcast_start();
  void broadcast_state();
  void broadcast_sharded_weights();
  void log_parameters() const;
  void write_run_json(const std::string& start);
  Facts facts() const;
  void warn_of_lost_rows() const;
  void open_skipped();

  // The config's changes (trainer_changes.cc).
  void take_changes(const Restored& from);
  void undo_dropped_changes() const;
  void restore_config(int64_t step) const;
  void keep_old_config() const;
  void forget_unused_changes();
  void note_changes();

  // The loop (trainer.cc).
  // When the clock of this trainer began: with the program, or with the return to a checkpoint.
  double clock_start() const;
  void log_run() const;
  void open_metrics();
  void set_due_rules();
  void start_chrono();
  Exit loop();
  Plan plan_step(int64_t step);
  void update(int64_t step, const Plan& plan);
  void measure(int64_t step, const Plan& plan);
  Pace::Reading reading(int64_t step) const;
  // `evaluator` is the one that runs; empty: none.
  void show_progress(int64_t step, const std::string& evaluator = "");
  // What the ranks agree on in every step.
  ControlWord control_word() const;
  void apply_agreement(const ControlWord& sums);
  double agreed_now() const;
  double agreed_training_now() const;
  double training_clock() const;

  // Saving (trainer_save.cc).
  void open_checkpointer();
  void require_room();
  void check_finite(int64_t step);
  nlohmann::json checkpoint_meta(int64_t step) const;
  void save(int64_t step, Save kind);

  // Evaluations (trainer_evaluation.cc).
  void initial_row();
  void finish_interrupted_row();
  std::set<std::string> evals_in_interrupted_row();
  void run_due_evals(int64_t step);
  void evaluate(EvalJob& job, int64_t step);

  // The best step and the early end (trainer_selection.cc).
  void open_selection();
  int64_t measured_anew(const WatchedMetric& watched) const;
  void mend_best(const BestSeries& series, BestValue& best);
  Choice choose(int64_t step, const std::set<std::string>& ran);
  std::string reason_to_end() const;
  bool select(int64_t step, const std::set<std::string>& ran);
  void finish_early(int64_t step, const std::set<std::string>& ran);

  // Whether all ranks hold the same state (trainer_replicas.cc).
  std::array<double, 2> digest_in_word() const;
  void compare_digests(const std::array<double, 2>& sums);
  void check_same_state(int64_t step);
  void report_odd_ranks(int64_t step, int64_t digest);

  // Steps and examples that are skipped (trainer_skipped.cc).
  const Batch& next_batch(int64_t step);
  void count_skipped_step(int64_t step);
  void list_skipped(int64_t step, const std::vector<FailedExample>& failed);
  void measure_skipped();
  void measure_epochs_of_parts(int64_t step);
  int64_t position_after(int64_t step) const;
  void log_skipped_in_epoch(int64_t step) const;
  void log_skipped() const;

  // The return to a checkpoint (trainer_rollback.cc).
  nlohmann::json choose_rollback(int64_t step) const;
  [[noreturn]] void roll_back(int64_t step);

  // What a bad step leaves for `bvtrain replay` (trainer_post_mortem.cc).
  void keep_bad_step(int64_t step, const std::string& why, bool before);
  void write_post_mortem(int64_t step, const std::string& why, bool before);

  // The end (trainer_end.cc).
  Exit stop(int64_t step, Exit code);
  void finish();
  void report_end(const std::string& how);
  void say_end(const RunResult& result) const;
  RunResult result(Exit code, const std::string& reason) const;
  void add_process(RunResult& result) const;

  Recipe& recipe_;
  Workdir* workdir_;  // null: nothing is written
  Group& group_;
  TrainerOptions options_;
  const int64_t total_steps_;

  // Where the run started. The same on all ranks after broadcast_start().
  std::string start_;           // "scratch", "workdir", "resume" or "model_init"; empty: not known
  std::string start_folder_;    // the checkpoint that the run starts from; empty: none
  int64_t first_step_ = 0;      // the step of that checkpoint
  bool resumed_here_ = false;   // the checkpoint is the workdir's own
  Chrono::State chrono_state_;  // the clock of that checkpoint
  // Where the stream of training examples continues: the number of examples that all ranks have
  // taken from it. first_step_ times the batch size, unless the batch size was changed or
  // `nan: rollback` has left examples out.
  int64_t position_ = 0;
  int64_t left_out_ = 0;          // how many of these examples were left out and never seen
  ConfigChanges changes_;         // since that checkpoint (rank 0 only)
  std::vector<RunStart> starts_;  // those that led to that checkpoint, and this one (rank 0 only)
  EarlierStarts earlier_;         // of the run in the workdir (rank 0 only)
  // The changes at all restarts, as run.json holds them; and those that it held but that do not
  // apply to the checkpoint, the last one first (rank 0 only).
  nlohmann::json config_changes_ = nlohmann::json::array();
  nlohmann::json dropped_changes_ = nlohmann::json::array();
  int64_t last_row_ = -1;  // of the rows before that checkpoint (rank 0 only); -1: not known
  // The row of the checkpoint's step: what had been measured before the save (rank 0 only), and the
  // evaluators that were still to run. Older checkpoints do not name the evaluators.
  Row interrupted_row_;
  std::optional<std::set<std::string>> interrupted_evals_;
  // Weights from a file for sharded parameters. Rank 0 holds them until it has broadcast them.
  NamedTensors sharded_weights_;

  std::unique_ptr<MetricWriter> metrics_;
  std::array<HostCopies, 2> copies_;            // of the state: see Checkpointer::free_buffer()
  std::unique_ptr<Checkpointer> checkpointer_;  // reads copies_
  std::unique_ptr<Loader> loader_;
  Chrono chrono_;
  Profile profile_;

  int64_t skipped_steps_ = 0;  // by `nan: skip`, in all starts of the run; the same on all ranks

  // The current step.
  int64_t step_ = 0;                 // the last one begun
  int64_t saved_step_ = -1;          // the last one saved
  int64_t kept_step_ = -1;           // the last one saved with Save::keep
  int64_t finite_step_ = 0;          // the last one that check_finite() has passed
  std::set<std::string> due_evals_;  // evaluators of this step that have not finished
  bool chrono_muted_ = false;        // chrono_'s measurements are dropped
  std::optional<Due> log_due_, ckpt_due_, keep_due_, images_due_;
  // The metrics of `best` in their order, then that of `early_stop`; for each of them the
  // evaluators that have run in this start, and whether they have given the metric (rank 0 only).
  std::vector<BestValue> watched_;
  std::vector<std::set<std::string>> ran_;
  std::vector<bool> found_;
  std::string stopped_early_;  // why the run ends before its last step; empty: it does not
  Pace pace_;
  Pace::Reading logged_;   // at the last logged step, or before the first step
  bool begun_ = false;     // run.json describes this start
  int64_t done_step_ = 0;  // the last step that has ended
  double shown_ = 0;       // time of the last progress line

  // What all ranks know after a step.
  double agreed_clock_ = 0;           // rank 0's clock before the step
  double agreed_training_clock_ = 0;  // the same without pauses
  Exit agreed_stop_ = Exit::ok;       // a signal that any rank has received
  SkippedExamples skipped_;           // what any rank has skipped
  MetricOwners metric_owners_;
  // What this rank's loader has skipped in this step and the other ranks do not know yet.
  std::vector<FailedExample> failed_now_;
  // The digest after the last step, if that was logged. It is sent in the next step's control word
  // and then cleared.
  std::optional<int64_t> digest_;
  int64_t compared_step_ = -1;  // the last step whose states were found equal before a save
};

}  // namespace bv

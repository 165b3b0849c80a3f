// Every name inside the folder of a run, and the lock that reserves the folder for one run.
//
//   <workdir>/
//     .lock                     held by the running process, which it names (WorkdirLock)
//     .cron.lock                held by scripts/cron.sh, which starts the run
//     DONE                      the run has finished: its last step, and why it is the last if it
//                               stopped early
//     FAILED                    the exit code of a failure, written by scripts/cron.sh, sweep.sh
//                               and slurm.sbatch, not by bvtrain
//     config.yaml               the resolved config
//     config-until-step-<n>.yaml  the config until step n, where a restart changed it
//     <file>.damaged            metrics.jsonl or run.json as a restart found it, if it was damaged
//     <file>.tmp-<...>          a file being written (lib/util/temporary_file.h)
//     run.json                  when, where and with what arguments the run was started
//     result.json               how the last start of the run ended; absent while it runs
//     metrics.jsonl             all metrics
//     skipped.jsonl             the examples that skip_errors skipped; absent if there are none
//     tb/                       the same metrics for TensorBoard
//     report.html               a report with curves
//     learning_curve.svg
//     log/rank-<r>.log
//     trace/rank-<r>.json       profiles
//     eval/                     what `bvtrain eval` writes: metrics.jsonl, tb/, report.html, .lock
//       evaluated.json          which run the rows of metrics.jsonl describe, and which checkpoints
//     post-mortem/step-<n>/     a step with values that are not finite (lib/train/step/bad_step.h):
//                               report.json, batch.npz, and in weights/ the weights before it
//     ckpt/
//       LAST                    the name of the newest checkpoint, as a hint for people
//       step-<n>/               a committed checkpoint
//         manifest.json
//         state-<rank>-of-<ranks>.safetensors
//       best/, best-<name>/     the checkpoint at which a metric was best (key `best`): a commit of
//                               its own, with links to the files of its step
//       step-<n>.tmp/           a checkpoint being written by one process
//       step-<n>.<k>.<id>.tmp/  the k-th save of several ranks, being written; also holds
//         part-<rank>.json      what rank 0 must know about the file of another rank
//       best.tmp/               a best checkpoint being written
//       .trash-step-<n>/        a checkpoint being deleted
//       .old-<name>/            a checkpoint that another one is replacing
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/ckpt/workdir/claimed_folder.h"
#include "lib/ckpt/workdir/workdir_lock.h"

namespace bv {

// Throws Error(Exit::usage) for gs://, s3://, hdfs://, http:// and https://, with what to do
// instead.
void refuse_remote_path(const std::string& path);

// The name of the best checkpoint in ckpt/, and after a ':' in paths.
inline constexpr const char* kBestName = "best";

// The name of a checkpoint begins with this while another one takes its place.
inline constexpr std::string_view kReplacedPrefix = ".old-";

// The file names in the folder of one checkpoint.
inline constexpr const char* kManifestName = "manifest.json";
std::string shard_name(int rank, int ranks);  // "state-00000-of-00001.safetensors"
bool is_shard_name(std::string_view name);
// Returns whether the folder holds a manifest and a shard, as that of a checkpoint does.
bool holds_checkpoint(const std::string& folder);
// Returns whether the folder is that of one checkpoint, whole or damaged: it has a manifest and is
// not a workdir or a ckpt/ folder with checkpoints, where a manifest.json is somebody else's.
bool is_checkpoint_folder(const std::string& folder);
std::string part_name(int rank);         // "part-1.json"
std::string failed_part_name(int rank);  // "part-1.failed": why a rank has no part

// The names in a ckpt/ folder. It may be copied elsewhere and then need not belong to a workdir.
class CkptFolder {
 public:
  explicit CkptFolder(std::string path) : path_(std::move(path)) {}

  // Returns the folder ckpt/ in `path` if there is one. Otherwise `path` is such a folder itself.
  static CkptFolder at(const std::string& path);

  const std::string& path() const { return path_; }
  std::string last() const { return path_ + "/LAST"; }
  static std::string step_name(int64_t step);  // "step-12"
  // Returns the step of such a name; nullopt for any other string.
  static std::optional<int64_t> step_of(std::string_view name);
  std::string step(int64_t step) const { return path_ + "/" + step_name(step); }
  // Returns the folder in which the checkpoint of a step is written before it is committed. `id` is
  // empty for a single process, and "<number of the save>.<Writers::id>" for several.
  std::string unfinished(int64_t step, const std::string& id) const;
  // Returns the folder of the best checkpoint of a series; `name` is empty if the config has only
  // one series.
  std::string best(const std::string& name) const {
    return path_ + "/" + kBestName + (name.empty() ? "" : "-" + name);
  }
  // Returns the folders of all best checkpoints that are there, in alphabetical order.
  std::vector<std::string> all_best() const;
  // Returns the name that a committed checkpoint has while it is deleted.
  std::string trash(int64_t step) const;

  // Returns the steps of all committed checkpoints, ascending. Does not verify them. Empty if there
  // is no such folder. If it cannot be listed, throws Error: Exit::storage if the disk fails,
  // otherwise Exit::usage.
  std::vector<int64_t> steps() const;
  // Returns the paths of what killed saves have left behind: unfinished checkpoints, replaced ones,
  // trash and temporary files of LAST. Leaves out the folders of the current start: `id` is its
  // Writers::id.
  std::vector<std::string> leftovers(const std::string& id) const;

 private:
  std::string path_;
};

// Returns whether `path` has the form "W:best" or "W:best-<name>" and no file has this name.
bool names_best(const std::string& path);
// Returns the folder of the checkpoint that `path` means: ":best" and ":best-<name>" after a
// workdir or a ckpt/ folder stand for its best checkpoint. Any other path is returned as it is. If
// there is no such best checkpoint, throws Error(Exit::usage) that lists those that exist.
std::string checkpoint_path(const std::string& path);

// If `path` does not exist and ends with ":ema" after a checkpoint, as in "W:best:ema", returns
// that checkpoint, "W:best", otherwise "". Such a path names averaged weights, not a checkpoint.
// Throws like checkpoint_path().
std::string checkpoint_of_averages(const std::string& path);

class Workdir {
 public:
  explicit Workdir(std::string dir) : dir_(std::move(dir)) {}

  // Throws Error if the path is empty or remote, if a part of it is not a folder, or if it cannot
  // be looked up. A broken symbolic link, or a folder that this host may not look into, is no
  // error, because another host may be able to use it. Returns the path at which the search ended:
  // the folder, its nearest parent that exists, or the broken link or closed folder on the way.
  std::string check_path() const;
  // The same, and throws Error(Exit::usage) or, on a read-only disk, Error(Exit::storage) if this
  // host cannot create the folder or write to it. Creates nothing.
  void check_writable() const;
  // Creates the folder, takes its lock and keeps it until the object is destroyed
  // (WorkdirLock::take(), which says what it throws). Then deletes the temporary files that killed
  // processes have left in the folder (lib/util/temporary_file.h), and renames back the checkpoints
  // that they were replacing (restore_replaced()).
  void claim(double patience = 0, std::string_view option = "--workdir");
  // Before claim(), for a process that looks at the checkpoints first: renames back those that a
  // killed process was replacing, unless a process has the lock. Ignores failures: a process may
  // claim the folder meanwhile, and claim() tries again.
  void restore_unless_taken() const;
  // Remembers which folder this is, for a process that uses it but does not claim it. Does nothing
  // after claim().
  void remember() { folder_->remember(); }
  // The folder that was claimed. Whoever creates a folder in the workdir later, or replaces a file,
  // first calls its require_there().
  std::shared_ptr<const ClaimedFolder> folder() const { return folder_; }

  const std::string& dir() const { return dir_; }
  std::string lock() const { return dir_ + "/.lock"; }
  std::string cron_lock() const { return dir_ + "/.cron.lock"; }  // of scripts/cron.sh
  std::string done() const { return dir_ + "/DONE"; }
  std::string failed() const { return dir_ + "/FAILED"; }
  std::string config() const { return dir_ + "/config.yaml"; }
  std::string config_until(int64_t step) const {
    return dir_ + "/" + kOldConfigPrefix + std::to_string(step) + ".yaml";
  }
  std::string run_json() const { return dir_ + "/run.json"; }
  std::string result() const { return dir_ + "/result.json"; }
  std::string metrics() const { return dir_ + "/metrics.jsonl"; }
  std::string skipped() const { return dir_ + "/skipped.jsonl"; }
  std::string tensorboard() const { return dir_ + "/tb"; }
  std::string report() const { return dir_ + "/report.html"; }
  std::string evaluation() const { return dir_ + "/eval"; }
  std::string evaluated() const { return dir_ + "/evaluated.json"; }  // in evaluation()
  std::string post_mortem() const { return dir_ + "/post-mortem"; }
  std::string post_mortem(int64_t step) const {
    return post_mortem() + "/step-" + std::to_string(step);
  }
  std::string learning_curve() const { return dir_ + "/learning_curve.svg"; }
  std::string log_folder() const { return dir_ + "/log"; }
  std::string log(int rank) const {
    return log_folder() + "/rank-" + std::to_string(rank) + ".log";
  }
  std::string trace_folder() const { return dir_ + "/trace"; }
  std::string trace(int rank) const {
    return trace_folder() + "/rank-" + std::to_string(rank) + ".json";
  }
  CkptFolder ckpt() const { return CkptFolder(dir_ + "/ckpt"); }
  // Returns the paths of the folders that a run or `bvtrain eval` may make in the workdir, whether
  // they exist or not.
  std::vector<std::string> folders() const;
  // Whether one of these folders has this name.
  static bool is_folder_of_run(std::string_view name);

  // Returns whether a run or `bvtrain eval` uses this name in the folder. Returns false for all
  // names if the folder holds neither a run nor rows of `bvtrain eval`.
  bool owns(const std::string& name) const;

  // The end of a run, as recorded in DONE.
  struct Done {
    int64_t step = 0;        // the last one
    std::string early = {};  // why it stopped before its total steps; empty: it did not
  };
  // Returns what DONE holds; nullopt if there is no DONE, or none with a number of steps. Throws
  // Error(Exit::storage) if the disk cannot be read.
  std::optional<Done> finished() const;
  void write_done(int64_t step,
                  const std::string& early = "") const;  // throws Error(Exit::storage)
  // Removes DONE and result.json and syncs the folder, because the run continues. Throws
  // Error(Exit::storage).
  void remove_end() const;
  // Deletes all files of the run (--cleanup), and the folder too if it is empty then. If ckpt/ is a
  // symbolic link, this includes the checkpoints behind it. If another of the folders is one,
  // deletes the link alone and logs a warning. Returns the names that remain in the workdir: files
  // of others, and what cannot be deleted. The caller must hold the lock, which is released.
  std::vector<std::string> remove();

 private:
  static constexpr const char* kOldConfigPrefix = "config-until-step-";
  // Returns the paths of the files that restarts have put aside: old configs and damaged files.
  std::vector<std::string> files_put_aside() const;
  // Returns the paths of temporary files whose writers have died. With `ends`, the run has ended;
  // its own temporary files are then included if it is unknown whether their writers are alive.
  std::vector<std::string> left_behind(bool ends) const;
  // Returns the paths of the files and folders that a run may write, whether they exist or not. The
  // lock and files_put_aside() are not among them.
  std::vector<std::string> own_files() const;

  std::string dir_;
  std::optional<WorkdirLock> lock_;
  std::shared_ptr<ClaimedFolder> folder_ = std::make_shared<ClaimedFolder>(dir_, lock());
};

}  // namespace bv

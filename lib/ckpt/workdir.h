// Every file name of a workdir, and the lock that makes it one run's.
//
//   config.yaml run.json metrics.jsonl tb/ log/rank-<r>.log trace/rank-<r>.json report.html
//   learning_curve.svg .lock DONE ckpt/step-<n>/ ckpt/step-<n>.tmp/ ckpt/LAST ckpt/best/
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bv {

// gs://, s3://, hdfs://, http:// and https:// are refused by name, with what to do instead.
// Throws Error(Exit::usage).
void refuse_remote_path(const std::string& path);

class Workdir {
 public:
  explicit Workdir(std::string dir) : dir_(std::move(dir)) {}

  // Throws Error(Exit::usage) where `dir` can't be made or written, or is a remote path, without
  // creating anything.
  void check_writable() const;
  // Creates the folder and takes the lock (flock on .lock, held until the object dies). Throws
  // Error(Exit::usage) "D is in use by process P on host H" in under 1 s.
  void claim();
  ~Workdir();
  Workdir(const Workdir&) = delete;
  Workdir& operator=(const Workdir&) = delete;

  const std::string& dir() const { return dir_; }
  std::string config() const { return dir_ + "/config.yaml"; }
  std::string run_json() const { return dir_ + "/run.json"; }
  std::string metrics() const { return dir_ + "/metrics.jsonl"; }
  std::string tensorboard() const { return dir_ + "/tb"; }
  std::string log(int rank) const { return dir_ + "/log/rank-" + std::to_string(rank) + ".log"; }
  std::string trace(int rank) const {
    return dir_ + "/trace/rank-" + std::to_string(rank) + ".json";
  }
  std::string report() const { return dir_ + "/report.html"; }
  std::string learning_curve() const { return dir_ + "/learning_curve.svg"; }
  std::string lock() const { return dir_ + "/.lock"; }
  std::string done() const { return dir_ + "/DONE"; }
  std::string ckpt_root() const { return dir_ + "/ckpt"; }
  std::string ckpt(int64_t step) const { return ckpt_root() + "/step-" + std::to_string(step); }
  std::string best() const { return ckpt_root() + "/best"; }

  // Steps of the committed folders ckpt/step-<n>, ascending (not verified).
  std::vector<int64_t> ckpt_steps() const { return steps_in(ckpt_root()); }
  // The same of any ckpt/ folder; empty where there is none.
  static std::vector<int64_t> steps_in(const std::string& ckpt_root);
  // The total steps DONE holds; nullopt where there is no (readable) DONE.
  std::optional<int64_t> finished() const;
  void write_done(int64_t total_steps) const;  // Error(Exit::storage)
  // --cleanup, under the lock: removes all files of a run, and the folder unless it holds others
  // (returned, they stay). Throws Error(Exit::storage).
  std::vector<std::string> remove();

 private:
  std::string dir_;
  int lock_fd_ = -1;
};

}  // namespace bv

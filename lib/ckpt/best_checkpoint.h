// ckpt/best: the checkpoint of the step at which a metric was best.
//
// It is a complete checkpoint, so it remains when ckpt/step-<n> is deleted. Its files are hard
// links to those of ckpt/step-<n>, or copies where the file system has no hard links. In its
// manifest, meta.best is the BestPoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bv {

struct BestPoint {
  std::string metric;  // "val/prec@1"
  bool higher_is_better = true;
  int64_t step = 0;
  double value = 0;

  bool operator==(const BestPoint&) const = default;
};

// Makes the committed checkpoint in the folder `checkpoint` the best one, at `best`. A process may
// be killed at any time: `best` is then the old one or the new one. Throws Error(Exit::storage).
void write_best(const std::string& best, const std::string& checkpoint, const BestPoint& point);

// Links or copies the files of a checkpoint into a new folder `to`, so that they stay when the run
// deletes the checkpoint. Replaces what `to` holds. Throws Error(Exit::usage) if the manifest is
// missing or damaged, and Error(Exit::storage) if a file of the checkpoint is missing or cannot be
// linked.
void hold_checkpoint(const std::string& to, const std::string& checkpoint);

// Moves `best` aside, to ckpt/old-best-step-<n>, where n is its step. Returns that path. Throws
// Error(Exit::storage).
std::string put_best_aside(const std::string& best, int64_t step);

// Undoes put_best_aside() if the checkpoint there is the one of `point` and there is no other
// `best`. Returns whether it has done so. Throws Error(Exit::storage).
bool take_best_back(const std::string& best, const BestPoint& point);

// Returns the content of the manifest at `best`; nullopt if there is none or it cannot be used.
std::optional<BestPoint> read_best(const std::string& best);

}  // namespace bv

// A bad step: its loss, gradients or update are not finite. This file describes it, finds the first
// value that is not finite, and writes the folder that `bvtrain replay` reads.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/snapshot.h"
#include "lib/tasks/task.h"
#include "lib/train/mixup.h"
#include "lib/train/recipe.h"

namespace bv {

// The files of the folder of a bad step (Workdir::post_mortem()).
inline constexpr const char* kBadStepReport = "report.json";
inline constexpr const char* kBadStepBatch = "batch.npz";
inline constexpr const char* kBadStepWeights = "weights";  // in the format of a checkpoint

// The result of recomputing a step in float32. Empty: all values are finite.
struct Diagnosis {
  // The first activation that is not finite, and the one before it.
  std::string activation, activation_before;
  std::string loss;      // "nan", "inf", ...
  std::string gradient;  // the first parameter whose gradient, or its square, is not finite
};

struct BadStep {
  int64_t step = 0;
  std::string reason;  // "the loss is nan; 4 of 4 gradients are not finite, ..."
  // The loss and the gradients are finite, but not the norm of the update or that of the parameters
  // after it.
  bool update = false;
  // The examples of the batch in their order, and those of them whose inputs are not finite.
  std::vector<std::string> examples, bad_examples;
  // The L2 norm of each parameter before the step; NaN if it is not finite.
  std::vector<std::pair<std::string, double>> norms;
  Example batch;               // whole_batch(), or empty
  std::string batch_left_out;  // why the batch is empty; "" if it is not
  std::optional<Diagnosis> float32;

  // Returns a few lines for people.
  std::string text() const;
  nlohmann::ordered_json json() const;
};

// Returns the batch of step `step` of all ranks, as the loader makes it, before mixup; images are
// float32. `shift`: LoaderOptions::shift. `failed`: names of examples that are known to fail.
// Throws Error(Exit::data).
Example whole_batch(const Recipe& recipe, int64_t step, int64_t shift,
                    const std::set<std::string>& failed = {});
// Returns why one process of the run should not hold and save such a batch: "32768 images of
// 224x224x3 take 18.4 GiB, more than 1 GiB". "" if it may.
std::string too_large_to_save(const Recipe& recipe);

// Returns what is known of step `step`: its examples. `batch` may be empty.
BadStep bad_step(const Recipe& recipe, int64_t step, std::string reason, Example batch,
                 int64_t shift);

// Returns the L2 norm of each parameter; NaN if it is not finite.
std::vector<std::pair<std::string, double>> parameter_norms(const Model& model);

// Computes forward and backward of a training step in float32, with the mixup and the dropout of
// step `step`. `batch` holds the examples of all `ranks` ranks on the model's device. The
// parameters must hold no gradients that are still needed.
Diagnosis diagnose(Model& model, const Task& task, const Example& batch, const MixupConfig& mixup,
                   uint64_t seed, int64_t step, int ranks);

// Returns the checksum of the batch file, which the metadata of the weights records.
std::string batch_checksum(const std::string& folder);

// Returns the parameters and buffers of a model as the state before step `step`, for
// write_bad_step(). `meta` is the metadata of a checkpoint.
Snapshot weights_before(const Model& model, int64_t step, nlohmann::json meta);

// Writes the folder, in place of an older one. If the process is killed meanwhile, it can leave the
// new folder as "<folder>.tmp" and the older one as "<folder>.old"; the next call for this folder
// removes both. `weights` may be null. Throws Error(Exit::storage).
void write_bad_step(const std::string& folder, const BadStep& bad, const Snapshot* weights);

}  // namespace bv

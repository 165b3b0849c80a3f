// Loader: batches of a data set, computed ahead by worker threads of this process.
//
// The stream of examples is a pure function of (data, pp, seed). Position p = b * batch_size + row
// belongs to batch b. It holds example shuffle(seed, p / n, p % n) of the n examples (p % n without
// shuffling), augmented with Rng(seed, Purpose::augment, p). For mixtures of data sets see
// TrainingData::pick(). Threads, prefetching and restarts change nothing.
//
// An example that fails (the source or an op throws Error(Exit::data) or a foreign exception)
// counts against the error budget. In training another example takes its place: try k, up to 20,
// takes draw number k of TrainingData::replacement() with Rng(seed, Purpose::shuffle, p). In
// evaluation the row is filled with zeros. Failures that only a wrong config can cause (examples of
// different shapes, a missing feature, a label out of range) always stop the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/input/loader/failed_example.h"
#include "lib/input/training_data.h"

namespace bv {

using Batch = Example;  // every tensor has the leading dimension batch_size / ranks

struct LoaderOptions {
  int64_t batch_size = 0;  // of all ranks together, a multiple of `ranks`
  int threads = 1;
  Place threads_place = {};  // in the config, for the message that they cannot be started
  int prefetch = 2;          // complete batches kept ready
  uint64_t seed = 0;
  bool shuffle = true;
  // False: an endless stream for training. True: one pass in order for evaluation. The last batch
  // is then padded with zeros, and every batch has `_mask` (bool: whether the row is a real
  // example) and `_id` (int64: the example's index).
  bool evaluation = false;
  // The number of different examples that may fail: during the loader's lifetime in training,
  // during one pass in evaluation. The key skip_errors of the config's part `section` gives it.
  int64_t error_budget = 0;
  std::string section = "input";  // or "evals.<name>"
  bool warns = true;              // next() logs the first failures, as warnings
  // An example whose types and shapes all others have. If empty, the loader takes the first one
  // that can be computed, and fails if none of kMostTries (check_examples.h) can be.
  Example prototype = {};
  // This loader computes part `rank` of the `ranks` equal parts of every batch.
  int rank = 0, ranks = 1;
  // Added to the position of every row. A run whose batch size was changed continues the stream
  // where it was.
  int64_t shift = 0;
  // Batches are in pinned memory, so that copies to a CUDA device can be asynchronous.
  bool pinned = false;
};

// Returns the options of a loader that computes whole batches in one process, which may have no
// GPU. It keeps one batch ready.
LoaderOptions in_one_process(LoaderOptions options);

// Reads the key `skip_errors`: the number of failing examples to tolerate, or true for any number
// (and false for none). Records problems with the config.
int64_t read_error_budget(const Config& config);
// The row of that key; `meaning` says what happens to the examples.
constexpr KeyText skip_errors_key(std::string_view meaning, std::string_view big_vision = {}) {
  return {"skip_errors", "int >= 0 | bool", "0", meaning, "100", big_vision};
}

// Used by one thread, the consumer.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp,
         LoaderOptions options);
  // For evaluation the data must not be a mixture.
  Loader(std::shared_ptr<const TrainingData> data, LoaderOptions options);
  ~Loader();

  // Returns ceil(n / batch_size).
  int64_t batches_per_pass() const;
  // Makes `batch` the next batch. Stops the worker threads; next() starts them again.
  void seek(int64_t batch);
  // Returns the next batch, waiting for it if necessary. The reference is valid until the next call
  // of next() or seek().
  //
  // Throws the failure of a worker at the batch to which it belongs, and at every further call
  // until seek(): Error(Exit::data) "[input] train/cat/17.jpg: ..." once the error budget is
  // exceeded. An evaluation loader throws Error(Exit::internal) after its last batch.
  const Batch& next();

  double wait_seconds() const;  // total time spent in next()

  // Returns the examples that failed for the first time since the last call, in the order of the
  // stream.
  std::vector<FailedExample> take_failed();
  // Training: counts an example as failed, because another rank or an earlier process of the run
  // has met it.
  void add_failed(const std::string& name);
  // Evaluation: the number of rows that were filled with zeros because their example failed, in the
  // batches returned since seek(). An example that fails in every pass counts in each of them.
  int64_t failed_rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

// Batches from a data set: threads in the process, a ring of preallocated batches.
//
// Batch b is a pure function of (data, pp, seed, b): position p = b * batch_size + slot of the
// endless stream is example shuffle(seed, p / n, p % n) (p % n without shuffling), augmented with
// Rng(seed, Purpose::augment, p). Nothing depends on threads, prefetch or a restart.
//
// An example that fails (Error(Exit::data) or another exception of the source or an op) counts
// against the error budget. In training the k-th draw of Rng(seed, Purpose::shuffle, p).below(n)
// takes its place at the k-th try, at most 20 times; in evaluation its row is zeros. What only a
// wrong config can bring about (examples of different shapes, a missing feature) always stops.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "lib/input/op.h"
#include "lib/input/source.h"

namespace bv {

using Batch = Example;  // every tensor has the same leading dimension: batch_size / ranks

struct LoaderOptions {
  int64_t batch_size = 0;
  int threads = 1;
  int prefetch = 2;  // complete batches kept ready
  uint64_t seed = 0;
  bool shuffle = true;
  // Endless stream for training, or one pass in order for evaluation: the last batch is padded with
  // zeros, and every batch has `_mask` (bool: a real example) and `_id` (int64: its index).
  bool evaluation = false;
  int64_t error_budget = 0;  // different examples that may fail, in the loader's life
  // Of `ranks` equal parts of every batch, this loader makes number `rank`. batch_size is of the
  // whole, a multiple of `ranks`.
  int rank = 0, ranks = 1;
  bool pinned = false;  // batches lie in pages that a CUDA device reads while the CPU goes on
};

// The key `skip_errors`: how many failing examples to put up with; true (the seeds' form) is any
// number. Throws Error(Exit::usage).
int64_t read_error_budget(const Config& config);

class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp,
         LoaderOptions options);
  ~Loader();

  int64_t batches_per_pass() const;  // ceil(n / batch_size)
  // (Re)starts so that the next batch is `batch`; threads start at the first next().
  void seek(int64_t batch);
  // Blocks. Valid until the next call of next() or seek(). Rethrows a worker's error at the batch
  // it belongs to: Error(Exit::data), "[input] train/cat/17.jpg: ..." above the error budget; so
  // does every further call until seek().
  // An evaluation loader throws Error(internal) past its last batch.
  const Batch& next();
  double wait_seconds() const;  // spent in next(), in total
  int64_t errors() const;       // different examples that failed in the batches handed out so far
  const std::set<int64_t>& failed() const;  // their indices
  // In an evaluation: rows of the batches handed out since seek() that were left out. An example
  // that fails in every pass is one of errors(), but a row of each.
  int64_t failed_rows() const;

  // One example after pp, computed in this thread: for shapes, --dry-run. It is the first that does
  // not fail, if no more than `error_budget` do, else Error(Exit::usage) for the first; what a
  // wrong config brings about keeps its place in the config.
  static Example first_example(const Dataset& data, const Pipeline& pp, uint64_t seed,
                               int64_t error_budget = 0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

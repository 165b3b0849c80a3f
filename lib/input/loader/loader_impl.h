// Private to the loader: the state that the consumer and the worker threads share.
//
// How the threads share the work: a batch is divided into chunks of rows. Worker threads take the
// chunks in order from an atomic counter and fill their rows of the ring. The thread that finishes
// the last chunk of a batch marks the batch ready. The consumer holds one batch of the ring; the
// workers wait when all others are full. Locks are taken per batch, not per example, except for
// waiting and for recording failures.
//
// Workers only record failures, with their batch. The consumer counts them, warns and throws when
// it reaches that batch, so the batch at which a run fails does not depend on the threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/input/loader/batch_ring.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/loader/failed_example.h"
#include "lib/input/loader/loader.h"
#include "lib/input/training_data.h"
#include "lib/util/error.h"

namespace bv {

struct Loader::Impl {
  Impl(std::shared_ptr<const TrainingData> data, const LoaderOptions& options);
  ~Impl() { stop(); }

  // For the consumer (loader.cc).
  void start();
  void stop();
  const Batch& next();
  void release(int64_t batch);
  void count_failures(std::vector<ExampleFailure>& failures);
  std::string end_text(const ExampleFailure& failure, int64_t count) const;
  void warn(const ExampleFailure& failure) const;

  // For the workers (loader_workers.cc).
  void work(int number);
  void fill(int64_t batch, int64_t chunk);
  void fill_stacked(int64_t batch, int64_t begin, int64_t end);
  bool fill_row(int64_t batch, int64_t row);
  TrainingData::Pick pick_at(int64_t position) const;
  void record(int64_t batch, ExampleFailure failure);

  struct Slot {
    std::atomic<int64_t> open_chunks{0};   // chunks that are not filled yet
    bool ready = false;                    // guarded by mutex
    std::vector<ExampleFailure> failures;  // guarded by mutex until ready
  };
  Slot& slot(int64_t batch) { return slots[batch % std::ssize(slots)]; }
  int64_t ring_slot(int64_t batch) const { return batch % std::ssize(slots); }
  // Returns the stream position of a row in this rank's part of a batch.
  int64_t position_of(int64_t batch, int64_t row) const {
    return options.shift + batch * options.batch_size + options.rank * rows + row;
  }

  const std::shared_ptr<const TrainingData> data;
  const LoaderOptions options;
  const int64_t size;
  const int64_t rows;       // per batch, in this rank
  const bool stacked;       // whether chunks go through read_batch() and apply_batch()
  const int64_t chunk;      // rows per chunk
  const int64_t chunks;     // chunks per batch
  const int64_t end_batch;  // number of batches of an evaluation pass; unlimited in training
  std::optional<BatchRing> ring;
  std::vector<Slot> slots;  // one for each batch of the ring

  // State of the workers.
  std::vector<std::thread> workers;
  int64_t first_batch = 0;         // the batch of ticket 0
  std::atomic<int64_t> ticket{0};  // the next chunk, counted from first_batch
  std::atomic<int64_t> limit{0};   // workers fill only batches below it; raised under mutex
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable ready;  // a batch became ready
  std::condition_variable space;  // limit was raised, or stopping was set

  // State of the consumer.
  int64_t next_batch = 0;        // the batch that next() will return
  bool holds_batch = false;      // whether the consumer holds the batch before it
  std::set<std::string> failed;  // names
  std::vector<FailedExample> new_failed;
  int64_t pass_failures = 0;  // since seek()
  std::optional<Error> error;
  double waited = 0;
};

}  // namespace bv

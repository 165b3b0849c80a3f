// How the threads share the work: a batch is divided into chunks of rows. Worker threads take the
// chunks in order from an atomic counter and fill their rows of the ring. The thread that finishes
// the last chunk of a batch marks the batch ready. The consumer holds one batch of the ring; the
// workers wait when all others are full. Locks are taken per batch, not per example, except for
// waiting and for recording failures.
//
// Workers only record failures, with their batch. The consumer counts them, warns and throws when
// it reaches that batch, so the batch at which a run fails does not depend on the threads.
#include "lib/input/loader/loader.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "lib/device/compute_threads.h"
#include "lib/device/out_of_memory.h"
#include "lib/input/loader/batch_ring.h"
#include "lib/input/loader/check_examples.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/skip_hint.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int kMaxReplacements = 20;
constexpr int64_t kMaxWarnings = 10;

// Returns the example from which the ring takes its shapes: the first of the (first) data set that
// can be computed, so that the shapes do not depend on where a run begins. Earlier failures are
// reported later, when their batch is reached. Throws the first failure if kMostTries examples
// fail.
Example find_prototype(const TrainingData& data, uint64_t seed) {
  const c10::NoGradGuard no_grad;
  std::optional<ExampleFailure> failure;
  const Dataset& first = *data.parts()[0].data;
  for (int64_t i = 0; i < std::min(first.size(), kMostTries); ++i) {
    const int64_t index = example_to_try(i, first.size());
    try {
      return data.compute({0, index}, seed, index);
    } catch (...) {
      if (!failure) failure = current_failure(first, index);
    }
  }
  throw Error::in("input", failure->code, failure->text());
}

}  // namespace

struct Loader::Impl {
  Impl(std::shared_ptr<const TrainingData> data, const LoaderOptions& options);
  ~Impl() { stop(); }

  void start();
  void stop();
  const Batch& next();
  void release(int64_t batch);
  void count_failures(std::vector<ExampleFailure>& failures);
  std::string end_text(const ExampleFailure& failure, int64_t count) const;
  void warn(const ExampleFailure& failure) const;

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

namespace {

// Returns the number of rows of a chunk: one example, unless whole stacks are computed at once.
int64_t chunk_rows(int64_t rows, int threads, bool stacked) {
  if (!stacked) return 1;
  return std::min(std::clamp<int64_t>(rows / (2 * threads), 8, 256), rows);
}

LoaderOptions checked(const LoaderOptions& options, const TrainingData& data) {
  check(options.batch_size >= 1, "loader: batch_size {}", options.batch_size);
  check(options.ranks >= 1 && options.batch_size % options.ranks == 0 && options.rank >= 0 &&
            options.rank < options.ranks,
        "loader: rank {} of {}, batch_size {}", options.rank, options.ranks, options.batch_size);
  check(options.threads >= 1, "loader: threads {}", options.threads);
  check(options.prefetch >= 0, "loader: prefetch {}", options.prefetch);
  check(!options.evaluation || !data.is_mixture(), "loader: an evaluation of a mixture");
  if (data.size() < 1) throw Error::in("input", Exit::usage, "the data set has no examples");
  return options;
}

}  // namespace

Loader::Impl::Impl(std::shared_ptr<const TrainingData> from, const LoaderOptions& given)
    : data(std::move(from)),
      options(checked(given, *data)),
      size(data->size()),
      rows(options.batch_size / options.ranks),
      stacked(!data->is_mixture() && data->parts()[0].data->is_array() &&
              data->parts()[0].pp->has_batched()),
      chunk(chunk_rows(rows, options.threads, stacked)),
      chunks((rows + chunk - 1) / chunk),
      end_batch(options.evaluation ? (size + options.batch_size - 1) / options.batch_size
                                   : std::numeric_limits<int64_t>::max()),
      slots(options.prefetch + 1) {}

void Loader::Impl::start() {
  if (!ring) {
    const bool given = !options.prototype.empty();
    ring.emplace(given ? options.prototype : find_prototype(*data, options.seed), rows,
                 static_cast<int>(slots.size()), options.evaluation, options.pinned);
  }
  for (Slot& each : slots) {
    each.open_chunks = chunks;
    each.ready = false;
    each.failures.clear();
  }
  first_batch = next_batch;
  ticket = 0;
  limit = first_batch + std::ssize(slots);
  holds_batch = false;
  try {
    for (int i = 0; i < options.threads; ++i) workers.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(Exit::usage, options.threads_place,
                fmt::format("{}.threads: can't start {} loader threads: {}; lower the number, or "
                            "raise the limits on processes and memory (ulimit -u, ulimit -v)",
                            options.section, options.threads, error.code().message()));
  }
}

void Loader::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  space.notify_all();
  for (std::thread& worker : workers) worker.join();
  workers.clear();
  stopping = false;
}

const Batch& Loader::Impl::next() {
  if (error) throw *error;
  check(next_batch < end_batch, "loader: no batch {} in a pass of {}", next_batch, end_batch);
  const auto begin = std::chrono::steady_clock::now();
  if (workers.empty()) {
    start();
  } else if (holds_batch) {
    release(next_batch - 1);
  }
  Slot& current = slot(next_batch);
  {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return current.ready; });
  }
  waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  count_failures(current.failures);
  holds_batch = true;
  return ring->batch(ring_slot(next_batch++));
}

void Loader::Impl::release(int64_t batch) {
  {
    const std::lock_guard lock(mutex);
    Slot& done = slot(batch);
    done.open_chunks = chunks;
    done.ready = false;
    done.failures.clear();
    ++limit;
    holds_batch = false;
  }
  space.notify_all();
}

// Counts the failures of a ready batch in the order of its rows, warns, and throws the first one
// that exceeds the error budget.
void Loader::Impl::count_failures(std::vector<ExampleFailure>& failures) {
  std::sort(failures.begin(), failures.end(), [](const ExampleFailure& a, const ExampleFailure& b) {
    return std::tie(a.row, a.attempt) < std::tie(b.row, b.attempt);
  });
  for (const ExampleFailure& failure : failures) {
    const std::string name = in_utf8(failure.name);
    pass_failures += !failure.fatal;
    const bool is_new = !failure.fatal && failed.insert(name).second;
    const int64_t count = options.evaluation ? pass_failures : std::ssize(failed);
    if (failure.fatal || count > options.error_budget) {
      error = Error::in("input", failure.code, end_text(failure, count));
      throw *error;
    }
    if (!is_new) continue;
    new_failed.push_back({failure.index, name, failure.reason, failure.files});
    if (auto& files = new_failed.back().files) {
      for (std::string& file : *files) file = in_utf8(file);
    }
    if (options.warns) warn(failure);
  }
}

std::string Loader::Impl::end_text(const ExampleFailure& failure, int64_t count) const {
  if (failure.fatal) return failure.text();
  if (options.error_budget == 0)
    return fmt::format("{} {}", failure.text(), skip_hint(options.section));
  return fmt::format("{} ({} examples failed; {}.skip_errors allows {})", failure.text(), count,
                     options.section, options.error_budget);
}

void Loader::Impl::warn(const ExampleFailure& failure) const {
  const int64_t count = std::ssize(failed);
  if (count <= kMaxWarnings) {
    log::warn("[input] {} ({})", failure.text(),
              options.evaluation ? "skipped" : "another example takes its place");
  } else if (count == kMaxWarnings + 1) {
    log::warn("[input] further failing examples are counted but not listed here");
  }
}

void Loader::Impl::work(int number) {
  pthread_setname_np(pthread_self(), fmt::format("bv-load-{}", number).c_str());
  stay_single_threaded();
  const c10::InferenceMode no_autograd;
  while (true) {
    const int64_t mine = ticket.fetch_add(1, std::memory_order_relaxed);
    const int64_t batch = first_batch + mine / chunks;
    if (batch >= end_batch) return;
    if (batch >= limit) {
      std::unique_lock lock(mutex);
      space.wait(lock, [&] { return stopping || batch < limit; });
    }
    if (stopping) return;
    try {
      fill(batch, mine % chunks);
    } catch (const std::exception& error) {  // fill() handles the failures of examples itself
      record(batch, {.fatal = true,
                     .code = is_out_of_memory(error) ? Exit::memory : Exit::internal,
                     .name = "loader",
                     .reason = error.what()});
    }
    Slot& filled = slot(batch);
    if (filled.open_chunks.fetch_sub(1) == 1) {
      const std::lock_guard lock(mutex);
      filled.ready = true;
      ready.notify_one();
    }
  }
}

void Loader::Impl::fill(int64_t batch, int64_t number) {
  const int64_t begin = number * chunk;
  const int64_t end = std::min(begin + chunk, rows);
  // The row at which the padding of an evaluation's last batch begins.
  const int64_t real =
      options.evaluation ? std::clamp(size - position_of(batch, 0), begin, end) : end;
  if (real < end) ring->clear(ring_slot(batch), real, end - real);
  if (stacked && real > begin) {
    fill_stacked(batch, begin, real);
  } else {
    for (int64_t row = begin; row < real; ++row) fill_row(batch, row);
  }
}

void Loader::Impl::fill_stacked(int64_t batch, int64_t begin, int64_t end) {
  std::exception_ptr failure;
  std::vector<int64_t> indices;
  try {
    std::vector<Rng> rngs;
    indices.reserve(end - begin);
    rngs.reserve(end - begin);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = position_of(batch, row);
      const TrainingData::Pick pick = pick_at(position);
      indices.push_back(pick.index);
      rngs.emplace_back(options.seed, Purpose::augment, static_cast<uint64_t>(position),
                        Visit{pick.index, pick.pass});
    }
    const TrainingData::Part& part = data->parts()[0];
    Example examples = part.data->read_batch(indices);
    part.pp->apply_batch(examples, rngs);
    ring->write_stacked(ring_slot(batch), begin, end - begin, examples);
    for (int64_t row = begin; row < end; ++row) {
      ring->mark(ring_slot(batch), row, indices[row - begin]);
    }
    return;
  } catch (...) {
    failure = std::current_exception();
  }
  // Compute the examples one by one, to find out which one fails.
  bool found = false;
  for (int64_t row = begin; row < end; ++row) found |= !fill_row(batch, row);
  if (found) return;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    ExampleFailure whole = current_failure(*data->parts()[0].data, indices.at(0));
    whole.row = begin;
    whole.fatal = true;
    record(batch, std::move(whole));
  }
}

// Computes one row, with replacements if necessary. Returns whether the first try succeeded.
bool Loader::Impl::fill_row(int64_t batch, int64_t row) {
  const int64_t position = position_of(batch, row);
  TrainingData::Pick pick = pick_at(position);
  const Dataset& part = *data->parts()[pick.part].data;
  std::optional<Rng> replacement;
  for (int attempt = 0;; ++attempt) {
    try {
      ring->write(ring_slot(batch), row, data->compute(pick, options.seed, position));
      ring->mark(ring_slot(batch), row, pick.index);
      return attempt == 0;
    } catch (...) {
      ExampleFailure failure = current_failure(part, pick.index);
      // Two data sets may both have a "train row 17".
      if (const std::string& name = data->parts()[pick.part].name; !name.empty())
        failure.name = name + ": " + failure.name;
      failure.row = row;
      failure.attempt = attempt;
      if (!failure.fatal && attempt == kMaxReplacements) {
        failure.fatal = true;
        failure.reason += fmt::format(" (the last of {} replacements in a row)", attempt);
      }
      const bool give_up = failure.fatal || options.error_budget == 0;
      record(batch, std::move(failure));
      if (give_up) return false;
    }
    if (options.evaluation) {
      ring->clear(ring_slot(batch), row, 1);
      return false;
    }
    if (!replacement) {
      replacement.emplace(options.seed, Purpose::shuffle, static_cast<uint64_t>(position));
    }
    pick = data->replacement(pick, *replacement);
  }
}

TrainingData::Pick Loader::Impl::pick_at(int64_t position) const {
  if (options.evaluation) return {0, position};
  return data->pick(position, options.seed, options.shuffle);
}

void Loader::Impl::record(int64_t batch, ExampleFailure failure) {
  const std::lock_guard lock(mutex);
  slot(batch).failures.push_back(std::move(failure));
}

Loader::Loader(std::shared_ptr<const Dataset> data, std::shared_ptr<const Pipeline> pp,
               LoaderOptions options)
    : Loader(std::make_shared<TrainingData>(std::move(data), std::move(pp)), std::move(options)) {}

Loader::Loader(std::shared_ptr<const TrainingData> data, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(data), options)) {}

Loader::~Loader() = default;

int64_t Loader::batches_per_pass() const {
  return (impl_->size + impl_->options.batch_size - 1) / impl_->options.batch_size;
}

void Loader::seek(int64_t batch) {
  check(batch >= 0 && batch <= impl_->end_batch, "loader: seek to batch {} of {}", batch,
        impl_->end_batch);
  impl_->stop();
  impl_->next_batch = batch;
  impl_->pass_failures = 0;
  impl_->error.reset();
}

const Batch& Loader::next() { return impl_->next(); }

double Loader::wait_seconds() const { return impl_->waited; }

std::vector<FailedExample> Loader::take_failed() { return std::exchange(impl_->new_failed, {}); }
void Loader::add_failed(const std::string& name) { impl_->failed.insert(name); }
int64_t Loader::failed_rows() const { return impl_->pass_failures; }

LoaderOptions in_one_process(LoaderOptions options) {
  options.rank = 0;
  options.ranks = 1;
  options.prefetch = 1;
  options.pinned = false;
  return options;
}

int64_t read_error_budget(const Config& config) {
  if (config.is_bool("skip_errors"))
    return config.get<bool>("skip_errors") ? std::numeric_limits<int64_t>::max() : 0;
  const auto budget = config.get<int64_t>("skip_errors", 0);
  if (budget < 0) {
    config.problem("skip_errors",
                   "the number of failing examples to tolerate must not be negative");
  }
  return std::max<int64_t>(budget, 0);
}

}  // namespace bv

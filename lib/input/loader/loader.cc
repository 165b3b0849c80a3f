#include "lib/input/loader/loader.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/input/loader/check_examples.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/loader/loader_impl.h"
#include "lib/input/skip_hint.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

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

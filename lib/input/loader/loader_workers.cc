// The worker threads of a loader: they take chunks of rows and fill them.
#include <c10/core/InferenceMode.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lib/device/compute_threads.h"
#include "lib/device/out_of_memory.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/loader/loader_impl.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int kMaxReplacements = 20;

}  // namespace

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

}  // namespace bv

#include "lib/ckpt/checkpointer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpoint_meta.h"
#include "lib/ckpt/checkpoint_writer.h"
#include "lib/ckpt/manifest.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/ckpt/save_queue.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/report/log.h"
#include "lib/report/metric_writer.h"
#include "lib/report/storage_retries.h"
#include "lib/report/trace.h"
#include "lib/util/crash_point.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

// Before an old checkpoint is deleted, this many newer ones are read in full.
constexpr int kVerified = 2;

using ReadManifest = std::function<Manifest(const std::string& folder)>;

// Returns the manifest of a checkpoint whose files have the right sizes. Does not read the files.
Manifest sized_manifest(const std::string& folder) {
  Manifest manifest = read_manifest(folder);
  for (const Manifest::File& file : manifest.files)
    with_file(folder, file, [](const ChunkReader&, const std::string&) {});
  return manifest;
}

}  // namespace

struct Checkpointer::Impl {
  std::string dir, run_json;
  std::shared_ptr<const ClaimedFolder> workdir;
  CkptFolder ckpt;
  Writers writers;
  int newest_kept;

  std::atomic<int64_t> failed_saves = 0;
  StorageRetries retries = {};
  bool started = false;
  int buffer = -1;       // returned by free_buffer() for the next save; -1: not called yet
  int64_t numbered = 0;  // how many saves have a number: see unfinished()

  std::mutex mutex = {};                 // guards these three
  std::exception_ptr last_failure = {};  // of the last save; null if it succeeded
  std::exception_ptr failed_best = {};   // of a best checkpoint that will be retried
  std::exception_ptr fatal = {};         // what ends the run

  // Only jobs use these.
  bool noted = false;  // run.json records that there is a checkpoint
  int failed_in_a_row = 0;
  int64_t unsaved_step = -1;                 // of the last save, if it failed
  std::map<int64_t, bool> whole_steps = {};  // committed step -> is_whole()
  std::map<int64_t, bool> sized_steps = {};  // committed step -> is_sized()
  std::map<int64_t, bool> keep_steps = {};   // committed step -> `keep` of its manifest
  // Best checkpoints that could not be written: path -> point.
  std::map<std::string, BestPoint> best_to_retry = {};

  SaveQueue queue = {};  // last, so that its thread ends first

  void save(const Snapshot& snapshot, bool keep, const std::string& temporary);
  void commit(const Snapshot& snapshot, bool keep, const std::string& temporary);
  void record(int64_t step, bool keep, const std::exception_ptr& failure);
  void mark_best(const std::string& best, BestPoint point);
  void throw_failure(std::exception_ptr Impl::*failure);
  void start();
  void prune();
  bool is_whole(int64_t step);  // Checkpointer::latest() accepts it; reads all its files
  bool is_sized(int64_t step);  // the same as far as its manifest and the sizes of its files tell
  bool can_continue(int64_t step, const ReadManifest& read) const;
  bool is_kept(int64_t step);
  bool is_needed_for_best(int64_t step) const;
  std::string shared_id() const { return writers.ranks > 1 ? writers.id : ""; }
  std::string unfinished(int64_t step);
};

// Returns the folder in which the next save writes. All ranks must call this for the same saves, so
// that they count alike. A step may be saved twice. Without the number, another rank could write
// its part of the second save into the folder of the first, before rank 0 has renamed that folder.
std::string Checkpointer::Impl::unfinished(int64_t step) {
  const std::string id = shared_id();
  return ckpt.unfinished(step, id.empty() ? "" : fmt::format("{}.{}", ++numbered, id));
}

void Checkpointer::Impl::save(const Snapshot& snapshot, bool keep, const std::string& temporary) {
  std::exception_ptr failure;
  const auto attempt = [&](const auto& work) {
    if (failure) return;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
      if (writers.rank == 0) delete_folder(temporary);  // frees space if the disk is full
    }
  };
  attempt([&] {
    if (snapshot.await_values) snapshot.await_values();
  });
  attempt([&] { write_checkpoint(temporary, snapshot, keep, writers, retries); });
  if (writers.rank == 0 && snapshot.before_commit) attempt([&] { snapshot.before_commit(); });
  if (writers.rank == 0) attempt([&] { commit(snapshot, keep, temporary); });
  record(snapshot.step, keep, failure);
  const std::map<std::string, BestPoint> again = best_to_retry;
  for (const auto& [best, point] : again) mark_best(best, point);
}

void Checkpointer::Impl::commit(const Snapshot& snapshot, bool keep, const std::string& temporary) {
  const std::string folder = ckpt.step(snapshot.step);
  std::optional<std::string> old;
  retries([&] {
    if (!old) old = replace_folder(temporary, folder);
    fsync_path(ckpt.path());
  });
  whole_steps[snapshot.step] = true;
  keep_steps[snapshot.step] = keep;
  crash_point("ckpt.renamed");
  try {
    if (!std::exchange(noted, true)) note_saved(run_json);
  } catch (const Error& error) {
    log::warn("[ckpt] {}", error.what());  // the checkpoint itself is committed
  }
  if (!old->empty()) delete_folder(*old);
  try {
    retries(
        [&] { write_file_atomically(ckpt.last(), CkptFolder::step_name(snapshot.step) + "\n"); });
  } catch (const Error& error) {
    log::warn("[ckpt] {}", error.what());  // the checkpoint itself is committed
  }
  crash_point("ckpt.last_replaced");
  if (keep)
    log::info("[{}] checkpoint kept: {}", snapshot.step, folder);
  else
    log::write_detail(fmt::format("[{}] checkpoint saved: {}", snapshot.step, folder));
  try {
    prune();
  } catch (const Error& error) {
    log::warn("[ckpt] {}", error.what());  // the checkpoint itself is committed
  }
}

// Records whether a save failed, and decides whether the failure ends the run.
void Checkpointer::Impl::record(int64_t step, bool keep, const std::exception_ptr& failure) {
  failed_in_a_row = failure ? failed_in_a_row + 1 : 0;
  unsaved_step = failure ? step : -1;
  const std::lock_guard lock(mutex);
  last_failure = failure;
  if (!failure) return;
  ++failed_saves;
  try {
    std::rethrow_exception(failure);
  } catch (const UntoldFailure&) {
    // Otherwise rank 0 would wait for this rank.
  } catch (const UnsyncedRows&) {
    // A failed fsync may have lost rows, and a second fsync would not report the loss. So no later
    // checkpoint may rely on the rows.
  } catch (const Error& error) {
    if (error.code() == Exit::storage && failed_in_a_row == 1) {
      log::warn(
          "[{}] the checkpoint{} was not saved: {}; the run ends if the next one is not saved",
          step, keep ? " to be kept" : "", error.what());
      return;
    }
  } catch (...) {
    // Not a disk error: the run ends.
  }
  if (!fatal) fatal = failure;
}

// Writes a best checkpoint. After a first failure it waits for the next save; a second one ends the
// run.
void Checkpointer::Impl::mark_best(const std::string& best, const BestPoint point) {
  bool ends_run = best_to_retry.contains(best);
  std::exception_ptr failure;
  try {
    if (point.step == unsaved_step) {
      log::warn("[{}] {} stays as it is: the checkpoint of the best {} so far was not saved",
                point.step, best, point.metric);
    } else {
      retries([&] {
        workdir->require_there();
        write_best(best, ckpt.step(point.step), point);
      });
      log::write_detail(fmt::format("[{}] best checkpoint: {}", point.step, best));
    }
    best_to_retry.erase(best);
  } catch (const Error& error) {
    failure = std::current_exception();
    best_to_retry[best] = point;
    if (!ends_run) {
      log::warn(
          "[{}] {} was not written: {}; this ends the run if it fails again with the next save",
          point.step, best, error.what());
    }
  } catch (...) {
    failure = std::current_exception();
    ends_run = true;
  }
  const std::lock_guard lock(mutex);
  if (failure || best_to_retry.empty()) failed_best = failure;
  if (failure && ends_run && !fatal) fatal = failure;
}

// Throws the failure, once, if there is one.
void Checkpointer::Impl::throw_failure(std::exception_ptr Impl::*failure) {
  std::unique_lock lock(mutex);
  const std::exception_ptr thrown = std::exchange(this->*failure, nullptr);
  lock.unlock();
  if (thrown) std::rethrow_exception(thrown);
}

void Checkpointer::Impl::start() {
  workdir->require_there();
  make_folders(ckpt.path());
  fsync_path(dir);
  for (const std::string& leftover : ckpt.leftovers(shared_id())) delete_folder(leftover);
  if (const std::vector<int64_t> steps = ckpt.steps(); !steps.empty()) {
    const std::string name = CkptFolder::step_name(steps.back()) + "\n";
    if (read_file_if_any(ckpt.last()) != name) write_file_atomically(ckpt.last(), name);
  }
  started = true;
}

// Deletes the checkpoints that are neither marked to be kept nor among the newest that can be used.
// A run can continue only from a whole one, so no other one may take its place. Checkpoints that
// this object has not written are therefore checked once, if there is one to delete. Reading all of
// a thousand checkpoints would take hours, so after kVerified whole ones only the sizes of the
// files are checked.
void Checkpointer::Impl::prune() {
  const std::vector<int64_t> steps = ckpt.steps();
  const size_t newest = static_cast<size_t>(newest_kept);
  if (steps.size() <= newest) return;
  std::vector<int64_t> old;  // those to delete, by ascending step
  for (const int64_t step : std::span(steps).first(steps.size() - newest)) {
    if (!is_kept(step) && !is_needed_for_best(step)) old.push_back(step);
  }
  int whole = 0, usable = 0;
  for (auto step = steps.rbegin(); usable < newest_kept; ++step) {
    while (!old.empty() && old.back() >= *step) old.pop_back();
    if (old.empty()) return;
    const bool in_full = whole < kVerified;
    if (!(in_full ? is_whole(*step) : is_sized(*step))) continue;
    ++usable;
    whole += in_full ? 1 : 0;
  }
  for (auto step = old.rbegin(); step != old.rend(); ++step) {
    remove_checkpoint(ckpt, *step);
    for (auto* known : {&whole_steps, &sized_steps, &keep_steps}) known->erase(*step);
  }
}

bool Checkpointer::Impl::is_whole(int64_t step) {
  const auto known = whole_steps.find(step);
  if (known != whole_steps.end()) return known->second;
  return whole_steps[step] = can_continue(step, verify_checkpoint);
}

bool Checkpointer::Impl::is_sized(int64_t step) {
  if (const auto whole = whole_steps.find(step); whole != whole_steps.end()) return whole->second;
  const auto known = sized_steps.find(step);
  if (known != sized_steps.end()) return known->second;
  return sized_steps[step] = can_continue(step, sized_manifest);
}

// Returns whether a run can continue from the checkpoint of this step. `read` checks its files.
bool Checkpointer::Impl::can_continue(int64_t step, const ReadManifest& read) const {
  try {
    const Manifest manifest = read(ckpt.step(step));
    check_resumable(manifest.meta);
    return manifest.step == step;  // a copy under another name names another step
  } catch (const Error&) {
    return false;
  }
}

bool Checkpointer::Impl::is_kept(int64_t step) {
  const auto known = keep_steps.find(step);
  if (known != keep_steps.end()) return known->second;
  bool keep = true;  // unknown without a readable manifest, so it is not deleted
  try {
    keep = read_manifest(ckpt.step(step)).keep;
  } catch (const Error&) {
    // Keep it.
  }
  return keep_steps[step] = keep;
}

// Returns whether the checkpoint of this step is still needed for a best one.
bool Checkpointer::Impl::is_needed_for_best(int64_t step) const {
  return std::any_of(best_to_retry.begin(), best_to_retry.end(),
                     [&](const auto& entry) { return entry.second.step == step; });
}

Checkpointer::Checkpointer(const Workdir& workdir, Writers writers, int newest_kept)
    : impl_(new Impl{workdir.dir(), workdir.run_json(), workdir.folder(), workdir.ckpt(),
                     std::move(writers), newest_kept}) {
  impl_->writers.before_try = [folder = workdir.folder()] { folder->require_there(); };
  check(newest_kept > 0, "{} checkpoints to keep", newest_kept);
  check(impl_->writers.ranks == 1 || !impl_->writers.id.empty(), "writers without an id");
}

Checkpointer::~Checkpointer() {
  impl_->retries.cancel();
  try {
    wait();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

void Checkpointer::start() { impl_->start(); }

bool Checkpointer::leave_out(int64_t step) {
  impl_->throw_failure(&Impl::fatal);
  return impl_->writers.ranks == 1 && impl_->queue.leave_out(step);
}

int64_t Checkpointer::left_out_saves() const { return impl_->queue.left_out(); }

int Checkpointer::free_buffer() {
  impl_->throw_failure(&Impl::fatal);
  impl_->buffer = impl_->queue.free_buffer();
  impl_->throw_failure(&Impl::fatal);
  return impl_->buffer;
}

void Checkpointer::save(Snapshot snapshot, bool keep) {
  check(snapshot.step >= 0, "a checkpoint of step {}", snapshot.step);
  for (const auto& [name, tensor] : snapshot.tensors) {
    check(tensor.defined() && tensor.is_cpu(), "tensor '{}' of a checkpoint is not on the CPU",
          name);
  }
  check(impl_->writers.ranks > 1 || snapshot.pieced.empty(), "pieces, but only one writer");
  if (impl_->buffer < 0) free_buffer();
  if (!impl_->started && impl_->writers.rank == 0) start();
  SaveQueue::Job job;
  job.buffer = std::exchange(impl_->buffer, -1);
  job.step = snapshot.step;
  // All ranks of a sharded state must save the same steps.
  job.may_be_left_out = !keep && impl_->writers.ranks == 1;
  const std::string temporary = impl_->unfinished(snapshot.step);
  job.work = [impl = impl_.get(), snapshot = std::move(snapshot), keep, temporary] {
    const trace::Span span("checkpoint write");
    impl->save(snapshot, keep, temporary);
  };
  impl_->queue.add(std::move(job));
}

void Checkpointer::mark_best(const std::string& name, const BestPoint& point) {
  impl_->queue.require(point.step);
  SaveQueue::Job job;
  job.work = [impl = impl_.get(), name, point] {
    const std::string best = impl->ckpt.best(name);
    if (const auto failed = impl->best_to_retry.find(best); failed != impl->best_to_retry.end())
      failed->second = point;  // retried with the next save
    else
      impl->mark_best(best, point);
  };
  impl_->queue.add(std::move(job));
}

void Checkpointer::drain() {
  impl_->queue.await_all();
  impl_->throw_failure(&Impl::fatal);
}

void Checkpointer::wait() {
  impl_->queue.await_all();
  {
    const std::lock_guard lock(impl_->mutex);
    // Throw only the failure that ends the run: the others are copies of it, or came later.
    if (impl_->fatal) impl_->last_failure = impl_->failed_best = nullptr;
  }
  impl_->throw_failure(&Impl::fatal);
  impl_->throw_failure(&Impl::last_failure);
  impl_->throw_failure(&Impl::failed_best);
}

int64_t Checkpointer::failed_saves() const { return impl_->failed_saves; }

}  // namespace bv

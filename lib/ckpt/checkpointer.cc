#include "lib/ckpt/checkpointer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpoint_meta.h"
#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/manifest.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {

namespace {

namespace fs = std::filesystem;

// Writes the tensors and pieces of this rank.
Manifest::File write_shard(const std::string& folder, const Snapshot& snapshot,
                           const Writers& writers) {
  NamedTensors all = snapshot.tensors;
  for (const auto& [name, tensor] : snapshot.pieced) {
    for (const Piece& piece : tensor.pieces) all[piece_name(name, piece.first)] = piece.values;
  }
  const std::string name = shard_name(writers.rank, writers.ranks);
  FileWriter shard(folder + "/" + name);
  write_safetensors(shard, all);
  shard.finish();
  crash_point("ckpt.shard_written");
  if (writers.rank > 0) crash_point("ckpt.part_written");
  return {name, shard.bytes(), shard.checksums()};
}

// Waits for the part file of another rank, deletes it and returns what it says. Throws
// Error(Exit::storage).
Manifest::File await_part(const std::string& folder, int rank, double patience) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  const std::string name = part_name(rank);
  while (!file_exists(folder + "/" + name)) {
    if (std::chrono::steady_clock::now() > end) {
      throw Error(
          Exit::storage, folder,
          fmt::format("rank {} has not written its part of the checkpoint within {:g} s (do "
                      "all ranks see the same workdir?)",
                      rank, patience));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  try {
    const Manifest part = read_manifest(folder, name);
    if (part.files.size() != 1)
      throw Error::bare(Exit::storage, name + ": does not describe one file");
    std::error_code error;
    fs::remove(folder + "/" + name, error);
    if (error) {
      throw Error::bare(Exit::storage, fmt::format("{}: cannot delete: {}", name, error.message()));
    }
    return part.files[0];
  } catch (const Error& fault) {
    throw Error(Exit::storage, folder, fault.what());
  }
}

void write_folder(const std::string& folder, const Snapshot& snapshot, bool keep,
                  const Writers& writers) {
  make_folders(folder);
  Manifest manifest{snapshot.step, keep, {write_shard(folder, snapshot, writers)}, snapshot.meta};
  if (writers.rank > 0) {
    manifest.meta = nlohmann::json::object();
    // This must be the last write: rank 0 may rename the folder from now on. It is not synced,
    // because a part need not survive a crash.
    write_file_atomically(folder + "/" + part_name(writers.rank), manifest.text(), /*sync=*/false);
    return;
  }
  for (int r = 1; r < writers.ranks; ++r)
    manifest.files.push_back(await_part(folder, r, writers.patience));
  manifest.ranks = writers.ranks;
  for (const auto& [name, tensor] : snapshot.pieced)
    manifest.pieced[name] = {tensor.shape, tensor.strides};
  FileWriter text(folder + "/" + kManifestName);
  text.write(manifest.text());
  text.finish();
  fsync_path(folder);
  crash_point("ckpt.manifest_written");
}

std::optional<Restored> latest_in(const CkptFolder& ckpt, const ReadOptions& options) {
  const std::vector<int64_t> steps = ckpt.steps();
  std::string newest_fault;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Restored restored = read_checkpoint(ckpt.step(*step), options);
      if (restored.step == *step) return restored;
      throw Error::bare(Exit::usage, fmt::format("{} is of step {}", kManifestName, restored.step));
    } catch (const Error& error) {
      if (newest_fault.empty()) newest_fault = error.what();
      if (*step != steps.front()) {
        log::warn("[ckpt] {}: {}; falling back", CkptFolder::step_name(*step), error.what());
      }
    }
  }
  if (steps.empty()) return std::nullopt;
  throw Error(Exit::usage, ckpt.path(),
              fmt::format("none of the {} checkpoints here is whole; the newest, {}: {}",
                          steps.size(), CkptFolder::step_name(steps.back()), newest_fault));
}

}  // namespace

struct Checkpointer::Impl {
  std::string dir;
  CkptFolder ckpt;
  Writers writers;
  int newest_kept;
  std::atomic<int64_t> committed = -1;
  std::future<void> saving = {};
  // Only the thread that saves uses the rest.
  bool started = false;
  std::map<int64_t, bool> whole_steps = {};  // committed step -> whether it verifies
  std::map<int64_t, bool> keep_steps = {};   // committed step -> `keep` of its manifest

  void save(const Snapshot& snapshot, bool keep);
  void start();
  void prune();
  bool is_whole(int64_t step);
  bool is_kept(int64_t step);
  std::string shared_id() const { return writers.ranks > 1 ? writers.id : ""; }
};

void Checkpointer::Impl::save(const Snapshot& snapshot, bool keep) {
  if (!started && writers.rank == 0) start();
  const std::string folder = ckpt.step(snapshot.step);
  const std::string temporary = ckpt.unfinished(snapshot.step, shared_id());
  if (writers.rank > 0) return write_folder(temporary, snapshot, keep, writers);
  try {
    write_folder(temporary, snapshot, keep, writers);
    if (snapshot.before_commit) snapshot.before_commit();
    move_folder(temporary, folder, ckpt.trash(snapshot.step));
  } catch (...) {
    delete_folder(temporary);  // a full disk needs the room
    throw;
  }
  committed = snapshot.step;
  whole_steps[snapshot.step] = true;
  keep_steps[snapshot.step] = keep;
  crash_point("ckpt.renamed");
  write_file_atomically(ckpt.last(), CkptFolder::step_name(snapshot.step) + "\n");
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

void Checkpointer::Impl::start() {
  make_folders(ckpt.path());
  fsync_path(dir);
  for (const std::string& leftover : ckpt.leftovers(shared_id())) delete_folder(leftover);
  if (const std::vector<int64_t> steps = ckpt.steps(); !steps.empty()) {
    const std::string name = CkptFolder::step_name(steps.back()) + "\n";
    if (read_file_if_any(ckpt.last()) != name) write_file_atomically(ckpt.last(), name);
  }
  started = true;
}

// Deletes the checkpoints that are neither marked to be kept nor among the newest that verify.
// A broken checkpoint must not push out a whole one, so checkpoints that this object has not
// written are verified once.
void Checkpointer::Impl::prune() {
  const std::vector<int64_t> steps = ckpt.steps();
  int newest = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (newest < newest_kept) {
      newest += is_whole(*step) ? 1 : 0;
      continue;
    }
    if (is_kept(*step)) continue;
    remove_checkpoint(ckpt, *step);
    whole_steps.erase(*step);
    keep_steps.erase(*step);
  }
}

bool Checkpointer::Impl::is_whole(int64_t step) {
  const auto known = whole_steps.find(step);
  if (known != whole_steps.end()) return known->second;
  bool whole = true;
  try {
    verify_checkpoint(ckpt.step(step));
  } catch (const Error&) {
    whole = false;
  }
  return whole_steps[step] = whole;
}

bool Checkpointer::Impl::is_kept(int64_t step) {
  const auto known = keep_steps.find(step);
  if (known != keep_steps.end()) return known->second;
  bool keep = true;  // without a readable manifest nobody knows, so it is not deleted
  try {
    keep = read_manifest(ckpt.step(step)).keep;
  } catch (const Error&) {
  }
  return keep_steps[step] = keep;
}

Checkpointer::Checkpointer(const Workdir& workdir, Writers writers, int newest_kept)
    : impl_(new Impl{workdir.dir(), workdir.ckpt(), std::move(writers), newest_kept}) {
  check(newest_kept > 0, "{} checkpoints to keep", newest_kept);
  check(impl_->writers.ranks == 1 || !impl_->writers.id.empty(), "writers without an id");
}

Checkpointer::~Checkpointer() {
  try {
    wait();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

void Checkpointer::start() { impl_->start(); }

void Checkpointer::save(Snapshot snapshot, bool keep) {
  check(snapshot.step >= 0, "a checkpoint of step {}", snapshot.step);
  for (const auto& [name, tensor] : snapshot.tensors) {
    check(tensor.defined() && tensor.is_cpu(), "tensor '{}' of a checkpoint is not on the CPU",
          name);
  }
  check(impl_->writers.ranks > 1 || snapshot.pieced.empty(), "pieces, but only one writer");
  wait();
  impl_->saving = std::async(std::launch::async,
                             [impl = impl_.get(), snapshot = std::move(snapshot), keep]() mutable {
                               // The future holds this lambda until the next wait(), but the
                               // tensors must be freed as soon as they are written.
                               const Snapshot owned = std::move(snapshot);
                               const trace::Span span("checkpoint write");
                               impl->save(owned, keep);
                             });
}

void Checkpointer::mark_best(const std::string& name, const BestPoint& point) {
  impl_->saving = std::async(std::launch::async, [impl = impl_.get(), name, point,
                                                  before = std::move(impl_->saving)]() mutable {
    if (before.valid()) before.get();
    const std::string folder = impl->ckpt.best(name);
    write_best(folder, impl->ckpt.step(point.step), point);
    log::write_detail(fmt::format("[{}] best checkpoint: {}", point.step, folder));
  });
}

void Checkpointer::wait() {
  if (impl_->saving.valid()) impl_->saving.get();
}

int64_t Checkpointer::committed_step() const { return impl_->committed; }

std::optional<Restored> Checkpointer::latest(const Workdir& workdir, const ReadOptions& options) {
  return latest_in(workdir.ckpt(), options);
}

std::optional<Restored> Checkpointer::peek(const std::string& given, bool resumes) {
  const std::string path = checkpoint_path(given);
  std::vector<std::string> folders = {path};
  if (!file_exists(path + "/" + kManifestName)) {
    const CkptFolder ckpt = CkptFolder::at(path);
    folders.clear();
    for (const int64_t step : ckpt.steps()) folders.insert(folders.begin(), ckpt.step(step));
  }
  for (const std::string& folder : folders) {
    try {
      Manifest manifest = read_manifest(folder);
      if (resumes) check_resumable(manifest.meta);
      return Restored{manifest.step, folder, {}, std::move(manifest.meta)};
    } catch (const Error&) {
      // latest() and load() report what is wrong with it.
    }
  }
  return std::nullopt;
}

Restored Checkpointer::reopen(const std::string& folder, const ReadOptions& options) {
  try {
    return read_wanted(folder, options);
  } catch (const Error& fault) {
    throw Error(Exit::usage, folder, fault.what());
  }
}

Restored Checkpointer::load(const std::string& given, const ReadOptions& options) {
  refuse_remote_path(given);
  const std::string path = checkpoint_path(given);
  std::error_code error;
  if (!file_exists(path)) throw Error(Exit::usage, path, "no such checkpoint");
  if (!fs::is_directory(path, error)) {
    throw Error(Exit::usage, path,
                "not a folder; expected a checkpoint folder, a ckpt/ folder or a workdir");
  }
  if (file_exists(path + "/" + kManifestName)) {
    try {
      return read_checkpoint(path, options);
    } catch (const Error& fault) {
      throw Error(Exit::usage, path, fault.what());
    }
  }
  if (auto restored = latest_in(CkptFolder::at(path), options)) return std::move(*restored);
  throw Error(Exit::usage, path,
              "holds no checkpoint (neither manifest.json nor step-<n>/ nor ckpt/step-<n>/)");
}

}  // namespace bv

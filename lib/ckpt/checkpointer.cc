// A save runs on a thread of its own (std::async): write step-N.tmp/, rename, LAST, prune. Each
// step of it is synced before the next; the order is the contract in the header.
#include "lib/ckpt/checkpointer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/manifest.h"
#include "lib/ckpt/safetensors.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTmp = ".tmp";
constexpr const char* kTrash = ".trash-";
constexpr const char* kLast = "LAST";
constexpr int kAlwaysKept = 2;

std::string step_name(int64_t step) { return fmt::format("step-{}", step); }
std::string shard_name(const Writers& writers) {
  return fmt::format("state-{:05}-of-{:05}.safetensors", writers.rank, writers.ranks);
}
std::string part_name(int rank) { return fmt::format("part-{}.json", rank); }

// .trash-step-5 beside step-5.
std::string trash_of(const std::string& folder) {
  const fs::path path = folder;
  return (path.parent_path() / (kTrash + path.filename().string())).string();
}

void delete_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log::warn("[ckpt] {}: cannot delete: {}", path, error.message());
}

// What this rank has of the state.
Manifest::File write_shard(const std::string& folder, const Snapshot& snapshot,
                           const Writers& writers) {
  NamedTensors all = snapshot.tensors;
  for (const auto& [name, tensor] : snapshot.pieced) {
    for (const Piece& piece : tensor.pieces) all[piece_name(name, piece.first)] = piece.values;
  }
  const std::string name = shard_name(writers);
  FileWriter shard(folder + "/" + name);
  write_safetensors(shard, all);
  shard.finish();
  crash_point("ckpt.shard_written");
  if (writers.rank > 0) crash_point("ckpt.part_written");
  return {name, shard.bytes(), shard.checksums()};
}

// Waits for what another rank says of its shard.
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
  const Manifest part = read_manifest(folder, name);
  if (part.files.size() != 1) throw Error::bare(Exit::storage, name + ": is not of one file");
  fs::remove(folder + "/" + name);
  return part.files[0];
}

void write_folder(const std::string& folder, const Snapshot& snapshot, bool keep,
                  const Writers& writers) {
  make_folders(folder);
  Manifest manifest{snapshot.step, keep, {write_shard(folder, snapshot, writers)}, snapshot.meta};
  if (writers.rank > 0) {
    manifest.meta = nlohmann::json::object();
    // The last touch: rank 0 may rename the folder from now on. A part need not outlive a crash.
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

// Throws Error(Exit::usage) whose text is only what is wrong.
Manifest verify(const std::string& folder) {
  Manifest manifest = read_manifest(folder);
  for (const Manifest::File& file : manifest.files) verify_file(folder, file);
  return manifest;
}

// Brings a tensor's pieces into order. They must cover it, once, and be of one type.
void check_pieces(const std::string& name, PiecedTensor& tensor) {
  auto& pieces = tensor.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.first < b.first; });
  int64_t end = 0;
  bool good = !pieces.empty();
  for (const Piece& piece : pieces) {
    good = good && piece.values.dim() == 1 && piece.first == end &&
           piece.values.scalar_type() == pieces[0].values.scalar_type();
    end = piece.first + piece.values.numel();
  }
  if (!good || end != tensor.numel()) {
    throw Error::bare(Exit::usage, fmt::format("the pieces of '{}' do not make a whole", name));
  }
  tensor.type = pieces[0].values.scalar_type();
}

Restored read_files(const std::string& folder, Manifest manifest) {
  Restored restored{manifest.step, folder, {}, std::move(manifest.meta)};
  for (auto& [name, layout] : manifest.pieced)
    restored.pieced[name] = {std::move(layout.shape), std::move(layout.strides)};
  for (const Manifest::File& file : manifest.files) {
    for (auto& [name, tensor] : read_safetensors(folder + "/" + file.name)) {
      const auto [whole, first] = parse_piece_name(name);
      const auto pieced = restored.pieced.find(whole);
      if (pieced == restored.pieced.end())
        restored.tensors.emplace(name, std::move(tensor));
      else
        pieced->second.pieces.push_back({first, std::move(tensor)});
    }
  }
  for (auto& [name, tensor] : restored.pieced) check_pieces(name, tensor);
  return restored;
}

Restored read_checkpoint(const std::string& folder, Pieces pieces) {
  Restored restored = read_files(folder, verify(folder));
  if (pieces == Pieces::apart) return restored;
  for (const auto& [name, tensor] : restored.pieced) restored.tensors[name] = assemble(tensor);
  restored.pieced.clear();
  return restored;
}

std::optional<Restored> latest_in(const std::string& root, Pieces pieces) {
  const std::vector<int64_t> steps = Workdir::steps_in(root);
  std::string newest_fault;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Restored restored = read_checkpoint(root + "/" + step_name(*step), pieces);
      if (restored.step == *step) return restored;
      throw Error::bare(Exit::usage, fmt::format("manifest.json is of step {}", restored.step));
    } catch (const Error& error) {
      if (newest_fault.empty()) newest_fault = error.what();
      if (*step != steps.front()) {
        log::warn("[ckpt] {}: {}; falling back", step_name(*step), error.what());
      }
    }
  }
  if (steps.empty()) return std::nullopt;
  throw Error(Exit::usage, root,
              fmt::format("none of the {} checkpoints here is whole; the newest, {}: {}",
                          steps.size(), step_name(steps.back()), newest_fault));
}

// Puts the folder `from` at `to`. If there is one already (a broken one that was passed over, or
// the same step saved again) the two change places, so that at no time there is none.
void move_folder(const std::string& from, const std::string& to) {
  if (file_exists(to)) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      fsync_path(fs::path(to).parent_path().string());
      delete_folder(from);
      return;
    }
    // A file system without that exchange.
    rename_durably(to, trash_of(to));
    try {
      rename_durably(from, to);
    } catch (...) {
      ::rename(trash_of(to).c_str(), to.c_str());
      throw;
    }
    delete_folder(trash_of(to));
    return;
  }
  rename_durably(from, to);
}

}  // namespace

struct Checkpointer::Impl {
  std::string dir, root;
  Writers writers;
  std::atomic<int64_t> committed = -1;
  std::future<void> saving;
  // The rest belongs to the thread that saves.
  bool started = false;
  std::map<int64_t, bool> whole_steps;  // committed step -> whether it verifies
  std::map<int64_t, bool> keep_steps;   // committed step -> its manifest's keep

  void save(const Snapshot& snapshot, bool keep);
  void start();
  void prune();
  bool is_whole(int64_t step);
  bool is_kept(int64_t step);
};

void Checkpointer::Impl::save(const Snapshot& snapshot, bool keep) {
  if (!started && writers.rank == 0) start();
  const std::string folder = root + "/" + step_name(snapshot.step);
  const std::string temporary = folder + (writers.ranks > 1 ? "." + writers.id : "") + kTmp;
  if (writers.rank > 0) return write_folder(temporary, snapshot, keep, writers);
  try {
    write_folder(temporary, snapshot, keep, writers);
    move_folder(temporary, folder);
  } catch (...) {
    delete_folder(temporary);  // a full disk needs the room
    throw;
  }
  committed = snapshot.step;
  whole_steps[snapshot.step] = true;
  keep_steps[snapshot.step] = keep;
  crash_point("ckpt.renamed");
  write_file_atomically(root + "/" + kLast, step_name(snapshot.step) + "\n");
  crash_point("ckpt.last_replaced");
  try {
    prune();
  } catch (const Error& error) {
    log::warn("[ckpt] {}", error.what());  // what was to be saved is saved
  }
}

// Makes ckpt/ and removes what a killed save left there.
void Checkpointer::Impl::start() {
  make_folders(root);
  fsync_path(dir);
  std::vector<std::string> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    // Other ranks may have begun to write already.
    if (writers.ranks > 1 && name.ends_with("." + writers.id + kTmp)) continue;
    if ((name.starts_with("step-") && name.ends_with(kTmp)) || name.starts_with(kTrash) ||
        name.starts_with(std::string(kLast) + kTmp)) {
      leftovers.push_back(it->path().string());
    }
  }
  for (const std::string& leftover : leftovers) delete_folder(leftover);
  started = true;
}

// Deletes the checkpoints that are neither to keep nor among the two newest that verify. One that
// is broken must not push a whole one out, so those not written by this object are read once.
void Checkpointer::Impl::prune() {
  const std::vector<int64_t> steps = Workdir::steps_in(root);
  int newest = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (newest < kAlwaysKept) {
      newest += is_whole(*step) ? 1 : 0;
      continue;
    }
    if (is_kept(*step)) continue;
    const std::string folder = root + "/" + step_name(*step);
    rename_durably(folder, trash_of(folder));
    crash_point("ckpt.pruned");
    delete_folder(trash_of(folder));
    whole_steps.erase(*step);
    keep_steps.erase(*step);
  }
}

bool Checkpointer::Impl::is_whole(int64_t step) {
  const auto known = whole_steps.find(step);
  if (known != whole_steps.end()) return known->second;
  bool whole = true;
  try {
    verify(root + "/" + step_name(step));
  } catch (const Error&) {
    whole = false;
  }
  return whole_steps[step] = whole;
}

bool Checkpointer::Impl::is_kept(int64_t step) {
  const auto known = keep_steps.find(step);
  if (known != keep_steps.end()) return known->second;
  bool keep = true;  // without a readable manifest nobody knows, and it is not ours to delete
  try {
    keep = read_manifest(root + "/" + step_name(step)).keep;
  } catch (const Error&) {
  }
  return keep_steps[step] = keep;
}

Checkpointer::Checkpointer(const Workdir& workdir, Writers writers)
    : impl_(std::make_unique<Impl>()) {
  check(writers.ranks == 1 || !writers.id.empty(), "writers without an id");
  impl_->writers = std::move(writers);
  impl_->dir = workdir.dir();
  impl_->root = workdir.ckpt_root();
}

Checkpointer::~Checkpointer() {
  try {
    wait();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

void Checkpointer::save(Snapshot snapshot, bool keep) {
  check(snapshot.step >= 0, "a checkpoint of step {}", snapshot.step);
  for (const auto& [name, tensor] : snapshot.tensors) {
    check(tensor.defined() && tensor.is_cpu(), "tensor '{}' of a checkpoint is not on the CPU",
          name);
  }
  check(impl_->writers.ranks > 1 || snapshot.pieced.empty(), "pieces of one writer");
  wait();
  impl_->saving = std::async(std::launch::async,
                             [impl = impl_.get(), snapshot = std::move(snapshot), keep]() mutable {
                               // The future holds this lambda until the next wait(); the tensors
                               // must not live that long.
                               const Snapshot owned = std::move(snapshot);
                               const trace::Span span("checkpoint written");
                               impl->save(owned, keep);
                             });
}

void Checkpointer::wait() {
  if (impl_->saving.valid()) impl_->saving.get();
}

int64_t Checkpointer::committed_step() const { return impl_->committed; }

std::optional<Restored> Checkpointer::latest(const Workdir& workdir, Pieces pieces) {
  return latest_in(workdir.ckpt_root(), pieces);
}

Restored Checkpointer::reopen(const std::string& folder) {
  try {
    return read_files(folder, read_manifest(folder));
  } catch (const Error& fault) {
    throw Error(Exit::usage, folder, fault.what());
  }
}

Restored Checkpointer::load(const std::string& path, Pieces pieces) {
  refuse_remote_path(path);
  std::error_code error;
  if (!file_exists(path)) throw Error(Exit::usage, path, "no such checkpoint");
  if (!fs::is_directory(path, error)) {
    throw Error(Exit::usage, path,
                "not a folder; expected a checkpoint folder, a ckpt/ folder or a workdir");
  }
  if (file_exists(path + "/" + kManifestName)) {
    try {
      return read_checkpoint(path, pieces);
    } catch (const Error& fault) {
      throw Error(Exit::usage, path, fault.what());
    }
  }
  const std::string inner = path + "/ckpt";
  if (auto restored = latest_in(fs::is_directory(inner, error) ? inner : path, pieces)) {
    return std::move(*restored);
  }
  throw Error(Exit::usage, path,
              "holds no checkpoint (neither manifest.json nor step-<n>/ nor ckpt/step-<n>/)");
}

}  // namespace bv

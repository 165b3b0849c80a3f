#include "lib/ckpt/checkpoint_writer.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/manifest.h"
#include "lib/util/crash_point.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

NamedTensors tensors_of(const Snapshot& snapshot) {
  NamedTensors all = snapshot.tensors;
  for (const auto& [name, tensor] : snapshot.pieced) {
    for (const Piece& piece : tensor.pieces) all[piece_name(name, piece.first)] = piece.values;
  }
  return all;
}

// Writes the tensors and pieces of this rank.
Manifest::File write_shard(const std::string& folder, const NamedTensors& tensors,
                           const Writers& writers) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  if (writers.before_try) writers.before_try();
  make_folders(folder);
  require_room(folder, bytes);
  const std::string name = shard_name(writers.rank, writers.ranks);
  const std::string file = folder + "/" + name;
  try {
    FileWriter shard(file, PageCache::bypass);
    write_safetensors(shard, tensors);
    shard.finish();
    crash_point("ckpt.shard_written");
    if (writers.rank > 0) crash_point("ckpt.part_written");
    return {name, shard.bytes(), shard.checksums()};
  } catch (...) {
    ::unlink(file.c_str());  // frees space if the disk is full
    throw;
  }
}

using Clock = std::chrono::steady_clock;

// Waits for another rank's part file until `end`, and returns its content. `patience`: the seconds
// from the start of the wait to `end`. Throws Error(Exit::storage).
Manifest::File await_part(const std::string& folder, int rank, Clock::time_point end,
                          double patience) {
  const std::string name = part_name(rank);
  while (!file_exists(folder + "/" + name)) {
    if (const auto reason = read_file_if_any(folder + "/" + failed_part_name(rank)))
      throw Error(Exit::storage, folder, fmt::format("rank {}: {}", rank, *reason));
    if (Clock::now() > end) {
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
    return part.files[0];
  } catch (const Error& fault) {
    throw Error(Exit::storage, folder, fault.what());
  }
}

void write_manifest(const std::string& folder, const Manifest& manifest) {
  for (int r = 1; r < manifest.ranks; ++r) {
    const std::string part = folder + "/" + part_name(r);
    std::error_code error;
    fs::remove(part, error);
    if (error) throw_file_error(Exit::storage, part, "cannot delete: ", error.value());
  }
  FileWriter file(folder + "/" + kManifestName);
  try {
    file.write(manifest.text());
  } catch (const Error& fault) {
    if (!fault.needs_place()) throw;
    throw Error(fault.code(), folder, fault.message());
  }
  file.finish();
  fsync_path(folder);
}

// Runs on rank 0: writes its file, waits for the part files of the other ranks, and returns all
// parts in rank order. If a rank fails, it waits for the others before it throws, because the
// caller then deletes the folder. A rank that was still writing would lose the folder, and with it
// the place for its own error report.
std::vector<Manifest::File> write_shards(const std::string& folder, const Snapshot& snapshot,
                                         const Writers& writers, StorageRetries& retries) {
  std::vector<Manifest::File> files;
  std::exception_ptr failure;  // the first one
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error&) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&] { retries([&] { files = {write_shard(folder, tensors_of(snapshot), writers)}; }); });
  const auto patience = std::chrono::duration<double>(writers.patience);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (int r = 1; r < writers.ranks; ++r)
    attempt([&] { files.push_back(await_part(folder, r, end, writers.patience)); });
  if (failure) std::rethrow_exception(failure);
  return files;
}

// Runs on the other ranks.
void write_part(const std::string& folder, const Snapshot& snapshot, bool keep,
                const Writers& writers, StorageRetries& retries) {
  Manifest part{snapshot.step, keep, {}, nlohmann::json::object()};
  try {
    retries([&] { part.files = {write_shard(folder, tensors_of(snapshot), writers)}; });
    // This must be the last write: after it, rank 0 may rename the folder. It is not synced,
    // because a part need not survive a crash.
    retries([&] {
      write_file_atomically(folder + "/" + part_name(writers.rank), part.text(), /*sync=*/false);
    });
  } catch (const Error& error) {
    try {
      retries([&] {
        write_file_atomically(folder + "/" + failed_part_name(writers.rank), error.what(),
                              /*sync=*/false);
      });
    } catch (const Error&) {
      throw UntoldFailure(error);
    }
    throw;
  }
}

}  // namespace

void require_room(const std::string& folder, int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  // If the file system does not report its free space, the write reports a full disk.
  const bool unknown = error || space.capacity == 0;
  if (unknown || space.available >= static_cast<uintmax_t>(bytes)) return;
  throw Error(Exit::storage, folder,
              fmt::format("needs {} for the next checkpoint, but only {} are free",
                          human_bytes(static_cast<double>(bytes)),
                          human_bytes(static_cast<double>(space.available))));
}

void write_checkpoint(const std::string& folder, const Snapshot& snapshot, bool keep,
                      const Writers& writers, StorageRetries& retries) {
  if (writers.rank > 0) return write_part(folder, snapshot, keep, writers, retries);
  Manifest manifest{snapshot.step, keep, {}, snapshot.meta};
  manifest.ranks = writers.ranks;
  for (const auto& [name, tensor] : snapshot.pieced)
    manifest.pieced[name] = {tensor.shape, tensor.strides};
  manifest.files = write_shards(folder, snapshot, writers, retries);
  retries([&] { write_manifest(folder, manifest); });
  crash_point("ckpt.manifest_written");
}

}  // namespace bv

// Checkpoints: safetensors files and a manifest in ckpt/step-<n>/, committed by a rename.
//
// A save does, in this order:
//   1. create ckpt/step-<n>.tmp/
//   2. write the tensors, and fsync the file
//   3. write manifest.json (size and checksums of each file, step, number of ranks, metadata),
//      and fsync it and the folder
//   4. wait for Snapshot::before_commit: the rows of metrics up to this step are on disk
//   5. rename the folder to step-<n>, and fsync ckpt/: the checkpoint is committed
//   6. replace LAST
//   7. delete old checkpoints
// So killing the process at any point loses no committed checkpoint. Readers do not need LAST:
// latest() takes the newest folder that verifies.
//
// If the state is sharded over ranks, each rank writes its own file. Every rank except rank 0 then
// writes part-<rank>.json, with the size and checksums of its file, by an atomic rename. Rank 0
// waits for these part files, copies their content into the manifest and deletes them. The ranks
// communicate only through the folder, because saves run concurrently with training and must not
// use its process group. So all ranks must see the same file system. The folder's name contains the
// id of this launch of the job and the number of the save, which every rank counts. So files of
// another save are never taken for files of this one, whether a killed launch has left them or
// this launch saves the step twice.
//
// One thread performs the saves in order (save_queue.h). If saves are due so often that they would
// slow training, some are skipped: leave_out() decides which, and the next save may replace one
// that is still queued. These are never skipped: a save to be kept, the best one so far, one of
// sharded state, and the last one.
//
// A failed write is retried after 0.2, 1 and 5 s. If it still fails, the save has failed, but the
// run continues, because the next save may succeed. It ends if two saves in a row fail, or if the
// last one does. ckpt/best follows the same rule; it is retried with the next save.
//
// Names of files and folders: lib/ckpt/workdir/workdir.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/restored.h"
#include "lib/ckpt/snapshot.h"
#include "lib/ckpt/workdir/workdir.h"

namespace bv {

// Writes the checkpoints of a run in the background. One object per rank that saves; its members
// are called from one thread.
class Checkpointer {
 public:
  // `newest_kept`: how many of the newest checkpoints are never deleted.
  explicit Checkpointer(const Workdir& workdir, Writers writers = {}, int newest_kept = 2);
  ~Checkpointer();  // waits for the last save, without retries; logs its failure

  // Creates ckpt/, deletes what killed saves have left there, and writes LAST if it names a
  // checkpoint other than the newest. Only rank 0 may call it, before its first save. Without this
  // call, the first save does the same. Throws Error(Exit::storage).
  void start();

  // Returns whether the save of this step is left out because saves are due too often, and counts
  // it. False if the state is sharded: all ranks must save the same steps. Throws like save().
  bool leave_out(int64_t step);
  int64_t left_out_saves() const;  // how many saves were left out
  // A snapshot is copied to one of two buffers: one save can wait while another is in progress.
  // Returns the buffer that the next snapshot may overwrite, 0 or 1. Waits until one is free.
  // Throws like save().
  int free_buffer();
  // Saves the snapshot, which is in free_buffer(), in the background. Saves are committed in the
  // order of these calls; without `keep`, the next call may replace this one. Before rank 0 commits
  // the checkpoint, the saving thread calls snapshot.before_commit; if this throws, the save has
  // failed. With several ranks, every rank calls save(): rank 0 passes the replicated tensors and
  // the metadata, the other ranks pass only their shards. The newest checkpoints are kept, and all
  // that were saved with `keep`. Throws Error(Exit::storage) if the last two saves have failed.
  void save(Snapshot snapshot, bool keep);
  // Makes the checkpoint of point.step the best one of the series `name`, in the background. It
  // must be the last one that was saved, or one that is committed. For rank 0. wait() throws a
  // failure as an Error(Exit::storage); save() throws it too if it is the second in a row.
  void mark_best(const std::string& name, const BestPoint& point);
  // Waits until the last save is committed (on ranks other than 0: written) and the best
  // checkpoints are written. Throws if one of these has failed.
  void wait();
  // Like wait(), but throws only what ends the run: the last save may have failed.
  void drain();
  int64_t failed_saves() const;  // how many saves have failed after all retries

  // Returns the newest checkpoint of the workdir whose checksums all verify, and logs a warning for
  // each newer one that cannot be used. nullopt if there is none. Throws Error(Exit::usage) if
  // there are checkpoints but none can be used, and Error(Exit::storage) if the disk cannot be
  // read.
  static std::optional<Restored> latest(const Workdir& workdir, const ReadOptions& options = {});
  // Returns the step of the newest checkpoint whose checksums all verify and whose manifest names
  // the same step as its folder; with `resumes` also one from which a run can continue. nullopt if
  // there is none. Throws Error(Exit::usage) if the folder cannot be listed.
  static std::optional<int64_t> latest_step(const CkptFolder& ckpt, bool resumes = false);
  // Reads the checkpoint at `path`: a checkpoint folder, the newest of a ckpt/ folder or workdir,
  // or its best one (see checkpoint_path()). Verifies all checksums. Throws Error(Exit::usage), or
  // Error(Exit::storage) if the disk cannot be read.
  static Restored load(const std::string& path, const ReadOptions& options = {});
  // Returns step, folder and metadata of the checkpoint that latest() or load() would take if all
  // files verify, without its tensors. nullopt if no manifest can be used. `path` is as for load().
  static std::optional<Restored> peek(const std::string& path, bool resumes = false);
  // Reads what options.wanted asks for from the checkpoint in `folder`, which another rank has
  // already verified. Verifies the checksums of what it reads. Throws Error:
  // Exit::storage, or Exit::usage if this rank does not see the folder.
  static Restored reopen(const std::string& folder, const ReadOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

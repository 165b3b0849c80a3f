// Checkpoints: safetensors shards and a manifest in ckpt/step-<n>/, committed by rename.
//
// Order of a save: ckpt/step-N.tmp/ -> shards, fsync each -> manifest.json (sizes, a checksum per
// chunk, config hash, world size, step), fsync -> fsync the folder -> rename to step-N -> fsync the
// parent -> replace LAST (temporary, fsync, rename, fsync) -> only then prune. LAST is a hint:
// latest() takes the newest folder that verifies. A non-finite state must not be handed to save().
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/ckpt/workdir.h"

namespace bv {

// The whole state at the end of a step.
struct Snapshot {
  int64_t step = 0;
  NamedTensors tensors;  // dense, on the CPU; save() keeps them until written, nobody may write
  nlohmann::json meta;   // what is not a tensor: classes, pp, config, metrics of an unfinished row
};

struct Restored {
  int64_t step = 0;
  std::string folder;
  NamedTensors tensors;  // mapped from the files: copy, don't write
  nlohmann::json meta;
};

class Checkpointer {
 public:
  explicit Checkpointer(const Workdir& workdir);
  ~Checkpointer();  // waits; errors are logged

  // Hands the snapshot to the writer thread; waits for the previous save first and rethrows its
  // failure (Error(Exit::storage)). A snapshot with keep=false may be pruned later; the two newest
  // committed checkpoints are always kept, and those whose manifest says keep.
  void save(Snapshot snapshot, bool keep);
  void wait();                     // until the last save is committed; rethrows its failure
  int64_t committed_step() const;  // -1 = none by this object

  // The newest checkpoint of the workdir that verifies (every checksum), with one warning line for
  // each newer one that does not (and leftovers *.tmp of a killed save are removed by the first
  // save). nullopt where there is none; Error(Exit::usage) if there are some but none verifies.
  static std::optional<Restored> latest(const Workdir& workdir);
  // `path`: a checkpoint folder, a ckpt/ folder or a workdir. Throws Error(Exit::usage).
  static Restored load(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

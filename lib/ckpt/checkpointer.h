// Checkpoints: safetensors shards and a manifest in ckpt/step-<n>/, committed by rename.
//
// Order of a save: ckpt/step-N.tmp/ -> shards, fsync each -> manifest.json (sizes, a checksum per
// chunk, config hash, world size, step), fsync -> fsync the folder -> rename to step-N -> fsync the
// parent -> replace LAST (temporary, fsync, rename, fsync) -> only then prune. LAST is a hint:
// latest() takes the newest folder that verifies. A non-finite state must not be handed to save().
//
// Where ranks have shared the state out, each writes its own shard, and beside it part-<rank>.json
// (its size and checksums) by an atomic rename; rank 0 waits for all parts before the manifest.
// They meet in the folder alone, which must be on a file system that all see: writers run beside
// training and may not use its group. The folder's name bears an id of this start of the group, so
// that what a killed save has left behind is never taken for a part of this one.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/pieces.h"
#include "lib/ckpt/tensors.h"
#include "lib/ckpt/workdir.h"

namespace bv {

// The whole state at the end of a step.
struct Snapshot {
  int64_t step = 0;
  NamedTensors tensors;  // dense, on the CPU; save() keeps them until written, nobody may write
  nlohmann::json meta;   // what is not a tensor: classes, pp, config, metrics of an unfinished row
  PiecedTensors pieced = {};  // this rank's pieces of all tensors that ranks have pieces of
};

struct Restored {
  int64_t step = 0;
  std::string folder;
  NamedTensors tensors;  // mapped from the files: copy, don't write
  nlohmann::json meta;
  PiecedTensors pieced = {};  // with Pieces::apart; each tensor's pieces cover it
};

// Tensors that lie in pieces: put together in memory among the others, or left as they are.
enum class Pieces { together, apart };

// The writers of one checkpoint.
struct Writers {
  int rank = 0, ranks = 1;
  std::string id = {};     // of this start of the group: letters and digits; all ranks' is the same
  double patience = 1800;  // seconds that rank 0 waits for the others' parts
};

class Checkpointer {
 public:
  explicit Checkpointer(const Workdir& workdir, Writers writers = {});
  ~Checkpointer();  // waits; errors are logged

  // Hands the snapshot to the writer thread; waits for the previous save first and rethrows its
  // failure (Error(Exit::storage)). A snapshot with keep=false may be pruned later; the two newest
  // committed checkpoints are always kept, and those whose manifest says keep. Of several ranks all
  // save, rank 0 with the whole tensors and meta.
  void save(Snapshot snapshot, bool keep);
  // Until the last save is committed (on other ranks than 0: written); rethrows its failure.
  void wait();
  int64_t committed_step() const;  // -1 = none by this object

  // The newest checkpoint of the workdir that verifies (every checksum), with one warning line for
  // each newer one that does not (and leftovers *.tmp of a killed save are removed by the first
  // save). nullopt where there is none; Error(Exit::usage) if there are some but none verifies.
  static std::optional<Restored> latest(const Workdir& workdir, Pieces pieces = Pieces::together);
  // `path`: a checkpoint folder, a ckpt/ folder or a workdir. Throws Error(Exit::usage).
  static Restored load(const std::string& path, Pieces pieces = Pieces::together);
  // The checkpoint in a folder that another rank has verified, Pieces::apart.
  static Restored reopen(const std::string& folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

// manifest.json of a checkpoint: the files that belong to it, with checksums that prove them
// intact, and all metadata.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"

namespace bv {

class ChunkReader;

struct Manifest {
  struct File {
    std::string name;  // in the folder of the checkpoint
    uint64_t bytes = 0;
    std::vector<uint64_t> checksums;  // XXH3 of each chunk of FileWriter::kChunkBytes
  };

  int64_t step = 0;
  bool keep = false;  // never deleted to free space
  std::vector<File> files;
  nlohmann::json meta;
  int ranks = 1;  // how many ranks wrote the files
  // The shapes and strides of the tensors that the files hold in pieces (lib/ckpt/pieces.h).
  struct Layout {
    std::vector<int64_t> shape, strides;
  };
  std::map<std::string, Layout> pieced = {};

  // Returns the manifest as JSON whose last member is the checksum of all text before it, so that
  // any changed byte is detected. Throws Error::bare(Exit::usage) if it is too long to be read back
  // (limits::kCheckpointManifestBytes).
  std::string text() const;
};

// Reads and checks the manifest `name` in `folder`. Like the functions below, throws
// Error::bare(Exit::usage) without the folder: "manifest.json: its own checksum differs",
// "state-00000-of-00001.safetensors: has 10 bytes, the manifest says 20". If the disk fails, which
// does not mean that the file is damaged, the code is Exit::storage.
Manifest read_manifest(const std::string& folder, const std::string& name = kManifestName);

// Opens a file of the checkpoint, once, checks its size and calls `use` with the open file and its
// path. Errors of `use` at that path name the file without the folder.
using UseFile = std::function<void(const ChunkReader& reader, const std::string& path)>;
void with_file(const std::string& folder, const Manifest::File& file, const UseFile& use);

// Checks the size and the checksums of a file.
void verify_file(const std::string& folder, const Manifest::File& file);

}  // namespace bv

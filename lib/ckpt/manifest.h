// manifest.json of a checkpoint folder: what belongs to it, and the checksums that prove it whole.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bv {

struct Manifest {
  struct File {
    std::string name;  // in the checkpoint's folder
    uint64_t bytes = 0;
    std::vector<uint64_t> checksums;  // XXH3 of each chunk of FileWriter::kChunkBytes
  };

  int64_t step = 0;
  bool keep = false;  // never pruned
  std::vector<File> files;
  nlohmann::json meta;
  int ranks = 1;  // that wrote the files
  // Tensors that lie in the files in pieces (lib/ckpt/pieces.h): their shapes and strides.
  struct Layout {
    std::vector<int64_t> shape, strides;
  };
  std::map<std::string, Layout> pieced = {};

  // The last line of the text is its own checksum, so that any changed byte of it is noticed.
  std::string text() const;
};

inline constexpr const char* kManifestName = "manifest.json";

// Both throw Error(Exit::usage) whose text is only what is wrong: "manifest.json: its checksum
// differs", "state.safetensors: has 10 bytes, the manifest says 20". `name`: of the file.
Manifest read_manifest(const std::string& folder, const std::string& name = kManifestName);
void verify_file(const std::string& folder, const Manifest::File& file);

}  // namespace bv

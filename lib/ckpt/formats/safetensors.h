// safetensors files: 8 bytes of header length (little-endian), a JSON header, the data.
//
// Tensors are written in the order of element size (largest first) and name, so that every tensor
// is aligned to its elements; the data begins at a multiple of 64 bytes. The reader checks every
// length and offset in the header before it reads any data. Tensors must not overlap or leave gaps,
// and the file must be exactly as long as the header says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/chunk_reader.h"
#include "lib/ckpt/formats/safetensors_header.h"
#include "lib/ckpt/tensors.h"

namespace bv {

class FileWriter;

// Writes and syncs `file`. Throws Error(Exit::storage), also if the header would be longer than
// limits::kSafetensorsHeaderBytes.
void write_safetensors(const std::string& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// The same into an open file, which the caller finishes.
void write_safetensors(FileWriter& out, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// Returns how many bytes of metadata, as a JSON object, the header of a file of these tensors can
// certainly hold besides a few short pairs.
uint64_t safetensors_room(const NamedTensors& tensors);
// Returns the tensors of a file. Supports F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL. Throws
// Error(Exit::usage) with file and offset.
NamedTensors read_safetensors(const std::string& file);

// Reads the header alone.
SafetensorsHeader read_safetensors_header(const std::string& file);
SafetensorsHeader read_safetensors_header(const ChunkReader& reader, const std::string& file);

// Where a file holds a tensor.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  uint64_t begin = 0;  // offset of its first byte in the file

  int64_t count() const;  // of elements
  // Returns the range of the file that fills the dense tensor `to` with the elements from `first`
  // on, in the order of the file.
  ChunkReader::Range range(at::Tensor& to, int64_t first) const;
};
// Returns the tensors of the file that `reader` has opened, in the order of their data.
std::vector<StoredTensor> read_safetensors_index(const ChunkReader& reader,
                                                 const std::string& file);

// Throws Error(Exit::usage) if `values` is a bool tensor with a byte other than 0 and 1, whose use
// would be undefined behaviour. `values` was read from offset `begin` of the file.
void check_bools(const at::Tensor& values, const std::string& name, uint64_t begin,
                 const std::string& file);

}  // namespace bv

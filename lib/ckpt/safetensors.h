// safetensors files: 8 bytes of header length (little-endian), a JSON header, the data.
//
// Tensors are written in the order of element size (largest first) and name, so that every tensor
// is aligned to its elements; the data begins at a multiple of 64 bytes. Files are read by mmap
// after every length and offset of the header was checked: no overlaps, no gaps, exact file length.
#pragma once

#include <map>
#include <string>

#include "lib/ckpt/tensors.h"

namespace bv {

class FileWriter;

// Writes and syncs `file`. Throws Error(Exit::storage), also if the header would be longer than
// kMaxSafetensorsHeader.
void write_safetensors(const std::string& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// The same into an open file, which the caller finishes.
void write_safetensors(FileWriter& out, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// Returns the tensors of a file. They share its memory mapping: copy them before writing to them.
// Supports F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL. Throws Error(Exit::usage) with file and offset.
NamedTensors read_safetensors(const std::string& file);

}  // namespace bv

// safetensors files: 8-byte little-endian header length, JSON header, data. Written in order of
// element size (largest first) and name, so that every tensor is aligned to its elements, the data
// beginning at a multiple of 64 bytes; read by mmap, with every length and offset checked (no
// overlaps, no holes, exact file length). Headers above 8 MiB (kMaxSafetensorsHeader) are neither
// written nor read.
#pragma once

#include <map>
#include <string>

#include "lib/ckpt/tensors.h"

namespace bv {

class FileWriter;

// Writes and fsyncs `file`. Throws Error(Exit::storage).
void write_safetensors(const std::string& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// The same into an open file, which the caller finishes.
void write_safetensors(FileWriter& out, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
// Tensors share the mapping (copy before writing). F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
// Throws Error(Exit::usage) with file and offset.
NamedTensors read_safetensors(const std::string& file);

}  // namespace bv

// npz files: zip archives of npy arrays, stored or deflated, zip64 where needed. No pickles: dtype
// object is refused. big-endian, Fortran order and 2-byte void (big_vision's bfloat16, read as
// BFloat16) are handled. Sizes are checked before memory is taken (zip bombs).
#pragma once

#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"

namespace bv {

struct NpzEntry {
  std::string name;  // without ".npy"
  std::vector<int64_t> shape;
  at::ScalarType dtype;
};

// All arrays whose name starts with `prefix`, the prefix removed. Unsigned 16/32/64-bit integers
// become int32/int64/int64; unicode strings are skipped. Throws Error(Exit::usage) with file and
// offset ("f.npz @ offset 312: error: ..."), and for what can only be a zip bomb: more than 256
// MiB, packed 200 to 1, unless the caller has checked the sizes.
enum class NpzSize { plausible, checked };
NamedTensors read_npz(const std::string& file, const std::string& prefix = "",
                      NpzSize size = NpzSize::plausible);
// Names, shapes and types only.
std::vector<NpzEntry> list_npz(const std::string& file);
// Deflated; BFloat16 as 2-byte void. Atomic (temporary, fsync, rename). Throws
// Error(Exit::storage).
void write_npz(const std::string& file, const NamedTensors& tensors);

}  // namespace bv

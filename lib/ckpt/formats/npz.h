// npz files: zip archives of npy arrays.
//
// The reader supports stored and deflated entries, zip64, big-endian and Fortran-ordered arrays,
// and 2-byte void, which is how big_vision writes bfloat16. It rejects pickled objects. It checks
// sizes before it allocates memory, so that a zip bomb does no harm.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"

namespace bv {

struct NpzEntry {
  std::string name;  // without ".npy"
  std::vector<int64_t> shape;
  at::ScalarType dtype;  // as read_npz() returns it
};

// Whether read_npz() must check that the unpacked size is plausible, or the caller has done so.
enum class NpzSize { plausible, checked };

// Returns how many bytes an element of this array takes after the caller has converted the array.
using NpzWidth = std::function<uint64_t(const NpzEntry&)>;
uint64_t read_width(const NpzEntry& array);  // for a caller that does not convert

// Returns all arrays whose name starts with `prefix`, without the prefix. Unsigned integers of 16,
// 32 and 64 bits become int32, int64 and int64; arrays of text are skipped. Throws
// Error(Exit::usage) with file and offset ("f.npz @ offset 312: error: ..."). With
// NpzSize::plausible, arrays that unpack to more than 256 MiB and to more than 200 times their
// packed size are rejected as a zip bomb. The size of an element is then its size in the file or
// what `width` returns, whichever is more. `width` gets names without the prefix.
NamedTensors read_npz(const std::string& file, const std::string& prefix = "",
                      NpzSize size = NpzSize::plausible, const NpzWidth& width = read_width);
// Returns names, shapes and types of all arrays but those of text.
std::vector<NpzEntry> list_npz(const std::string& file);

// One-dimensional arrays of strings by name. Bytes that are not UTF-8 are written as in Python's
// file names (surrogateescape), so that os.fsencode() gives them back.
using NamedTexts = std::map<std::string, std::vector<std::string>>;

// Returns the strings of the array `name`, in the order of their index; nullopt if there is no such
// array, or if it holds no Unicode text. Throws Error(Exit::usage) with file and offset, also if
// the array takes more than 64 MiB.
std::optional<std::vector<std::string>> read_npz_text(const std::string& file,
                                                      const std::string& name);

// Returns whether the array `name` exists and holds text, of any kind and shape. Throws
// Error(Exit::usage) with file and offset, and like read_npz() for a zip bomb.
bool is_npz_text(const std::string& file, const std::string& name);

// Writes an npz file, with BFloat16 as 2-byte void, and replaces `file` at the end. Arrays of less
// than 16 MiB are deflated. Strings become arrays of numpy's type <U, which needs no pickle. Throws
// Error(Exit::storage).
void write_npz(const std::string& file, const NamedTensors& tensors, const NamedTexts& texts = {});

}  // namespace bv

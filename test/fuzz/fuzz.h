// Fuzz targets: functions that pass arbitrary bytes to a parser. Each file <target>.cc contains
// one:
//
//     FUZZ_TARGET(csv) { ... use `input` ... }
//
// In a build with BV_FUZZ (scripts/dev.sh fuzz) this defines LLVMFuzzerTestOneInput, and the file
// becomes a libFuzzer program. Otherwise the target is registered, and test_fuzz calls it with
// every file in corpus/<target> and regression/<target> (corpus_test.cc).
//
// A target must not throw. A parser may throw bv::Error for bad bytes, so targets call parsers
// within errors_only(); any other exception is a finding.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/dataset.h"
#include "lib/util/error.h"

namespace bv::test {

using FuzzInput = std::string_view;

// Calls `parse`, which may throw an Error, unless its code means a bug.
template <class Parse>
void errors_only(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() == Exit::internal) throw;
  }
}

inline std::span<const uint8_t> bytes_of(FuzzInput input) {
  return {reinterpret_cast<const uint8_t*>(input.data()), input.size()};
}

// Returns the parts of an input between lines "=====". Targets that read several files take one
// from each.
std::vector<FuzzInput> parts_of(FuzzInput input);
// Returns part `i`, empty if there are fewer.
FuzzInput part_of(const std::vector<FuzzInput>& parts, size_t i);

// Writes a file in a folder of this process, in memory where possible, and returns its path. The
// file keeps its name, so that the next input replaces it.
std::string scratch_file(const std::string& name, FuzzInput content);
std::string scratch_folder();

// Opens a data set and reads up to 16 of its examples. DIR in `section` stands for the folder of
// scratch_file().
void read_scratch_data(const std::string& section);

// Reads up to 16 examples of a data set.
void read_some(const Dataset& data);

// Decodes an image, unless its header says that it has more than a million pixels: larger ones are
// allowed, but take too long for fuzzing.
void decode_small(FuzzInput input, int64_t height, int64_t width);

using FuzzTarget = void (*)(FuzzInput input);
// All targets that are linked, by name.
std::map<std::string, FuzzTarget>& fuzz_targets();

}  // namespace bv::test

#ifdef BV_FUZZING
#define FUZZ_TARGET(name)                                                   \
  static void fuzz_##name(bv::test::FuzzInput input);                       \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    fuzz_##name({reinterpret_cast<const char*>(data), size});               \
    return 0;                                                               \
  }                                                                         \
  static void fuzz_##name(bv::test::FuzzInput input)
#else
#define FUZZ_TARGET(name)                                           \
  static void fuzz_##name(bv::test::FuzzInput input);               \
  static const bool registered_##name =                             \
      bv::test::fuzz_targets().emplace(#name, &fuzz_##name).second; \
  static void fuzz_##name([[maybe_unused]] bv::test::FuzzInput input)
#endif

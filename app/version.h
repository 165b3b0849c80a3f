// What this program was built from.
#pragma once

namespace bv {

// The commit of the sources: "1c5c5c8f2d10", with "-dirty" after it if they had changes, or
// "unknown" if they were not in a repository. cmake/write_commit.cmake writes the definition.
const char* build_commit();

// Prints the versions of the program, of its commit, LibTorch and compiler, and where the CUDA
// plug-in is.
void print_version();

}  // namespace bv

// Reading the folder of one checkpoint. Checkpointer chooses the folder.
#pragma once

#include <string>

#include "lib/ckpt/manifest.h"
#include "lib/ckpt/restored.h"

namespace bv {

// Checks all files of a checkpoint. Like the functions below, throws an Error::bare, which does not
// name the folder: Exit::usage, or Exit::storage if the disk cannot be read.
Manifest verify_checkpoint(const std::string& folder);

// Reads the checkpoint in `folder` and verifies all checksums.
Restored read_checkpoint(const std::string& folder, const ReadOptions& options);

// The same, but reads and verifies only the parts of the files that hold what is wanted. For a
// checkpoint that another rank has verified as a whole.
Restored read_wanted(const std::string& folder, const ReadOptions& options);

}  // namespace bv

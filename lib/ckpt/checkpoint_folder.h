// Moving and deleting the folder of a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/workdir.h"

namespace bv {

// Renames the folder `from` to `to`, durably. If `to` exists already, the two are exchanged and the
// old one is deleted, so that there is a folder `to` at all times. File systems without that
// exchange use the name `trash` in between. Throws Error(Exit::storage).
void move_folder(const std::string& from, const std::string& to, const std::string& trash);

// Deletes a folder with all that is in it. Logs a warning if it cannot.
void delete_folder(const std::string& path);

// Removes the committed checkpoint of a step. It is renamed first, so that a killed process leaves
// the whole checkpoint or none. Throws Error(Exit::storage).
void remove_checkpoint(const CkptFolder& ckpt, int64_t step);

}  // namespace bv

// Moving and deleting the folder of a checkpoint.
#pragma once

#include <string>

namespace bv {

// Renames the folder `from` to `to`, durably. If `to` exists already, the two are exchanged and the
// old one is deleted, so that there is a folder `to` at all times. File systems without that
// exchange use the name `trash` in between. Throws Error(Exit::storage).
void move_folder(const std::string& from, const std::string& to, const std::string& trash);

// Deletes a folder with all that is in it. Logs a warning if it cannot.
void delete_folder(const std::string& path);

}  // namespace bv

#pragma once

#include <optional>
#include <string>

namespace bv {

// Returns how many more bytes the processes of this host, or of this container, may use without
// swapping; nullopt if the system does not report it. `root` is the folder that holds proc/ and
// sys/.
std::optional<double> available_memory(const std::string& root = "/");

}  // namespace bv

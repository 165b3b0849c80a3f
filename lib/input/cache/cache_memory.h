#pragma once

#include <optional>
#include <string>

namespace bv {

// Returns how many more bytes the processes of this host, or of this container, may use without
// swapping. `root` is the folder with proc/ and sys/. nullopt if the system does not tell.
std::optional<double> available_memory(const std::string& root = "/");

}  // namespace bv

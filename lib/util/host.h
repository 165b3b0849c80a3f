// The machine that this process runs on.
#pragma once

#include <string>

namespace bv {

// Returns the host name for messages and file names, "unknown" if the system does not tell. The
// name need not resolve to an address.
std::string host_name();

}  // namespace bv

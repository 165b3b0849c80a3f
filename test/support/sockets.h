// Ports and sockets.
#pragma once

#include <set>
#include <string>

namespace bv::test {

// Returns a TCP port of 127.0.0.1 that was free a moment ago. The kernel chooses it.
int free_port();
// Returns the sockets of any kind that the process has open, by inode.
std::set<std::string> sockets_of(int pid);
// Returns the TCP ports on which the process listens.
std::set<int> listening_ports(int pid);
// Connects to 127.0.0.1:port and sends `text`. Returns the open connection, -1 if nobody listens.
int send_to_port(int port, const std::string& text);

}  // namespace bv::test

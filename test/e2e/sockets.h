// What the kernel knows of running processes and their sockets (/proc).
#pragma once

#include <set>
#include <string>

namespace bv::test {

// Sockets of any kind that the process has open, by inode.
std::set<std::string> sockets_of(int pid);
// The TCP ports that it listens at.
std::set<int> listening_ports(int pid);
std::set<int> children_of(int pid);
// Processes, zombies aside, whose command line holds `text`.
std::set<int> processes_with(const std::string& text);
int free_port();  // of the loopback

// A connection to 127.0.0.1:port over which `text` was sent; -1 where nobody listens.
int send_to_port(int port, const std::string& text);

}  // namespace bv::test

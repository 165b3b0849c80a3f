// Names, addresses and sockets of the rendezvous. POSIX only, no c10d.
#pragma once

#include <functional>
#include <string>

namespace bv {

std::string host_name();  // gethostname, for messages only: it need not resolve

// `host` as a numeric address, IPv4 before IPv6. With `reachable` an address that other hosts can
// use: a name that means the loopback here (Debian's 127.0.1.1 for its own name) becomes the
// address of this machine's default route, or of $GLOO_SOCKET_IFNAME's interface. Throws
// Error(Exit::usage) "<where>: error: ...".
std::string resolve(const std::string& host, bool reachable, const std::string& where);

// The address of this machine that packets to `address` leave from: what Gloo's connections are
// bound to. $GLOO_SOCKET_IFNAME's, where that is set. Sends nothing.
std::string local_address_towards(const std::string& address, int port);

// A listening socket on that address alone (close-on-exec); port 0 takes a free one.
struct Listener {
  int fd = -1;
  int port = 0;
};
// Throws Error(Exit::usage): "10.0.0.1:29500: error: cannot listen: Address already in use; ...".
Listener listen_at(const std::string& address, int port);

// Waits until something listens at address:port, at most `seconds` and until `stop` says so. False
// if nothing did.
bool await_listener(const std::string& address, int port, double seconds,
                    const std::function<bool()>& stop = {});

}  // namespace bv

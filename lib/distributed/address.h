// Host names, addresses and listening sockets for the rendezvous of ranks. Plain POSIX, no c10d.
#pragma once

#include <functional>
#include <string>

namespace bv {

// Returns the name of this host, for messages only: it may not resolve.
std::string host_name();

// Returns the numeric address of `host`; IPv4 is preferred to IPv6. With `reachable`, the address
// is one that other hosts can use: if `host` resolves to the loopback here (Debian gives a host's
// own name the address 127.0.1.1), it returns the address of the interface $GLOO_SOCKET_IFNAME or,
// if that is not set, of the default route. Throws Error(Exit::usage) "<where>: error: ...".
std::string resolve(const std::string& host, bool reachable, const std::string& where);

struct NameWait {
  double seconds;
  bool own = false;  // it is the name of this host: only a temporary failure is worth a wait
  bool says = true;  // says in one line after 5 s that it waits
  std::function<bool()> stop = {};  // asked many times a second
};
// The same, but waits up to wait.seconds for a name that is not known yet: the DNS may learn that
// of node 0 only when it runs. Throws Error(Exit::peer) if the name stays unknown, and Interrupted
// (lib/distributed/store.h) if wait.stop returns true meanwhile.
std::string await_address(const std::string& host, bool reachable, const std::string& where,
                          const NameWait& wait);

// Returns the address of this machine that packets to `address` leave from, or that of
// $GLOO_SOCKET_IFNAME if it is set. Gloo's connections are bound to it. Sends nothing.
std::string local_address_towards(const std::string& address, int port);

struct Listener {
  int fd = -1;
  int port = 0;
};
// Returns a listening socket (close-on-exec), bound to `address` only; port 0 takes a free port.
// Throws Error(Exit::usage): "10.0.0.1:29500: error: cannot listen: Address already in use; ...".
Listener listen_at(const std::string& address, int port);

// Connects once to a listener of this host. Throws Error(Exit::usage) "127.0.0.1:29500: error: this
// host cannot connect to itself: Network is unreachable; ..." within 5 s: c10d would try for
// minutes, deaf to signals.
void require_connection(const std::string& address, int port);

// Returns 127.0.0.1, or ::1 on a host whose loopback interface has only that address.
std::string loopback_address();

// Waits until something listens at address:port. Returns false after `seconds`, or as soon as
// `stop` returns true.
bool await_listener(const std::string& address, int port, double seconds,
                    const std::function<bool()>& stop = {});

}  // namespace bv

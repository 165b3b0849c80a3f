#include "lib/distributed/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/distributed/store.h"
#include "lib/distributed/wait_notice.h"
#include "lib/report/log.h"
#include "lib/util/error.h"

namespace bv {
namespace {

// In seconds.
constexpr double kStopPollInterval = 0.1;  // between two checks whether to keep waiting
constexpr double kNamePause = 1;           // between two look-ups of a name

struct Socket {
  explicit Socket(int fd) : fd(fd) {}
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  Socket(const Socket&) = delete;
  int release() { return std::exchange(fd, -1); }
  int fd;
};

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList look_up(const std::string& host, int port, int flags, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return AddressList(error == 0 ? list : nullptr, [](addrinfo* a) {
    if (a) ::freeaddrinfo(a);
  });
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int error = ::getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// The first address of an interface, IPv4 before IPv6; "" if it has none.
std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  std::string found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = list; at && found.empty(); at = at->ifa_next) {
      if (!at->ifa_addr || at->ifa_addr->sa_family != family || name != at->ifa_name) continue;
      found = numeric(at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  }
  ::freeifaddrs(list);
  return found;
}

std::string chosen_interface() {
  const char* name = std::getenv("GLOO_SOCKET_IFNAME");
  if (!name || !*name) return "";
  std::string address = address_of_interface(name);
  if (address.empty())
    throw Error(Exit::usage, fmt::format("GLOO_SOCKET_IFNAME={}", name),
                "there is no such network interface, or it has no address");
  return address;
}

// Returns the address that a datagram to `address` would leave from; connect() of a UDP socket
// sends nothing.
std::string source_address(const std::string& address, int port) {
  int error = 0;
  const AddressList list = look_up(address, port, AI_NUMERICHOST, error);
  if (!list) return "";
  const Socket socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.fd < 0 || ::connect(socket.fd, list->ai_addr, list->ai_addrlen) != 0) return "";
  sockaddr_storage local{};
  socklen_t length = sizeof(local);
  if (::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) return "";
  return numeric(reinterpret_cast<sockaddr*>(&local), length);
}

// Returns this machine's address for other hosts: that of the default route or, if there is none,
// of any interface.
std::string external_address() {
  const std::string routed = source_address("192.0.2.1", 9);  // TEST-NET-1, an external address
  if (!routed.empty() && !is_loopback(routed)) return routed;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  std::string found;
  for (const ifaddrs* at = list; at && found.empty(); at = at->ifa_next) {
    if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
        !(at->ifa_flags & IFF_LOOPBACK))
      found = numeric(at->ifa_addr, sizeof(sockaddr_in));
  }
  ::freeifaddrs(list);
  return found;
}

// Returns 0 if a connection is established within `milliseconds`, otherwise the errno value.
int connect_error(const addrinfo& to, int milliseconds) {
  const Socket socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd < 0) return errno;
  if (::connect(socket.fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket.fd, POLLOUT, 0};
  const int ready = ::poll(&waiting, 1, milliseconds);
  if (ready != 1) return ready < 0 ? errno : ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

bool can_bind(const std::string& address) {
  int error = 0;
  const AddressList list = look_up(address, 0, AI_NUMERICHOST, error);
  if (!list) return false;
  const Socket socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket.fd >= 0 && ::bind(socket.fd, list->ai_addr, list->ai_addrlen) == 0;
}

// Sleeps for `seconds`. Returns false as soon as `stop` returns true.
bool sleep_unless(double seconds, const std::function<bool()>& stop) {
  for (; seconds > 0; seconds -= kStopPollInterval) {
    if (stop && stop()) return false;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(seconds, kStopPollInterval)));
  }
  return true;
}

// Returns whether it is worth looking up `host` again after this error. It is not for wrong names
// such as "10.0.0.300" or "a..b". If `own`, it is the name of this host, which should be known:
// then only a temporary failure is.
bool may_appear(std::string_view host, int error, bool own) {
  if (error != EAI_AGAIN && (own || (error != EAI_NONAME && error != EAI_NODATA))) return false;
  if (host.ends_with('.')) host.remove_suffix(1);
  const std::string_view last = host.substr(host.rfind('.') + 1);
  const bool allowed = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  return allowed && !host.starts_with('.') && host.find("..") == std::string_view::npos &&
         last.find_first_not_of("0123456789") != std::string_view::npos;
}

// Returns what resolve() does, from the result of look_up().
std::string choose_address(const AddressList& list, int error, const std::string& host,
                           bool reachable, const std::string& where) {
  std::string found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* at = list.get(); at && found.empty(); at = at->ai_next)
      if (at->ai_family == family) found = numeric(at->ai_addr, at->ai_addrlen);
  }
  if (found.empty())
    throw Error(Exit::usage, where,
                fmt::format("cannot resolve the host '{}': {}", host,
                            error ? ::gai_strerror(error) : "no address"));
  if (!reachable || !is_loopback(found)) return found;
  // A numeric loopback address is intended (network namespaces, tests).
  if (found == host) return found;
  if (std::string address = chosen_interface(); !address.empty()) return address;
  const std::string external = external_address();
  return external.empty() ? found : external;
}

}  // namespace

std::string resolve(const std::string& host, bool reachable, const std::string& where) {
  int error = 0;
  const AddressList list = look_up(host, 0, 0, error);
  return choose_address(list, error, host, reachable, where);
}

std::string await_address(const std::string& host, bool reachable, const std::string& where,
                          const NameWait& wait) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(wait.seconds);
  WaitNotice notice;
  while (true) {
    int error = 0;
    const AddressList list = look_up(host, 0, 0, error);
    if (list || !may_appear(host, error, wait.own))
      return choose_address(list, error, host, reachable, where);
    if (Clock::now() > end)
      throw Error(Exit::peer, where,
                  fmt::format("cannot resolve the host '{}' within {:g} s: {}", host, wait.seconds,
                              ::gai_strerror(error)));
    if (wait.says && notice.due())
      log::warn("waiting for the name of the host '{}' ({:g} s at most): {}", host, wait.seconds,
                ::gai_strerror(error));
    if (!sleep_unless(kNamePause, wait.stop)) throw Interrupted{};
  }
}

std::string local_address_towards(const std::string& address, int port) {
  if (std::string chosen = chosen_interface(); !chosen.empty()) return chosen;
  const std::string source = source_address(address, port);
  if (source.empty())
    throw Error(Exit::usage, fmt::format("{}:{}", address, port),
                fmt::format("no route to it: {}", std::strerror(errno)));
  return source;
}

Listener listen_at(const std::string& address, int port) {
  const std::string where = fmt::format("{}:{}", address, port);
  const auto fail = [&](const char* hint) {
    throw Error(Exit::usage, where, fmt::format("cannot listen: {}{}", std::strerror(errno), hint));
  };
  int error = 0;
  const AddressList list = look_up(address, port, AI_NUMERICHOST | AI_PASSIVE, error);
  if (!list) throw Error(Exit::usage, where, "is not a numeric address");
  Socket socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd < 0) fail("");
  const int yes = 1;
  ::setsockopt(socket.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(socket.fd, list->ai_addr, list->ai_addrlen) != 0 || ::listen(socket.fd, 2048) != 0) {
    fail(errno == EADDRINUSE
             ? "; if another run uses it, give --rendezvous HOST:PORT with a free port"
         : errno == EADDRNOTAVAIL ? "; it is not an address of this host, which should run rank 0"
                                  : "");
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) fail("");
  const in_port_t network = bound.ss_family == AF_INET6
                                ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  return {socket.release(), ntohs(network)};
}

void require_connection(const std::string& address, int port) {
  constexpr int kPatience = 5000;  // milliseconds; within a host the kernel connects at once
  int error = 0;
  const AddressList list = look_up(address, port, AI_NUMERICHOST, error);
  if (!list || (error = connect_error(*list, kPatience)) == 0 || error == EINTR) return;
  throw Error(Exit::usage, fmt::format("{}:{}", address, port),
              fmt::format("this host cannot connect to itself: {}; is the loopback interface up? "
                          "`ip link set lo up` starts it",
                          std::strerror(error)));
}

std::string loopback_address() {
  return !can_bind("127.0.0.1") && can_bind("::1") ? "::1" : "127.0.0.1";
}

bool await_listener(const std::string& address, int port, double seconds,
                    const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto left = [end = Clock::now() + std::chrono::duration<double>(seconds)] {
    return std::chrono::duration<double>(end - Clock::now()).count();
  };
  int error = 0;
  const AddressList list = look_up(address, port, AI_NUMERICHOST, error);
  if (!list) return false;
  for (double pause = 0.02; left() > 0; pause = std::min(1.0, pause * 1.5)) {
    if (connect_error(*list, static_cast<int>(std::min(left(), 3.0) * 1000)) == 0) return true;
    if (!sleep_unless(std::min(pause, left()), stop)) return false;
  }
  return false;
}

}  // namespace bv

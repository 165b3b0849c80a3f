// The store of a run, a key-value server through which ranks and launchers find each other: c10d's
// TCPStore on a socket that we bind, and client connections to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bv {

inline constexpr double kStoreGreeting = 2;  // seconds that a store may take for its first answer

// The server. It listens on `address` (numeric) only. It uses the libuv backend of c10d, which
// survives clients that send garbage or stall in the middle of a request. The older backend serves
// all clients with one blocking thread, so that such a client would block it for all.
class StoreServer {
 public:
  // Port 0 takes a free port. Throws Error(Exit::usage) if the address can't be bound, or
  // if this host can't connect to it.
  StoreServer(const std::string& address, int port);
  ~StoreServer();
  int port() const { return port_; }

 private:
  struct Impl;
  int port_ = 0;
  std::unique_ptr<Impl> impl_;
};

// Returns 24 random hexadecimal digits, as the token of a run.
std::string random_token();

// Thrown by a process that waits for others when it is asked to end (GroupOptions::stop).
struct Interrupted {};

// One client connection, for one thread at a time. All keys get the prefix "<token>/". Every call
// may throw std::exception when the server is gone, and blocks for as long as the server is
// stopped; a caller that must not block needs a second thread that watches the first (see Watch).
class Store {
 public:
  // Waits up to `seconds` for the server. Throws Error(Exit::peer) if none answers, or Interrupted
  // if `stop` returns true meanwhile.
  Store(const std::string& address, int port, const std::string& token, double seconds,
        const std::function<bool()>& stop = {});
  Store(Store&&) noexcept;
  ~Store();

  void set(const std::string& key, const std::string& value);
  // Whether all keys exist.
  bool has(const std::vector<std::string>& keys);
  // Return the values of keys; they wait until missing keys exist.
  std::string get(const std::string& key);
  std::vector<std::string> get_all(const std::vector<std::string>& keys);
  // Sets `key` to `wanted` if its value is `expected` ("" also matches a missing key). Returns the
  // value afterwards.
  std::string exchange(const std::string& key, const std::string& expected,
                       const std::string& wanted);
  // Adds `amount` to the number at `key` (0 if missing). Returns the sum.
  int64_t add(const std::string& key, int64_t amount);

  struct Impl;  // lib/distributed/store_impl.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

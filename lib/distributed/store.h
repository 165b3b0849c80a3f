// The store of a run: c10d's TCPStore on a socket that we bind, and client connections to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bv {

// The serving half. It listens on `address` (numeric) alone. libuv's backend: a connection that
// sends garbage, or stalls in the middle of a request, is closed or waits by itself, where c10d's
// older backend, one blocking thread, would stop answering everybody.
class StoreServer {
 public:
  // Throws Error(Exit::usage) if the address can't be bound.
  StoreServer(const std::string& address, int port);
  ~StoreServer();
  int port() const { return port_; }

 private:
  struct Impl;
  int port_ = 0;
  std::unique_ptr<Impl> impl_;
};

// Thrown where a process that waits for others is asked to end (GroupOptions::stop).
struct Interrupted {};

// One connection, for one thread at a time; keys lie under "<token>/". Every call may throw
// std::exception when the server is gone, and may block for as long as a stopped server takes:
// whoever must not wait has a second thread look after it (Watch).
class Store {
 public:
  // Waits up to `seconds` for the server. Throws Error(Exit::peer), or Interrupted where `stop`,
  // asked meanwhile, says so.
  Store(const std::string& address, int port, const std::string& token, double seconds,
        const std::function<bool()>& stop = {});
  Store(Store&&) noexcept;
  ~Store();

  void set(const std::string& key, const std::string& value);
  // True if all keys are there.
  bool has(const std::vector<std::string>& keys);
  // Values of keys; waits for missing ones.
  std::string get(const std::string& key);
  std::vector<std::string> get_all(const std::vector<std::string>& keys);
  // Sets `key` to `wanted` where it holds `expected` ("" also: where it is missing); what it holds
  // afterwards.
  std::string exchange(const std::string& key, const std::string& expected,
                       const std::string& wanted);
  int64_t add(const std::string& key, int64_t amount);

  struct Impl;  // lib/distributed/store_impl.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

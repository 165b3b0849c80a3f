#include "lib/distributed/store.h"

#include <c10/util/Logging.h>
#include <sys/random.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lib/distributed/address.h"
#include "lib/distributed/store_impl.h"
#include "lib/util/error.h"

namespace bv {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// c10d prints a warning for every refused connection and every malformed request. Our own messages
// report what matters.
void silence_c10d_warnings() {
  if (FLAGS_caffe2_log_level < 2) FLAGS_caffe2_log_level = 2;  // errors
}

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

std::string random_token() {
  unsigned char bytes[12];
  if (::getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
    throw Error(Exit::internal, "", "no random numbers from the kernel");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

struct StoreServer::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

StoreServer::StoreServer(const std::string& address, int port) : impl_(std::make_unique<Impl>()) {
  silence_c10d_warnings();
  const Listener listener = listen_at(address, port);
  port_ = listener.port;
  try {
    require_connection(address, port_);
  } catch (...) {
    ::close(listener.fd);
    throw;
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port_);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.fd;  // the store closes it
  options.useLibUV = true;
  impl_->store = c10::make_intrusive<c10d::TCPStore>(address, options);
}

StoreServer::~StoreServer() = default;

Store::Store(const std::string& address, int port, const std::string& token, double seconds,
             const std::function<bool()>& stop)
    : impl_(std::make_unique<Impl>()) {
  silence_c10d_warnings();
  const std::string where = fmt::format("{}:{}", address, port);
  if (!await_listener(address, port, seconds, stop)) {
    if (stop && stop()) throw Interrupted{};
    throw Error(
        Exit::peer, where,
        fmt::format("no run's store answered there within {:g} s: is the host of rank 0 up, "
                    "and can this host reach the port?",
                    seconds));
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = milliseconds(seconds);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
    impl_->keys = c10::make_intrusive<c10d::PrefixStore>("bvtrain/" + token, std::move(store));
  } catch (const std::exception&) {
    throw Error(Exit::peer, where, "something answers there that is not a run's store");
  }
}

Store::Store(Store&&) noexcept = default;
Store::~Store() = default;

void Store::set(const std::string& key, const std::string& value) {
  impl_->keys->set(key, bytes(value));
}

bool Store::has(const std::vector<std::string>& keys) { return impl_->keys->check(keys); }

std::string Store::get(const std::string& key) { return text(impl_->keys->get(key)); }

std::vector<std::string> Store::get_all(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const auto& value : impl_->keys->multiGet(keys)) values.push_back(text(value));
  return values;
}

std::string Store::exchange(const std::string& key, const std::string& expected,
                            const std::string& wanted) {
  return text(impl_->keys->compareSet(key, bytes(expected), bytes(wanted)));
}

int64_t Store::add(const std::string& key, int64_t amount) { return impl_->keys->add(key, amount); }

}  // namespace bv

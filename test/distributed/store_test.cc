// The run's store: its listening address, and the effect of other clients on its port.
#include "lib/distributed/store.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "lib/distributed/address.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "test/distributed/workers.h"
#include "test/support/child.h"

namespace bv::test {
namespace {

int connected(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  return fd;
}

void send_text(int fd, const std::string& text) {
  [[maybe_unused]] const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

// Sends what a port scanner, a browser or a client of another program may send. The connections
// stay open.
std::vector<int> disturb(int port) {
  std::vector<int> open;
  const auto speak = [&](const std::string& text) {
    open.push_back(connected(port));
    send_text(open.back(), text);
  };
  speak("");  // connects and stalls
  speak("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  speak(std::string(1, '\0'));                      // half of a greeting
  speak(std::string("\0\xCE\xF7\x85\x3C", 5));      // the greeting, and then nothing
  speak(std::string("\0\xCE\xF7\x85\x3C\x01", 6));  // ... and the first byte of a request
  speak(std::string("\0\xCE\xF7\x85\x3C\x01\xff\xff\xff\xff\xff\xff\xff\x7f", 14));  // a vast key
  speak(std::string("\0\xCE\xF7\x85\x3C\xee", 6));  // no such request
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    std::string noise(i % 2 ? "\0\xCE\xF7\x85\x3C" : "", i % 2 ? 5 : 0);
    for (int k = 0; k < 3000; ++k) noise += static_cast<char>(random());
    speak(noise);
  }
  for (int i = 0; i < 10; ++i) ::close(connected(port));
  return open;
}

Variables clients(int port) {
  return {{"MASTER_PORT", std::to_string(port)}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

TEST_CASE("keys are set, exchanged and counted under their token") {
  const StoreServer server("127.0.0.1", 0);
  Store one("127.0.0.1", server.port(), "run", 5), two("127.0.0.1", server.port(), "run", 5),
      other("127.0.0.1", server.port(), "another", 5);
  one.set("a", "1");
  one.set("b", std::string("x\0y", 3));
  CHECK(two.get("a") == "1");
  CHECK(two.get_all({"b", "a"}) == std::vector<std::string>{std::string("x\0y", 3), "1"});
  CHECK(two.has({"a", "b"}));
  CHECK_FALSE(two.has({"a", "c"}));
  CHECK_FALSE(other.has({"a"}));  // another run that uses the same port
  CHECK(one.exchange("v", "", "-") == "-");
  CHECK(two.exchange("v", "", "later") == "-");
  CHECK(two.exchange("v", "-", "first") == "first");
  CHECK(one.exchange("v", "-", "second") == "first");
  CHECK(one.add("n", 2) == 2);
  CHECK(two.add("n", 3) == 5);
}

TEST_CASE("the store listens on its own address only") {
  const StoreServer server("127.0.0.2", 0);
  CHECK(await_listener("127.0.0.2", server.port(), 1));
  CHECK_FALSE(await_listener("127.0.0.1", server.port(), 0.1));
  CHECK_THROWS_WITH(StoreServer("127.0.0.2", server.port()),
                    Catch::Matches(R"(127\.0\.0\.2:\d+: error: cannot listen: Address already in )"
                                   R"(use; if another run uses it, give --rendezvous HOST:PORT )"
                                   R"(with a free port)"));
  CHECK_THROWS_WITH(
      StoreServer("192.0.2.77", 0),
      "192.0.2.77:0: error: cannot listen: Cannot assign requested address; it is not "
      "an address of this host, which should run rank 0");
}

// Runs `body` in a child with a network of its own, which has only a loopback interface that is
// down. Skips the test if this user may not make one.
void in_own_network(const std::function<void()>& body) {
  constexpr int kNotAllowed = 98;
  constexpr unsigned kPatience = 60;  // seconds
  const int status = run_in_child([&] {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(kNotAllowed);
    ::alarm(kPatience);
    body();
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed)
    WARN("skipped: this user may not make a network");
  else
    CHECK(WEXITSTATUS(status) == 0);
}

// A child cannot report to Catch2: its exit status says whether `condition` holds.
void require_in_child(bool condition) {
  if (!condition) throw std::runtime_error("a condition of the child does not hold");
}

TEST_CASE("a store that its own host cannot reach is refused at once") {
  in_own_network([] {
    std::string line;
    try {
      const StoreServer server("127.0.0.1", 0);
    } catch (const Error& error) {
      line = error.what();
      require_in_child(error.code() == Exit::usage);
    }
    require_in_child(line.starts_with("127.0.0.1:"));
    require_in_child(
        line.ends_with(": error: this host cannot connect to itself: Network is "
                       "unreachable; is the loopback interface up? `ip link set lo "
                       "up` starts it"));
  });
}

TEST_CASE("the loopback address is that of IPv6 on a host without the other") {
  CHECK(loopback_address() == "127.0.0.1");
  if (!file_exists("/proc/sys/net/ipv6")) {
    WARN("skipped: this kernel has no IPv6");
    return;
  }
  in_own_network([] {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    require_in_child(::ioctl(fd, SIOCSIFFLAGS, &request) == 0);
    require_in_child(loopback_address() == "127.0.0.1");
    request.ifr_addr = {};
    request.ifr_addr.sa_family = AF_INET;
    require_in_child(::ioctl(fd, SIOCSIFADDR, &request) == 0);  // 0.0.0.0 removes the address
    require_in_child(loopback_address() == "::1");
    require_in_child(local_address_towards("::1", 9) == "::1");
    require_connection("::1", listen_at("::1", 0).port);
  });
}

TEST_CASE("hosts that have no address are refused") {
  CHECK_THROWS_WITH(resolve("no.such.host.invalid", false, "--rendezvous x:1"),
                    Catch::StartsWith("--rendezvous x:1: error: cannot resolve the host "
                                      "'no.such.host.invalid': "));
  CHECK(resolve("127.0.0.1", true, "") == "127.0.0.1");
  // Waiting does not help.
  for (const std::string wrong : {"10.0.0.300", "a..b", "n,1"}) {
    CHECK_THROWS_WITH(
        await_address(wrong, false, "--rendezvous x:1", {.seconds = 1000}),
        Catch::StartsWith("--rendezvous x:1: error: cannot resolve the host '" + wrong + "': "));
  }
  CHECK(local_address_towards("127.0.0.1", 9) == "127.0.0.1");
}

TEST_CASE("a name that is not known yet is waited for, until a time-out or a signal") {
  CHECK(await_address("127.0.0.1", true, "", {.seconds = 0}) == "127.0.0.1");
  const auto await_name = [](double seconds, const std::function<bool()>& stop) {
    return await_address("no.such.host.invalid", true, "--rendezvous x:1",
                         {.seconds = seconds, .stop = stop});
  };
  try {
    await_name(0.5, {});
    FAIL("there is no such host");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::peer);
    CHECK_THAT(error.what(), Catch::StartsWith("--rendezvous x:1: error: cannot resolve the host "
                                               "'no.such.host.invalid' within 0.5 s: "));
  }
  int asked = 0;
  CHECK_THROWS_AS(await_name(1000, [&] { return ++asked > 3; }), Interrupted);
}

TEST_CASE("garbage on the port does not disturb a group") {
  Worker host("store", {});
  const int port = std::stoi(host.first_line());
  std::vector<int> open = disturb(port);
  auto workers = start_ranks("steps", 3, [&] {
    Variables more = clients(port);
    more["DIST_STEPS"] = "15";
    more["DIST_STEP_SECONDS"] = "0.05";
    return more;
  }());
  CHECK(workers[0].first_line() == "stepping");
  for (const int fd : disturb(port)) open.push_back(fd);
  for (const Finished& ended : wait_all(workers)) {
    INFO(ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
  }
  for (const int fd : open) ::close(fd);
}

TEST_CASE("the loss of the store ends all ranks with 7") {
  struct Scene {
    int signal;
    std::string how;
    Worker host;
    std::vector<Worker> ranks;
  };
  std::vector<Scene> scenes;
  for (const auto& [signal, how] :
       {std::pair{SIGKILL, "is lost"}, {SIGSTOP, R"(has not answered for \d+(\.\d+)? s)"}}) {
    Worker host("store", {});
    Variables more = clients(std::stoi(host.first_line()));
    more["DIST_STEPS"] = "1000000";
    if (signal == SIGSTOP) more["BVTRAIN_SILENCE"] = kShortSilence;
    scenes.push_back({signal, how, std::move(host), start_ranks("steps", 2, more)});
  }
  for (const Scene& scene : scenes) CHECK(scene.ranks[0].first_line() == "stepping");
  for (const Scene& scene : scenes) scene.host.kill(scene.signal);
  for (Scene& scene : scenes) {
    for (const Finished& ended : wait_all(scene.ranks)) {
      CHECK(ended.code == 7);
      CHECK_THAT(ended.err, Catch::Matches(R"(\[distributed\] the run's store at 127\.0\.0\.1:\d+ )"
                                           R"(\(hosted by torchrun\) )" +
                                           scene.how + R"(; the last step here was -?\d+\n)"));
    }
  }
}

TEST_CASE("torchrun's ranks join in a store that keeps the keys of earlier starts") {
  Worker host("store", {});
  Variables more = clients(std::stoi(host.first_line()));
  more["DIST_FAULT"] = "kill:1:3";
  auto first = start_ranks("steps", 3, more);
  for (const Finished& ended : wait_all(first)) CHECK(ended.code != 0);
  // The next start has another number of ranks, and some of its agents have counted no restart.
  more.erase("DIST_FAULT");
  std::vector<Worker> second;
  for (const int rank : {3, 2, 1, 0}) {
    Variables variables = rank_variables(rank, 4, 0);
    for (const auto& [name, value] : more) variables[name] = value;
    variables["TORCHELASTIC_RESTART_COUNT"] = rank % 2 == 0 ? "1" : "0";
    // The others find the offer of the first start before that of their own.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    second.emplace_back("steps", variables);
  }
  for (const Finished& ended : wait_all(second)) {
    INFO(ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
  }
}

TEST_CASE("a rank that torchrun starts without rank 0, or without a run's store, says so") {
  Worker host("store", {});
  Variables variables = rank_variables(1, 2, 0);
  for (const auto& [name, value] : clients(std::stoi(host.first_line()))) variables[name] = value;
  variables["BVTRAIN_STARTUP_TIMEOUT"] = "2";
  Worker rank("steps", variables);
  // It accepts connections and never answers.
  const Listener listener = listen_at("127.0.0.1", 0);
  variables = rank_variables(1, 2, listener.port);
  variables["BVTRAIN_STARTUP_TIMEOUT"] = "1";
  const Finished storeless = Worker("steps", variables).wait(), ended = rank.wait();
  CHECK(ended.code == 7);
  CHECK(ended.err == "[distributed] rank 0 did not join within 2 s\n");
  CHECK(storeless.code == 7);
  CHECK_THAT(storeless.err,
             Catch::Matches(
                 R"((\[distributed\] the store at 127\.0\.0\.1:\d+ accepts connections but does )"
                 R"(not answer: is it a run's store\?|127\.0\.0\.1:\d+: error: something )"
                 R"(answers there that is not a run's store)\n)"));
  ::close(listener.fd);
}

TEST_CASE("a rank that waits for rank 0 when the store is lost says so") {
  Worker host("store", {});
  const int port = std::stoi(host.first_line());
  // The offer of an earlier start, whose rank 0 does not answer any more.
  Store store("127.0.0.1", port, "torchrun-lost", 5);
  store.set("old/answered", "0");
  store.set("start", "old");
  Variables variables = rank_variables(1, 2, 0);
  for (const auto& [name, value] : clients(port)) variables[name] = value;
  variables["TORCHELASTIC_RUN_ID"] = "lost";
  Worker rank("steps", variables);
  CHECK(wait_until([&] { return store.add("old/announced", 0) == 1; }));
  host.kill(SIGKILL);
  const Finished ended = rank.wait();
  CHECK(ended.code == 7);
  CHECK(ended.err == fmt::format("[distributed] the run's store at 127.0.0.1:{} was lost before "
                                 "rank 0 joined\n",
                                 port));
}

}  // namespace
}  // namespace bv::test

#include "lib/distributed/launch/launcher.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <set>

#include "lib/distributed/address.h"
#include "lib/distributed/launch/nodes.h"
#include "lib/distributed/launch/rank_process.h"
#include "lib/distributed/open_files.h"
#include "lib/distributed/store.h"
#include "lib/distributed/watch/leave.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/log.h"
#include "lib/util/error.h"

namespace bv {
namespace {

constexpr double kCulpritGrace = 1;  // seconds an accused rank gets to end by itself
constexpr double kStoreAnswers = 5;  // seconds; the launcher can't go on without its store
constexpr double kStoreSilent = 30;  // the same while all is well: ranks give up a store in 20
constexpr double kLook = 2, kLookSoon = 0.5;  // seconds between two looks for an accusation

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string random_token() {
  unsigned char bytes[12];
  if (::getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
    throw Error(Exit::internal, "", "no random numbers from the kernel");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

// How one generation of ranks ended on this node.
struct Outcome {
  int code = 0;
  std::set<int> culprits;  // local ranks that failed of themselves
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options);
  ~Launcher();
  int run();

 private:
  Store connect(const std::string& token);
  bool interrupted();
  int run_generations();
  void check_size(const std::vector<int>& sizes) const;
  void start_ranks(const std::vector<int>& sizes);
  Outcome await_ranks(Store& store);
  void handle_signals();
  void reap(Store& store);
  void failed(Store& store, RankProcess& process);
  void end_accused(Store& store);
  void kill_rest();
  bool told_by_itself(const std::string& line) const;
  void print_held();
  bool running() const;

  const LaunchOptions options_;
  const RankLayout& place_ = options_.place;
  std::string address_, token_;
  int port_ = 0, generation_ = 0, first_world_ = 0, signals_ = -1;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Nodes> nodes_;
  std::vector<RankProcess> ranks_;
  int code_ = 0;
  double failed_at_ = -1, accused_at_ = -1;
  bool told_to_stop_ = false;
  sigset_t old_mask_{};
};

Launcher::Launcher(const LaunchOptions& options) : options_(options) {
  // Before the store's thread is there, so that it inherits the mask.
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGCHLD, SIGTSTP, SIGCONT})
    sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, &old_mask_);
  signals_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  check(signals_ >= 0, "signalfd: errno {}", errno);

  address_ = resolve(place_.address, place_.nodes > 1, "--rendezvous " + place_.address);
  token_ = !place_.token.empty() ? place_.token : place_.nodes > 1 ? "nodes" : random_token();
  port_ = place_.port;
  if (place_.hosts_store) {
    server_ = std::make_unique<StoreServer>(address_, port_);
    port_ = server_->port();
  }
}

// A connection to the run's store. Throws Interrupted where a signal came first.
Store Launcher::connect(const std::string& token) {
  const Alarm alarm(
      options_.startup + kStoreAnswers,
      fmt::format("[distributed] the store at {}:{} does not answer", address_, port_));
  return {address_, port_, token, options_.startup, [this] { return interrupted(); }};
}

bool Launcher::interrupted() {
  handle_signals();
  return told_to_stop_;
}

Launcher::~Launcher() {
  ::close(signals_);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

void Launcher::start_ranks(const std::vector<int>& sizes) {
  const auto node = static_cast<size_t>(place_.node);
  const int first = std::accumulate(sizes.begin(), sizes.begin() + static_cast<long>(node), 0);
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  // Of the nodes that have ranks: what BVTRAIN_GROUP_NODE and _NODES count.
  const auto has_ranks = [](int size) { return size > 0; };
  const auto nodes = std::count_if(sizes.begin(), sizes.end(), has_ranks);
  const auto before = std::count_if(sizes.begin(), sizes.begin() + place_.node, has_ranks);
  if (generation_ == 0) first_world_ = world;
  const auto cpus = divide_cpus(allowed_cpus(), std::max(1, sizes[node]));
  const char* threads = std::getenv("OMP_NUM_THREADS");
  ranks_.assign(static_cast<size_t>(sizes[node]), {});
  for (int i = 0; i < sizes[node]; ++i) {
    RankProcess& process = ranks_[static_cast<size_t>(i)];
    process.rank = first + i;
    process.local_rank = i;
    RankStart how;
    how.argv = options_.argv;
    how.cpus = cpus[static_cast<size_t>(i)];
    how.quiet = process.rank != 0 && !(place_.nodes > 1 && i == 0);
    how.environment = {{"BVTRAIN_GROUP_RANK", std::to_string(process.rank)},
                       {"BVTRAIN_GROUP_SIZE", std::to_string(world)},
                       {"BVTRAIN_GROUP_LOCAL_RANK", std::to_string(i)},
                       {"BVTRAIN_GROUP_LOCAL_SIZE", std::to_string(sizes[node])},
                       {"BVTRAIN_GROUP_NODE", std::to_string(before)},
                       {"BVTRAIN_GROUP_NODES", std::to_string(nodes)},
                       {"BVTRAIN_GROUP_STORE", address_.find(':') == std::string::npos
                                                   ? fmt::format("{}:{}", address_, port_)
                                                   : fmt::format("[{}]:{}", address_, port_)},
                       {"BVTRAIN_GROUP_TOKEN", fmt::format("{}.{}", token_, generation_)},
                       {"BVTRAIN_GROUP_RESTARTS", std::to_string(generation_)},
                       {"BVTRAIN_GROUP_FIRST_SIZE", std::to_string(first_world_)},
                       {"BVTRAIN_GROUP_FOUND_BY", place_.found_by}};
    if (!threads || !*threads)
      how.environment["OMP_NUM_THREADS"] = std::to_string(std::max<size_t>(1, how.cpus.size()));
    start(process, how);
  }
}

bool Launcher::running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.pid > 0; });
}

void Launcher::handle_signals() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;  // reap() looks at all
    if (signal != SIGTSTP && signal != SIGCONT) {
      told_to_stop_ = true;
      if (!running()) code_ = signal == SIGUSR1 ? 75 : signal == SIGINT ? 130 : 143;
    }
    for (const RankProcess& process : ranks_)
      if (process.pid > 0) ::kill(process.pid, signal == SIGTSTP ? SIGSTOP : signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);  // Ctrl-Z: all of the run, then this
  }
}

// What the launcher knows of a rank's end, all ranks learn at once.
void Launcher::failed(Store& store, RankProcess& process) {
  if (failed_at_ < 0) failed_at_ = now();
  // Who is killed by SIGTERM had no handler yet, and told nobody.
  if (process.by_us || (process.signal == 0 && orderly(process.code))) return;
  const std::string cause =
      process.signal ? "was killed by " + end_text(process) : "ended with " + end_text(process);
  const Alarm alarm(kStoreAnswers, "[distributed] the launcher's store does not answer");
  try {
    store.exchange(kVerdictKey, "", kNoVerdict);
    store.exchange(kVerdictKey, kNoVerdict, Accusation{process.rank, cause}.text());
  } catch (const std::exception&) {
    // Its host is gone: the ranks find that out themselves.
  }
}

void Launcher::reap(Store& store) {
  for (RankProcess& process : ranks_) {
    int status = 0;
    if (process.pid <= 0 || ::waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.pid = -1;
    process.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    process.code = process.signal ? 128 + process.signal : WEXITSTATUS(status);
    pass_output(process);
    if (process.code == 0) continue;
    // Codes by their order of arrival, but a 7 only says that another rank failed.
    if (!process.by_us && (code_ == 0 || code_ == static_cast<int>(Exit::peer)))
      code_ = process.code;
    failed(store, process);
  }
}

// A stopped rank does not end by itself when all others have given it up, be they all elsewhere.
void Launcher::end_accused(Store& store) {
  std::optional<Accusation> accused;
  try {
    const Alarm alarm(kStoreSilent, "[distributed] the launcher's store does not answer");
    if (store.has({kVerdictKey})) accused = Accusation::parse(store.get(kVerdictKey));
  } catch (const std::exception&) {
    if (failed_at_ < 0) failed_at_ = now();  // no rank goes on without the store
    return;
  }
  if (!accused) return;
  if (accused_at_ < 0) accused_at_ = now();
  if (failed_at_ < 0) failed_at_ = now();  // others may be stopped here, too
  if (now() - accused_at_ < kCulpritGrace) return;
  for (RankProcess& process : ranks_) {
    if (process.rank != accused->rank || process.pid <= 0) continue;
    process.by_us = true;
    ::kill(process.pid, SIGKILL);
  }
}

void Launcher::kill_rest() {
  for (RankProcess& process : ranks_) {
    if (process.pid <= 0) continue;
    process.by_us = true;
    ::kill(process.pid, SIGKILL);
  }
}

// Whether a line passes on the error of a rank of this host, which has said it itself.
bool Launcher::told_by_itself(const std::string& line) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& process) {
    return !process.by_us &&
           line.starts_with(fmt::format("[distributed] rank {} (", process.rank)) &&
           line.find(fmt::format(" ended with exit code {}: ", process.code)) != std::string::npos;
  });
}

// Error lines of the quiet ranks: what the first one ended with too has been said by it.
void Launcher::print_held() {
  if (ranks_.empty()) return;
  std::set<std::string> said;
  const RankProcess& loud = ranks_.front();
  for (RankProcess& process : ranks_) {
    if (process.by_us || (loud.errors < 0 && process.code == loud.code)) process.held.clear();
    for (const std::string& line : process.held)
      if (!told_by_itself(line) && said.insert(line).second)
        std::fprintf(stderr, "%s%s\n",
                     line.starts_with("[distributed] ")
                         ? ""
                         : fmt::format("[rank {}] ", process.rank).c_str(),
                     line.c_str());
  }
}

Outcome Launcher::await_ranks(Store& store) {
  double looked = now();
  while (running()) {
    std::vector<pollfd> waiting{{signals_, POLLIN, 0}};
    for (const RankProcess& process : ranks_)
      if (process.errors >= 0) waiting.push_back({process.errors, POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 100);
    handle_signals();
    for (RankProcess& process : ranks_) pass_output(process);
    reap(store);
    if (failed_at_ >= 0 && now() - failed_at_ > options_.grace) kill_rest();
    const bool soon = failed_at_ >= 0 || accused_at_ >= 0;
    if (now() - looked > (soon ? kLookSoon : kLook)) {
      looked = now();
      end_accused(store);
    }
  }
  print_held();
  Outcome outcome;
  const bool ended_here =
      std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.by_us; });
  outcome.code = code_ == 0 && ended_here ? static_cast<int>(Exit::peer) : code_;
  for (const RankProcess& process : ranks_) {
    const bool failed = process.code != 0 && process.code != static_cast<int>(Exit::peer);
    if (failed || process.by_us) outcome.culprits.insert(process.local_rank);
  }
  return outcome;
}

// What is wrong with the number of ranks, once it is known.
void Launcher::check_size(const std::vector<int>& sizes) const {
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  check_open_files(ranks);
  const int least = options_.least_ranks, most = options_.most_ranks;
  if (least > 0 && (ranks < least || ranks > most))
    throw Error(Exit::usage, fmt::format("--elastic {}:{}", least, most),
                fmt::format("the run starts with {} ranks", ranks));
}

int Launcher::run() {
  try {
    return run_generations();
  } catch (const Interrupted&) {
    return code_;
  }
}

int Launcher::run_generations() {
  nodes_ = std::make_unique<Nodes>(place_.node, place_.nodes, connect(token_),
                                   [this] { return interrupted(); });
  std::vector<int> sizes = nodes_->sizes(place_.local_size, options_.startup);
  if (sizes.empty()) return code_;  // a signal came first
  check_size(sizes);
  while (true) {
    code_ = 0;
    failed_at_ = accused_at_ = -1;
    Store store = connect(fmt::format("{}.{}", token_, generation_));
    store.exchange(kVerdictKey, "", kNoVerdict);
    start_ranks(sizes);
    const Outcome outcome = await_ranks(store);
    const int failed = static_cast<int>(outcome.culprits.size());
    sizes = nodes_->next(generation_, outcome.code, failed, sizes, options_);
    if (sizes.empty()) return outcome.code;
    ++generation_;
    const int here = sizes.at(static_cast<size_t>(place_.node));
    log::warn("the ranks ended with code {}; starting again, {} of {}, with {} rank{} here",
              outcome.code, generation_, options_.max_restarts, here, here == 1 ? "" : "s");
  }
}

}  // namespace

void parse_elastic(const std::string& text, LaunchOptions& options) {
  const size_t colon = text.find(':');
  const auto number = [&](std::string_view part) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() ? value : 0;
  };
  options.least_ranks = options.most_ranks = 0;
  if (colon != std::string::npos) {
    options.least_ranks = number(std::string_view(text).substr(0, colon));
    options.most_ranks = number(std::string_view(text).substr(colon + 1));
  }
  if (options.least_ranks < 1 || options.most_ranks < options.least_ranks)
    throw Error(Exit::usage, "--elastic " + text, "expected MIN:MAX with 1 <= MIN <= MAX");
}

int launch(const LaunchOptions& options) {
  check(options.place.launches, "launch() needs a place that launches");
  return Launcher(options).run();
}

}  // namespace bv

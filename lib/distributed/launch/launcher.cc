#include "lib/distributed/launch/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <numeric>
#include <thread>
#include <utility>

#include "lib/distributed/address.h"
#include "lib/distributed/launch/node_coordinator.h"
#include "lib/distributed/launch/rank_output.h"
#include "lib/distributed/launch/rank_process.h"
#include "lib/distributed/open_files.h"
#include "lib/distributed/store.h"
#include "lib/distributed/wait_notice.h"
#include "lib/distributed/watch/deadline.h"
#include "lib/distributed/watch/failure_detector.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/chrono.h"
#include "lib/report/console.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/host.h"
#include "lib/util/parse_count.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// All in seconds.
constexpr double kFailedRankGrace = 1;  // for a rank reported as failed to exit by itself
constexpr double kStoreAnswers = 5;     // for the store to answer after a failure
constexpr double kStoreSilent = 30;     // for it to answer otherwise; ranks give up after 20
constexpr double kWorkdirAnswers =
    30;  // for LaunchOptions::workdir_problem, which may ask a file server
// Between two checks for a failure report from the ranks: normally, and after a failure.
constexpr double kReportPollInterval = 2, kFastReportPollInterval = 0.5;

// How one generation of ranks (all ranks between two restarts) ended on this node.
struct Outcome {
  int code = 0;
  bool complete = false;  // whether the run is complete: no rank ends with 0 before that
  int failed = 0;         // ranks that failed by themselves
};

// Returns workdir_problem(trained), or "" if the file server of the workdir does not answer in
// time: then the next ranks wait for it.
std::string answer_in_time(const std::function<std::string(bool)>& workdir_problem, bool trained) {
  std::packaged_task<std::string()> task(
      [workdir_problem, trained] { return workdir_problem(trained); });
  std::future<std::string> answer = task.get_future();
  std::thread(std::move(task)).detach();
  const auto limit = std::chrono::duration<double>(kWorkdirAnswers);
  return answer.wait_for(limit) == std::future_status::ready ? answer.get() : "";
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options);
  ~Launcher();
  int run();

 private:
  Store connect(const std::string& token);
  bool interrupted();
  int stopped_code() const { return failed_code_ != 0 ? failed_code_ : stop_code_; }
  int run_generations();
  void check_size(const std::vector<int>& sizes) const;
  void start_ranks(const std::vector<int>& sizes);
  Outcome await_ranks(Store& store);
  void handle_signals();
  void reap(Store& store);
  void publish_failure(Store& store, RankProcess& process);
  void read_report(Store& store);
  bool cannot_continue(Store& store, int code);
  void kill_reported();
  void kill_rest();
  void leave_stuck_ranks();
  bool running() const;

  const LaunchOptions options_;
  const RankLayout& layout_ = options_.layout;
  std::string address_, token_;
  int port_ = 0, generation_ = 0, first_world_ = 0, signals_ = -1;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<NodeCoordinator> coordinator_;
  std::vector<RankProcess> ranks_;
  RankOutput output_{ranks_, options_.hold_period};
  std::vector<int> failures_;  // of the ranks in each slot of this host, in all generations
  int code_ = 0;
  int failed_code_ = 0;  // of the generation before this one; 0: none, or it ended well here
  double failed_at_ = -1, failure_seen_at_ = -1;
  int stop_code_ = 0;     // of the signal that this process has received; 0: none
  bool trained_ = false;  // rank 0 has finished a step, in any generation
  sigset_t old_mask_{};
};

Launcher::Launcher(const LaunchOptions& options) : options_(options) {
  // Before the store starts its thread, so that the thread inherits the mask.
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGCHLD, SIGTSTP, SIGCONT})
    sigaddset(&mask, signal);
  if (ignores_hangup()) sigdelset(&mask, SIGHUP);  // the signalfd would report it nevertheless
  sigprocmask(SIG_BLOCK, &mask, &old_mask_);
  signals_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  check(signals_ >= 0, "signalfd: errno {}", errno);
  stop_code_ = static_cast<int>(stop_requested());  // a signal that arrived before

  token_ = !layout_.token.empty() ? layout_.token : layout_.nodes > 1 ? "nodes" : random_token();
  port_ = layout_.port;
  failures_.resize(static_cast<size_t>(layout_.local_size));
}

// Returns a connection to the run's store. Throws Interrupted if a signal arrives first.
Store Launcher::connect(const std::string& token) {
  const double limit = options_.startup_timeout;
  const Deadline deadline(
      limit + kStoreAnswers,
      fmt::format("[distributed] the store at {}:{} does not answer", address_, port_));
  WaitNotice notice;
  return {address_, port_, token, limit, [&] {
            if (notice.due())
              log::info("waiting for node 0 at {}:{} ({:g} s at most)", address_, port_, limit);
            return interrupted();
          }};
}

bool Launcher::interrupted() {
  handle_signals();
  return stop_code_ != 0;
}

Launcher::~Launcher() {
  ::close(signals_);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

void Launcher::start_ranks(const std::vector<int>& sizes) {
  const auto node = static_cast<size_t>(layout_.node);
  const int first = std::accumulate(sizes.begin(), sizes.begin() + static_cast<long>(node), 0);
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  // BVTRAIN_GROUP_NODE and _NODES count only nodes that have ranks.
  const auto has_ranks = [](int size) { return size > 0; };
  const auto nodes = std::count_if(sizes.begin(), sizes.end(), has_ranks);
  const auto before = std::count_if(sizes.begin(), sizes.begin() + layout_.node, has_ranks);
  if (generation_ == 0) first_world_ = world;
  const auto cpus = divide_cpus(allowed_cpus(), std::max(1, sizes[node]));
  const std::vector<int> slots = choose_slots(failures_, sizes[node]);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const int cores = available_cores();
  ranks_.assign(static_cast<size_t>(sizes[node]), {});
  output_.clear();
  for (int i = 0; i < sizes[node]; ++i) {
    RankProcess& process = ranks_[static_cast<size_t>(i)];
    process.rank = first + i;
    process.slot = slots.at(static_cast<size_t>(i));
    RankStart how;
    how.argv = options_.argv;
    how.cpus = cpus[static_cast<size_t>(i)];
    how.quiet = process.rank != 0 && !(layout_.nodes > 1 && i == 0);
    how.environment = {{"BVTRAIN_GROUP_RANK", std::to_string(process.rank)},
                       {"BVTRAIN_GROUP_SIZE", std::to_string(world)},
                       {"BVTRAIN_GROUP_LOCAL_RANK", std::to_string(i)},
                       {"BVTRAIN_GROUP_LOCAL_SIZE", std::to_string(sizes[node])},
                       {"BVTRAIN_GROUP_SLOT", std::to_string(process.slot)},
                       {"BVTRAIN_GROUP_DEVICES", std::to_string(layout_.host_devices)},
                       {"BVTRAIN_GROUP_NODE", std::to_string(before)},
                       {"BVTRAIN_GROUP_NODES", std::to_string(nodes)},
                       {"BVTRAIN_GROUP_STORE", address_.find(':') == std::string::npos
                                                   ? fmt::format("{}:{}", address_, port_)
                                                   : fmt::format("[{}]:{}", address_, port_)},
                       {"BVTRAIN_GROUP_TOKEN", fmt::format("{}.{}", token_, generation_)},
                       {"BVTRAIN_GROUP_RESTARTS", std::to_string(generation_)},
                       {"BVTRAIN_GROUP_FIRST_SIZE", std::to_string(first_world_)},
                       {"BVTRAIN_GROUP_FOUND_BY", layout_.found_by}};
    if (!threads || !*threads)
      how.environment["OMP_NUM_THREADS"] =
          std::to_string(threads_of_rank(how.cpus.size(), cores, sizes[node]));
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
    if (signal == SIGCHLD) continue;  // reap() checks all ranks
    if (signal != SIGTSTP && signal != SIGCONT)
      stop_code_ = signal == SIGUSR1 ? 75 : signal == SIGINT ? 130 : 143;
    for (const RankProcess& process : ranks_)
      if (process.pid > 0) ::kill(process.pid, signal == SIGTSTP ? SIGSTOP : signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);  // Ctrl-Z: stops all ranks, then the launcher
  }
}

// Notifies all ranks immediately that a rank of this host has failed.
void Launcher::publish_failure(Store& store, RankProcess& process) {
  if (failed_at_ < 0) failed_at_ = monotonic_seconds();
  // A rank that ends with an orderly code has notified the others itself. A rank that SIGTERM
  // killed had no signal handler yet and could not.
  if (process.killed_by_us() || (process.signal == 0 && orderly(process.code))) return;
  const FailureReport report =
      process.signal ? FailureReport{process.rank, "was killed by " + end_text(process)}
                     : FailureReport::of_end(process.rank, process.code, "");
  const Deadline deadline(kStoreAnswers, "[distributed] the launcher's store does not answer");
  try {
    store.exchange(kFailureKey, "", kNoFailure);
    store.exchange(kFailureKey, kNoFailure, report.text());
  } catch (const std::exception&) {
    // The store's host is gone, which the ranks detect themselves.
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
    // The first code counts, but code 7 only means that another rank failed, and a rank that
    // stopped on request has not failed.
    constexpr int kPeer = static_cast<int>(Exit::peer);
    const bool crashed = !orderly(process.code) && process.code != kPeer;
    if (!process.killed_by_us() && (code_ == 0 || code_ == kPeer || (crashed && orderly(code_))))
      code_ = process.code;
    publish_failure(store, process);
  }
}

// Reads which rank has failed, as ranks or launchers, possibly on other hosts, have reported it.
void Launcher::read_report(Store& store) {
  std::optional<FailureReport> failure;
  try {
    const Deadline deadline(kStoreSilent, "[distributed] the launcher's store does not answer");
    if (store.has({kFailureKey})) failure = FailureReport::parse(store.get(kFailureKey));
  } catch (const std::exception&) {
    if (failed_at_ < 0) failed_at_ = monotonic_seconds();  // no rank continues without the store
    return;
  }
  if (!failure) return;
  if (failure_seen_at_ < 0) failure_seen_at_ = monotonic_seconds();
  if (failed_at_ < 0)
    failed_at_ = monotonic_seconds();  // other ranks of this host may be stopped, too
  for (RankProcess& process : ranks_) process.reported |= process.rank == failure->rank;
}

// Whether a restart after `code` would start the run from the beginning. Says so in one line.
bool Launcher::cannot_continue(Store& store, int code) {
  const bool restarts = generation_ < options_.max_restarts && may_restart(code);
  if (layout_.node != 0 || !options_.workdir_problem || !restarts) return false;
  try {
    const Deadline deadline(kStoreAnswers, "[distributed] the launcher's store does not answer");
    const std::string key = heartbeat_key(0);
    const auto last = store.has({key}) ? Heartbeat::parse(store.get(key)) : std::nullopt;
    trained_ |= last && last->step >= 0;
  } catch (const std::exception&) {  // the step is not known
  }
  const std::string loss = answer_in_time(options_.workdir_problem, trained_);
  if (!loss.empty()) log::warn("not starting again: {}", loss);
  return !loss.empty();
}

// A rank that is stopped (SIGSTOP) does not exit by itself.
void Launcher::kill_reported() {
  if (failure_seen_at_ < 0 || monotonic_seconds() - failure_seen_at_ < kFailedRankGrace) return;
  for (RankProcess& process : ranks_)
    if (process.reported) kill_now(process);
}

void Launcher::kill_rest() {
  for (RankProcess& process : ranks_) kill_now(process);
}

// A process does not end while the kernel waits for a broken device or file system.
void Launcher::leave_stuck_ranks() {
  for (RankProcess& process : ranks_) {
    if (process.pid <= 0 || !process.killed_by_us()) continue;
    if (monotonic_seconds() - process.killed_at <= options_.kill_period) continue;
    const int pid = process.pid;
    log::warn(
        "rank {} (pid {}, state {}) did not end within {:g} s of SIGKILL; the launcher continues "
        "without it",
        process.rank, pid, leave_behind(process), options_.kill_period);
  }
}

Outcome Launcher::await_ranks(Store& store) {
  double last_look = monotonic_seconds();
  while (running()) {
    std::vector<pollfd> waiting{{signals_, POLLIN, 0}};
    for (const RankProcess& process : ranks_)
      if (process.stderr_fd >= 0) waiting.push_back({process.stderr_fd, POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 100);
    handle_signals();
    output_.pass(/*failed=*/failed_at_ >= 0);
    reap(store);
    if (failed_at_ >= 0 && monotonic_seconds() - failed_at_ > options_.grace_period) kill_rest();
    leave_stuck_ranks();
    const bool soon = failed_at_ >= 0 || failure_seen_at_ >= 0;
    if (monotonic_seconds() - last_look > (soon ? kFastReportPollInterval : kReportPollInterval)) {
      last_look = monotonic_seconds();
      read_report(store);
      kill_reported();
    }
  }
  // The loop above has not read the newest report if all ranks ended soon after it read the last
  // one. Only an elastic restart uses the report.
  if (failed_at_ >= 0 && options_.least_ranks > 0) read_report(store);
  output_.print_last();
  Outcome outcome;
  const bool killed_here =
      std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.killed_by_us(); });
  outcome.code = code_ == 0 && killed_here ? static_cast<int>(Exit::peer) : code_;
  outcome.complete = std::any_of(ranks_.begin(), ranks_.end(),
                                 [](const auto& r) { return r.code == 0 && !r.killed_by_us(); });
  // The run is complete, so it does not matter that ranks hung and were killed, or ended with 7.
  if (outcome.complete && outcome.code == static_cast<int>(Exit::peer)) outcome.code = 0;
  for (const RankProcess& process : ranks_) {
    // A rank that was killed only because it ended too slowly after another's failure has not
    // failed itself.
    const bool own_code = process.code != static_cast<int>(Exit::peer) && !process.killed_by_us();
    const bool failed = own_code || process.reported || process.left_behind;
    if (process.code == 0 || !failed) continue;
    ++outcome.failed;
    ++failures_[static_cast<size_t>(process.slot)];
  }
  return outcome;
}

// Throws if the number of ranks is wrong. It is known only after all nodes have joined.
void Launcher::check_size(const std::vector<int>& sizes) const {
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  check_open_files(ranks);
  const int least = options_.least_ranks, most = options_.most_ranks;
  if (least > 0 && (ranks < least || ranks > most))
    throw Error(Exit::usage, fmt::format("--elastic {}:{}", least, most),
                fmt::format("the run starts with {} ranks", ranks));
}

int Launcher::run() {
  console::drop_when_stalled();  // a waiting launcher would pass no signals to the ranks
  try {
    return run_generations();
  } catch (const Interrupted&) {
    return stopped_code();
  }
}

int Launcher::run_generations() {
  if (interrupted()) return stop_code_;
  address_ =
      await_address(layout_.address, layout_.nodes > 1, "--rendezvous " + layout_.address,
                    {.seconds = options_.startup_timeout, .own = layout_.node == 0, .stop = [this] {
                       return interrupted();
                     }});
  if (layout_.hosts_store) {
    server_ = std::make_unique<StoreServer>(address_, port_);
    port_ = server_->port();
  }
  coordinator_ = std::make_unique<NodeCoordinator>(layout_.node, layout_.nodes, connect(token_),
                                                   [this] { return interrupted(); });
  std::vector<int> sizes = coordinator_->sizes(layout_.local_size, options_.startup_timeout);
  if (sizes.empty()) return stop_code_;  // a signal arrived first
  check_size(sizes);
  while (true) {
    code_ = 0;
    failed_at_ = failure_seen_at_ = -1;
    Store store = connect(fmt::format("{}.{}", token_, generation_));
    store.exchange(kFailureKey, "", kNoFailure);
    if (interrupted()) return stopped_code();  // last check: later, the ranks would not be notified
    start_ranks(sizes);
    const Outcome outcome = await_ranks(store);
    const bool may_start_again = !outcome.complete && !cannot_continue(store, outcome.code);
    // With the code for `usage` no node starts again.
    const int answer = may_start_again ? outcome.code : static_cast<int>(Exit::usage);
    sizes = coordinator_->next(generation_, answer, outcome.failed, sizes, options_);
    if (sizes.empty()) return outcome.code;
    failed_code_ = outcome.code;
    ++generation_;
    const int here = sizes.at(static_cast<size_t>(layout_.node));
    log::warn("the ranks ended with code {}; starting again, {} of {}, with {} here", outcome.code,
              generation_, options_.max_restarts, counted(here, "rank"));
  }
}

}  // namespace

void parse_elastic(const std::string& text, LaunchOptions& options) {
  const size_t colon = text.find(':');
  options.least_ranks = options.most_ranks = 0;
  if (colon != std::string::npos) {
    options.least_ranks = parse_count<int>(std::string_view(text).substr(0, colon)).value_or(0);
    options.most_ranks = parse_count<int>(std::string_view(text).substr(colon + 1)).value_or(0);
  }
  if (options.least_ranks < 1 || options.most_ranks < options.least_ranks)
    throw Error(Exit::usage, "--elastic " + text, "expected MIN:MAX with 1 <= MIN <= MAX");
}

std::vector<int> choose_slots(const std::vector<int>& failures, int count) {
  std::vector<int> slots(failures.size());
  std::iota(slots.begin(), slots.end(), 0);
  std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) {
    return failures[static_cast<size_t>(a)] < failures[static_cast<size_t>(b)];
  });
  slots.resize(static_cast<size_t>(count));
  std::sort(slots.begin(), slots.end());
  return slots;
}

int launch(const LaunchOptions& options) {
  check(options.layout.launches, "launch() needs a layout with `launches`");
  return Launcher(options).run();
}

}  // namespace bv

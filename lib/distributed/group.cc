#include "lib/distributed/group.h"

#include <ATen/core/ivalue.h>

#include <csignal>
#include <thread>

#include "lib/device/cuda.h"
#include "lib/distributed/address.h"
#include "lib/distributed/group_impl.h"
#include "lib/distributed/nccl_environment.h"
#include "lib/distributed/nccl_impl.h"
#include "lib/distributed/open_files.h"
#include "lib/distributed/start_token.h"
#include "lib/distributed/store_impl.h"
#include "lib/distributed/wait_notice.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"

namespace bv {
namespace {

constexpr double kShutdownWait = 1;  // seconds to wait for other ranks while the group shuts down

// Adds this rank to `key` and waits at most `limit` seconds until all ranks have done so.
void arrive_and_wait(Store& store, const std::string& key, int size, double limit = kShutdownWait) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limit);
  store.add(key, 1);
  while (store.add(key, 0) < size && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 50 * size));
}

// Whether a collective runs on a device, over NCCL.
bool on_device(c10d::Work& work) { return !work.getFuture()->devices().empty(); }

// Adds a finished collective to the trace, on the Gloo thread that finished it. NCCL's work counts
// as done once it is queued on the device, so it gets no entry.
void trace_end(c10d::Work& work, const char* what, int64_t begun) {
  if (on_device(work)) return;
  work.getFuture()->addCallback([name = std::string(what), begun](c10::ivalue::Future&) {
    trace::add(name, begun, /*async=*/true);
  });
}

// The group of this process, from join() to finish(). Never destroyed: a process that exits without
// finish() must not wait for its threads.
std::shared_ptr<Group::Impl>& live_group() {
  static auto* group = new std::shared_ptr<Group::Impl>;
  return *group;
}

// Returns false if options.stop returned true. bvtrain's own launcher starts its ranks once all
// nodes have joined; with other launchers rank 0 may wait long, and says so.
bool await_others(Watch& watch, const RankLayout& layout, const GroupOptions& options) {
  WaitNotice notice;
  return watch.await_all([&] {
    const bool says = layout.rank == 0 && layout.store_host != StoreHost::launcher;
    if (says && notice.due())
      log::info("waiting for the other ranks ({:g} s at most)", options.timeouts.startup);
    return options.stop && options.stop();
  });
}

}  // namespace

struct Group::Pending::State {
  Group::Impl* group;
  WorkPointer work;
  int64_t number;
  const char* what;
  bool by_all;                   // as in Impl::begin()
  std::function<void()> finish;  // as in Impl::begin()
};

Group::Pending::Pending() = default;
Group::Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
Group::Pending::Pending(Pending&&) noexcept = default;
Group::Pending& Group::Pending::operator=(Pending&&) noexcept = default;
Group::Pending::~Pending() = default;

void Group::Pending::wait() {
  if (!state_) return;
  const auto state = std::move(state_);
  Watch& watch = *state->group->watch;
  // With NCCL, wait() makes only the stream wait. It blocks this thread only if the device's queue
  // is full.
  const bool of_device = on_device(*state->work);
  if (of_device)
    watch.await_device_begin();
  else
    watch.await_begin();
  trace::Span span("wait for ", state->what);
  try {
    state->work->wait();
  } catch (const std::exception& error) {
    // With NCCL an exception here is therefore a fault of this rank's own device, not of another
    // rank.
    if (of_device) {
      watch.await_device_end();
      throw;
    }
    watch.failed(state->number, state->what, error.what());
  }
  span.end();
  watch.await_end(state->by_all ? state->number : 0);
  if (state->finish) state->finish();
}

Group::Pending Group::Impl::begin(const char* what, double bytes_sent,
                                  const std::function<WorkPointer()>& start,
                                  std::function<void()> finish, bool by_all) {
  ++collectives;
  bytes += bytes_sent;
  const int64_t number = watch->begin(what);
  const int64_t begun = trace::on() ? trace::now() : 0;
  WorkPointer work = start();
  if (begun > 0) trace_end(*work, what, begun);
  return Pending(std::make_unique<Pending::State>(
      Pending::State{this, std::move(work), number, what, by_all, std::move(finish)}));
}

Group::Group(int rank, int size, std::shared_ptr<Impl> impl)
    : rank_(rank), size_(size), impl_(std::move(impl)) {}
Group::~Group() = default;

Group& Group::single() {
  static auto* group = new Group(0, 1, nullptr);
  return *group;
}

std::shared_ptr<Group> Group::planned(int size) {
  return std::shared_ptr<Group>(new Group(0, size, nullptr));
}

bool Group::communicates(const char* what) const {
  check(impl_ || size_ == 1, "{}: a collective of a group of {} that is not open", what, size_);
  return impl_ != nullptr;
}

std::shared_ptr<Group> Group::join(const RankLayout& layout, const GroupOptions& options) {
  if (layout.size == 1 && !options.even_alone)
    return {std::shared_ptr<Group>(), &single()};  // does not own it
  check(live_group() == nullptr, "a process joins one group");
  check_open_files(layout.size);
  // Writing to a rank that is gone must fail with an error, not end this process with SIGPIPE.
  struct sigaction broken_pipe {};
  if (::sigaction(SIGPIPE, nullptr, &broken_pipe) == 0 && broken_pipe.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_shared<Impl>();
  impl->layout = layout;
  impl->options = options;
  const double startup = options.timeouts.startup;
  // Of the ranks that wait for rank 0, one on each host says so.
  WaitNotice notice;
  const auto stop = [&] {
    if (layout.rank != 0 && layout.local_rank == 0 && notice.due())
      log::warn("waiting for rank 0 at {}:{} ({:g} s at most)", layout.address, layout.port,
                startup);
    return options.stop && options.stop();
  };
  const std::string where = "the run's store " + layout.address;
  const std::string address = await_address(layout.address, layout.nodes > 1, where,
                                            {.seconds = startup,
                                             .own = layout.node == 0,
                                             .says = layout.local_rank == 0,
                                             .stop = options.stop});
  if (layout.hosts_store) impl->server = std::make_unique<StoreServer>(address, layout.port);
  auto start = std::make_unique<StartToken>(layout, address, startup, stop);
  impl->layout.token = start->token();
  impl->watch = std::make_unique<Watch>(impl->layout, address, options.timeouts, stop);
  live_group() = impl;
  if (!await_others(*impl->watch, layout, options)) throw Interrupted{};
  start.reset();  // all ranks have the token
  impl->store = std::make_unique<Store>(address, layout.port, impl->layout.token, startup);

  const auto gloo = c10d::ProcessGroupGloo::Options::create(
      std::chrono::milliseconds(static_cast<int64_t>(startup * 1000)));
  gloo->threads = options.threads;
  // By address, because the host's own name may not resolve.
  gloo->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(local_address_towards(address, layout.port)));
  const int64_t number = impl->watch->begin("connect");
  impl->watch->await_begin();
  try {
    const auto& keys = impl->store->impl().keys;
    impl->cpu = c10::make_intrusive<c10d::ProcessGroupGloo>(keys, layout.rank, layout.size, gloo);
    if (options.cuda >= 0) {
      set_nccl_environment();
      auto* const make = cuda_function<MakeNccl>("bvtrain_cuda_nccl");
      make(keys, layout.rank, layout.size, options.cuda, impl->cuda);
    }
    // A rank that continues and fails immediately must not close connections that others are still
    // opening.
    arrive_and_wait(*impl->store, "connected", layout.size, startup);
  } catch (const std::exception& error) {
    impl->watch->failed(number, "connect", error.what());
  }
  impl->watch->await_end(number);
  return std::shared_ptr<Group>(new Group(layout.rank, layout.size, std::move(impl)));
}

void Group::note_step(int64_t step) {
  if (impl_) impl_->watch->note_step(step);
}

Group::Phase::Phase(Group& group, const std::string& name) : group_(group) {
  if (group_.impl_) outer_ = group_.impl_->watch->phase(name);
}

Group::Phase::~Phase() {
  if (group_.impl_) group_.impl_->watch->phase(outer_);
}

Group::DeviceWait::DeviceWait(Group& group, c10::Device device)
    : impl_(device.is_cpu() ? nullptr : group.impl_) {
  if (impl_) impl_->watch->await_device_begin();
}

Group::DeviceWait::~DeviceWait() {
  if (impl_) impl_->watch->await_device_end();
}

Group::Counts Group::counts() const {
  return impl_ ? Counts{impl_->collectives, static_cast<int64_t>(impl_->bytes)} : Counts{};
}

void Group::count_again(const Counts& repeated) {
  if (!impl_) return;
  impl_->collectives += repeated.collectives;
  impl_->bytes += static_cast<double>(repeated.bytes_sent);
}

void Group::finish(bool complete) {
  if (!impl_) return;
  const std::shared_ptr<Impl> impl = impl_;
  impl->watch->ending(complete);
  barrier("end");
  impl->watch->stop();
  try {
    // No rank may close a connection from which another still reads the last message of the
    // barrier.
    arrive_and_wait(*impl->store, "passed", size_);
    impl->close();
    // The store ends last: its host waits until all others no longer need it.
    if (impl->server)
      arrive_and_wait(*impl->store, "gone", size_);
    else
      impl->store->add("gone", 1);
  } catch (const std::exception&) {
    impl->close();  // the store's host ended first, which is harmless by now
  }
  impl->store.reset();
  impl->watch.reset();
  impl->server.reset();
  live_group().reset();
  impl_.reset();
}

// Why _exit: the other ranks have ended or are about to, so destructors that wait for a collective
// or for c10d's threads would never return.
void abort_group(Exit code, const std::string& line) {
  const std::shared_ptr<Group::Impl> impl = live_group();
  if (!impl) return;
  impl->watch->report_own_failure(static_cast<int>(code),
                                  line.substr(0, line.find('\n')).substr(0, 500));
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

}  // namespace bv

#include "lib/distributed/group.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "lib/device/cuda.h"
#include "lib/distributed/address.h"
#include "lib/distributed/nccl_impl.h"
#include "lib/distributed/open_files.h"
#include "lib/distributed/store_impl.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/trace.h"

namespace bv {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// c10d's own time-outs would end a collective that waits for a long phase; the Watch decides.
constexpr auto kNever = std::chrono::hours(24 * 30);
constexpr double kGoodbye = 1;  // seconds at the end to wait for those who leave later

template <class Options>
Options patient() {
  Options options;
  options.timeout = kNever;
  return options;
}

// Children of `rank` in the binomial tree of Gloo's broadcast from `root`.
int tree_children(int rank, int root, int size) {
  const int position = (rank - root + size) % size;
  int children = 0;
  for (int step = 1; step < size; step *= 2)
    if (position < step && position + step < size) ++children;
  return children;
}

// Adds this rank to `key` and waits, so many seconds at most, until all have done so.
void await_count(Store& store, const std::string& key, int size, double most = kGoodbye) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(most);
  store.add(key, 1);
  while (store.add(key, 0) < size && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 50 * size));
}

// Records when the collective is through, which one of Gloo's threads knows first. NCCL's work
// counts as done when it is queued on the device: nothing is said of that.
void trace_end(c10d::Work& work, const char* what, int64_t begun) {
  const auto future = work.getFuture();
  if (!future->devices().empty()) return;
  future->addCallback([name = std::string(what), begun](c10::ivalue::Future&) {
    trace::add(name, begun, /*apart=*/true);
  });
}

void check_flat(const at::Tensor& tensor, const char* what) {
  check(tensor.defined() && tensor.is_contiguous(), "{}: a collective needs a contiguous tensor",
        what);
}

}  // namespace

struct Group::Impl {
  RankLayout place;
  GroupOptions options;
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Watch> watch;
  std::unique_ptr<Store> store;
  c10::intrusive_ptr<c10d::Backend> cpu, cuda;  // Gloo; NCCL where ranks have CUDA devices
  int64_t collectives = 0;
  double bytes = 0;

  c10d::Backend& of(const at::Tensor& tensor) {
    check(tensor.is_cpu() || cuda, "a collective of tensors on {}", tensor.device().str());
    return tensor.is_cpu() ? *cpu : *cuda;
  }

  void close() {
    if (cuda) cuda->shutdown();
    cuda.reset();
    cpu.reset();
  }
  // Counts and names a collective, and starts it.
  Pending begin(const char* what, double bytes_sent, const std::function<WorkPointer()>& start,
                std::function<void()> finish = {}, bool by_all = true);
};

namespace {

// The process's group from join() to finish(). Never destroyed: a process that leaves without
// finish() must not wait for its threads.
std::shared_ptr<Group::Impl>& live_group() {
  static auto* group = new std::shared_ptr<Group::Impl>;
  return *group;
}

}  // namespace

struct Group::Pending::State {
  Group::Impl* group;
  WorkPointer work;
  int64_t number;
  const char* what;
  bool by_all;                   // can't end before all ranks joined
  std::function<void()> finish;  // on the waiting thread
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
  watch.await_begin();
  trace::Span span("wait for ", state->what);
  try {
    state->work->wait();
  } catch (const std::exception& error) {
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

std::shared_ptr<Group> Group::alone() { return std::shared_ptr<Group>(new Group(0, 1, nullptr)); }

std::shared_ptr<Group> Group::pretend(int size) {
  return std::shared_ptr<Group>(new Group(0, size, nullptr));
}

std::shared_ptr<Group> Group::join(const RankLayout& place, const GroupOptions& options) {
  if (place.size == 1 && !options.even_alone) return alone();
  check(live_group() == nullptr, "a process joins one group");
  check_open_files(place.size);
  // A peer that is gone is an error of the call, not a signal.
  struct sigaction broken_pipe {};
  if (::sigaction(SIGPIPE, nullptr, &broken_pipe) == 0 && broken_pipe.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
  auto impl = std::make_shared<Impl>();
  impl->place = place;
  impl->options = options;
  const double startup = options.bounds.startup;
  const std::string address =
      resolve(place.address, place.nodes > 1, "the run's store " + place.address);
  if (place.hosts_store) impl->server = std::make_unique<StoreServer>(address, place.port);
  impl->watch = std::make_unique<Watch>(place, address, options.bounds, options.stop);
  live_group() = impl;
  if (!impl->watch->await_all(options.stop)) throw Interrupted{};
  impl->store = std::make_unique<Store>(address, place.port, place.token, startup);

  const auto gloo = c10d::ProcessGroupGloo::Options::create(
      std::chrono::milliseconds(static_cast<int64_t>(startup * 1000)));
  gloo->threads = options.threads;
  // By address: the host's own name need not resolve.
  gloo->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(local_address_towards(address, place.port)));
  const int64_t number = impl->watch->begin("connect");
  impl->watch->await_begin();
  try {
    const auto& keys = impl->store->impl().keys;
    impl->cpu = c10::make_intrusive<c10d::ProcessGroupGloo>(keys, place.rank, place.size, gloo);
    if (options.cuda >= 0) {
      auto* const make = reinterpret_cast<MakeNccl*>(cuda_symbol("bvtrain_cuda_nccl"));
      make(keys, place.rank, place.size, options.cuda, impl->cuda);
    }
    // A rank that goes on, and fails at once, must not close connections that others still make.
    await_count(*impl->store, "connected", place.size, startup);
  } catch (const std::exception& error) {
    impl->watch->failed(number, "connect", error.what());
  }
  impl->watch->await_end(number);
  return std::shared_ptr<Group>(new Group(place.rank, place.size, std::move(impl)));
}

Group::Pending Group::all_reduce_sum(at::Tensor tensor, const char* what) {
  if (!impl_) return {};
  check_flat(tensor, what);
  const double sent = 2.0 * (size_ - 1) / size_ * static_cast<double>(tensor.nbytes());
  return impl_->begin(what, sent, [&] {
    std::vector<at::Tensor> tensors{tensor};
    return impl_->of(tensor).allreduce(tensors, patient<c10d::AllreduceOptions>());
  });
}

Group::Pending Group::reduce_scatter_sum(at::Tensor output, at::Tensor input, const char* what) {
  check_flat(output, what);
  check_flat(input, what);
  check(input.numel() == output.numel() * size_, "{}: {} elements for {} parts of {}", what,
        input.numel(), size_, output.numel());
  if (!impl_) {
    output.view(-1).copy_(input.view(-1));
    return {};
  }
  if (!input.is_cpu()) {
    const double sent = static_cast<double>(size_ - 1) * static_cast<double>(output.nbytes());
    return impl_->begin(what, sent, [&] {
      at::Tensor to = output.view(-1), from = input.view(-1);
      return impl_->of(input)._reduce_scatter_base(to, from, patient<c10d::ReduceScatterOptions>());
    });
  }
  // (size, part): row r is rank r's contribution to this rank's part.
  const at::Tensor rows = at::empty({size_, output.numel()}, output.options());
  const double sent = static_cast<double>(size_ - 1) * static_cast<double>(output.nbytes());
  return impl_->begin(
      what, sent,
      [&] {
        at::Tensor to = rows.view(-1), from = input.view(-1);
        std::vector<int64_t> equal;
        return impl_->cpu->alltoall_base(to, from, equal, equal, patient<c10d::AllToAllOptions>());
      },
      [rows, output, input] {
        const at::Tensor sum = output.view(-1);
        sum.copy_(rows[0]);
        for (int64_t r = 1; r < rows.size(0); ++r) sum.add_(rows[r]);
      });
}

Group::Pending Group::all_gather(at::Tensor output, at::Tensor input, const char* what) {
  check_flat(output, what);
  check_flat(input, what);
  check(output.numel() == input.numel() * size_, "{}: {} elements for {} parts of {}", what,
        output.numel(), size_, input.numel());
  if (!impl_) {
    if (output.data_ptr() != input.data_ptr()) output.view(-1).copy_(input.view(-1));
    return {};
  }
  const double sent = static_cast<double>(size_ - 1) * static_cast<double>(input.nbytes());
  return impl_->begin(what, sent, [&] {
    at::Tensor to = output.view(-1), from = input.view(-1);
    return impl_->of(output)._allgather_base(to, from, patient<c10d::AllgatherOptions>());
  });
}

void Group::broadcast(at::Tensor tensor, int root, const char* what) {
  if (!impl_) return;
  check_flat(tensor, what);
  const double sent = tree_children(rank_, root, size_) * static_cast<double>(tensor.nbytes());
  impl_
      ->begin(
          what, sent,
          [&] {
            auto broadcast = patient<c10d::BroadcastOptions>();
            broadcast.rootRank = root;
            std::vector<at::Tensor> tensors{tensor};
            return impl_->of(tensor).broadcast(tensors, broadcast);
          },
          {}, /*by_all=*/false)
      .wait();
}

std::vector<int64_t> Group::all_max(std::span<const int64_t> values, const char* what) {
  std::vector<int64_t> largest(values.begin(), values.end());
  if (!impl_ || largest.empty()) return largest;
  const at::Tensor tensor =
      at::from_blob(largest.data(), {static_cast<int64_t>(largest.size())}, at::kLong);
  const double sent = 2.0 * (size_ - 1) / size_ * static_cast<double>(tensor.nbytes());
  impl_
      ->begin(what, sent,
              [&] {
                auto reduce = patient<c10d::AllreduceOptions>();
                reduce.reduceOp = c10d::ReduceOp::MAX;
                std::vector<at::Tensor> tensors{tensor};
                return impl_->cpu->allreduce(tensors, reduce);
              })
      .wait();
  return largest;
}

std::vector<std::string> Group::gather_text(const std::string& text, const char* what) {
  if (!impl_) return {text};
  const int64_t length[] = {std::ssize(text)};
  const int64_t longest = all_max(length, what)[0];
  // Length, then the text, padded to the longest.
  const int64_t width = longest + 8;
  at::Tensor mine = at::zeros({width}, at::kByte), all = at::empty({size_ * width}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), length, 8);
  std::memcpy(mine.mutable_data_ptr<uint8_t>() + 8, text.data(), text.size());
  all_gather(all, mine, what).wait();
  std::vector<std::string> texts;
  for (int r = 0; r < size_; ++r) {
    const uint8_t* at = all.const_data_ptr<uint8_t>() + r * width;
    int64_t size = 0;
    std::memcpy(&size, at, 8);
    check(size >= 0 && size <= longest, "{}: rank {} sent {} bytes", what, r, size);
    texts.emplace_back(reinterpret_cast<const char*>(at) + 8, static_cast<size_t>(size));
  }
  return texts;
}

void Group::barrier(const char* what) {
  const int64_t nothing[] = {0};
  all_max(nothing, what);
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

int64_t Group::collectives() const { return impl_ ? impl_->collectives : 0; }
int64_t Group::bytes_sent() const { return impl_ ? static_cast<int64_t>(impl_->bytes) : 0; }

void Group::finish() {
  if (!impl_) return;
  const std::shared_ptr<Impl> impl = impl_;
  impl->watch->ending();
  barrier("end");
  impl->watch->stop();
  try {
    // Nobody closes a connection while another still reads the barrier's last message from it.
    await_count(*impl->store, "passed", size_);
    impl->close();
    // The store goes last: nobody waits any more but its host, for those that leave after it.
    if (impl->server)
      await_count(*impl->store, "gone", size_);
    else
      impl->store->add("gone", 1);
  } catch (const std::exception&) {
    impl->close();  // the store's host left first: nothing is lost any more
  }
  impl->store.reset();
  impl->watch.reset();
  impl->server.reset();
  live_group().reset();
  impl_.reset();
}

void leave_group(Exit code, const std::string& line) {
  const std::shared_ptr<Group::Impl> impl = live_group();
  if (!impl) return;
  impl->watch->accuse_self(fmt::format("ended with exit code {}: {}", static_cast<int>(code),
                                       line.substr(0, line.find('\n')).substr(0, 500)));
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

}  // namespace bv

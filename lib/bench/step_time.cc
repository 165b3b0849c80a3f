#include "lib/bench/step_time.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace bv {
namespace {

constexpr double kWordBytes = 40;   // the loss and the control word of a step
constexpr size_t kMaxInFlight = 1;  // reduce-scatters that may run when the next one starts

// Returns the seconds of one ring pass, in which each rank's 1/N of `bytes` reaches all other
// ranks.
double ring(double bytes, int ranks, const Link& link) {
  if (ranks == 1) return 0;
  return (ranks - 1) * (link.latency + bytes / ranks / link.bandwidth);
}

// Returns the seconds of an all-reduce along a double binary tree.
double tree(double bytes, int ranks, const Link& link) {
  if (ranks == 1) return 0;
  return 2 * (std::ceil(std::log2(ranks)) * link.latency + bytes / link.bandwidth);
}

struct RingShape {
  int inside, hosts;  // ranks on each host, number of hosts
};
RingShape shape(int ranks, const Machine& machine) {
  const int inside = std::min(ranks, machine.per_host);
  return {inside, (ranks + inside - 1) / inside};
}

// Simulates a step of one rank: tracks the time up to which the rank has computed (now_) and the
// time at which its collectives end (channel_).
class StepSimulation {
 public:
  StepSimulation(const StepWork& work, int ranks, const Machine& machine)
      : work_(work), ranks_(ranks), machine_(machine), gathered_(work.units.size()) {}

  StepTime run() {
    for (int i = 1; i <= work_.micro_batches; ++i) {
      first_ = i == 1;
      last_ = i == work_.micro_batches;
      forward();
      if (last_) launch(all_reduce_seconds(kWordBytes, ranks_, machine_));
      backward();
    }
    now_ = std::max(now_, channel_);  // the optimizer needs all gradients
    for (int i = 0; i < work_.norm_reduces; ++i)
      launch_and_wait(all_reduce_seconds(kWordBytes, ranks_, machine_));
    now_ += work_.update;
    for (const double bytes : work_.parameter_gathers)
      launch(all_gather_seconds(bytes, ranks_, machine_));
    now_ = std::max(now_, channel_);
    const double compute = work_.compute_seconds() * machine_.slowdown(ranks_);
    const double seconds = machine_.cores > 0 ? compute + sending_ : now_;
    return {seconds, seconds - compute, 0};
  }

 private:
  // Starts a collective and returns the time at which it ends.
  double launch(double seconds) {
    sending_ += seconds;
    return channel_ = std::max(channel_, now_) + seconds;
  }
  void launch_and_wait(double seconds) { now_ = launch(seconds); }
  double gather(double bytes) {
    return bytes > 0 ? launch(all_gather_seconds(bytes, ranks_, machine_)) : now_;
  }

  void forward() {
    const auto& units = work_.units;
    const double root = first_ ? gather(work_.root_bytes) : now_;
    if (!units.empty()) gathered_[0] = gather(units[0].bytes);
    now_ = std::max(now_, root) + work_.before / work_.micro_batches;
    for (size_t u = 0; u < units.size(); ++u) {
      now_ = std::max(now_, gathered_[u]);
      if (u + 1 < units.size()) gathered_[u + 1] = gather(units[u + 1].bytes);
      now_ += units[u].forward / work_.micro_batches;
    }
    now_ += work_.after / work_.micro_batches;
  }

  void backward() {
    const auto& units = work_.units;
    done_ = 0;
    next_ = 0;
    compute(work_.after * work_.backward);
    for (size_t u = units.size(); u-- > 0;) {
      now_ = std::max(now_, gathered_[u]);  // the last unit is still gathered from forward
      if (u > 0) gathered_[u - 1] = gather(units[u - 1].bytes);
      compute(units[u].forward * work_.backward);
    }
    compute(work_.before * work_.backward);
    while (next_ < work_.gradients.size()) send(work_.gradients[next_++]);
    while (!last_ && !reducing_.empty()) wait_for_oldest();
  }

  // Advances by `seconds` of backward (over all micro-batches), and sends the gradients that become
  // ready meanwhile.
  void compute(double seconds) {
    const double end = done_ + seconds;
    while (next_ < work_.gradients.size() && work_.gradients[next_].ready <= end) {
      const StepWork::Gradients& ready = work_.gradients[next_++];
      const double until = std::max(ready.ready - done_, 0.0);
      now_ += until / work_.micro_batches;
      done_ += until;
      send(ready);
    }
    now_ += (end - done_) / work_.micro_batches;
    done_ = end;
  }

  void send(const StepWork::Gradients& gradients) {
    if (!gradients.sharded) {
      if (last_) launch(all_reduce_seconds(gradients.bytes, ranks_, machine_));
      return;
    }
    while (reducing_.size() > kMaxInFlight) wait_for_oldest();
    reducing_.push_back(launch(reduce_scatter_seconds(gradients.bytes, ranks_, machine_)));
  }

  void wait_for_oldest() {
    now_ = std::max(now_, reducing_.front());
    reducing_.pop_front();
  }

  const StepWork& work_;
  const int ranks_;
  const Machine& machine_;
  double now_ = 0, channel_ = 0, sending_ = 0;
  bool first_ = true, last_ = true;  // micro-batch
  double done_ = 0;                  // seconds of backward, over all micro-batches
  size_t next_ = 0;                  // index into work_.gradients
  std::vector<double> gathered_;     // when each unit's parameters are gathered
  std::deque<double> reducing_;      // when the running reduce-scatters end
};

// Returns the bytes that a rank sends, as if all ranks were one ring. Counts in "halves": an
// all-gather or a reduce-scatter is half of an all-reduce.
double sent_bytes(const StepWork& work, int ranks) {
  double halves = 0;
  for (size_t u = 0; u < work.units.size(); ++u)
    halves += work.units[u].bytes * (u + 1 < work.units.size() ? 2 : 1);
  for (const auto& each : work.gradients) halves += each.sharded ? each.bytes : 0;
  halves = halves * work.micro_batches + work.root_bytes + 2 * kWordBytes * (1 + work.norm_reduces);
  for (const auto& each : work.gradients) halves += each.sharded ? 0 : 2 * each.bytes;
  for (const double bytes : work.parameter_gathers) halves += bytes;
  return halves * (ranks - 1) / ranks;
}

}  // namespace

double Machine::slowdown(int ranks) const {
  if (cores == 0) return 1;
  return std::max(1.0, static_cast<double>(std::min(ranks, per_host)) / cores);
}

double all_reduce_seconds(double bytes, int ranks, const Machine& machine) {
  const auto [inside, hosts] = shape(ranks, machine);
  const double own = bytes / inside;
  return 2 * ring(bytes, inside, machine.inside) +
         std::min(2 * ring(own, hosts, machine.between), tree(own, hosts, machine.between));
}

double reduce_scatter_seconds(double bytes, int ranks, const Machine& machine) {
  const auto [inside, hosts] = shape(ranks, machine);
  return ring(bytes, inside, machine.inside) + ring(bytes / inside, hosts, machine.between);
}

double all_gather_seconds(double bytes, int ranks, const Machine& machine) {
  return reduce_scatter_seconds(bytes, ranks, machine);
}

double StepWork::forward_seconds() const {
  double sum = before + after;
  for (const Unit& unit : units) sum += unit.forward;
  return sum;
}

double StepWork::compute_seconds() const { return forward_seconds() * (1 + backward) + update; }

StepTime predict_step(const StepWork& work, int ranks, const Machine& machine) {
  if (ranks == 1) return {work.compute_seconds(), 0, 0};
  StepTime time = StepSimulation(work, ranks, machine).run();
  time.sent = sent_bytes(work, ranks);
  return time;
}

}  // namespace bv

#include "lib/bench/cost.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace bv {
namespace {

constexpr double kWordBytes = 40;  // loss and control word of a step
constexpr size_t kUnderWay = 1;    // sums on one rank under way, besides the one that begins

// A ring in which `ranks` each pass on their part of `bytes` to all others.
double ring(double bytes, int ranks, const Link& link) {
  if (ranks == 1) return 0;
  return (ranks - 1) * (link.latency + bytes / ranks / link.bandwidth);
}

double tree(double bytes, int ranks, const Link& link) {
  if (ranks == 1) return 0;
  return 2 * (std::ceil(std::log2(ranks)) * link.latency + bytes / link.bandwidth);
}

struct RingShape {
  int inside, hosts;
};
RingShape shape(int ranks, const Machine& machine) {
  const int inside = std::min(ranks, machine.per_host);
  return {inside, (ranks + inside - 1) / inside};
}

// Walks through a step of one rank: the time it computes at, and when its collectives end.
class Walk {
 public:
  Walk(const StepWork& work, int ranks, const Machine& machine)
      : work_(work), ranks_(ranks), machine_(machine), got_(work.units.size()) {}

  StepTime run() {
    for (int part = 1; part <= work_.parts; ++part) {
      first_ = part == 1;
      last_ = part == work_.parts;
      forward();
      if (last_) launch(all_reduce_seconds(kWordBytes, ranks_, machine_));
      backward();
    }
    now_ = std::max(now_, channel_);  // the optimizer needs all gradients
    for (int i = 0; i < work_.words; ++i) await(all_reduce_seconds(kWordBytes, ranks_, machine_));
    now_ += work_.update;
    for (const double bytes : work_.spread) launch(all_gather_seconds(bytes, ranks_, machine_));
    now_ = std::max(now_, channel_);
    const double compute = work_.compute_seconds() * machine_.slowdown(ranks_);
    const double seconds = machine_.cores > 0 ? compute + sending_ : now_;
    return {seconds, seconds - compute, 0};
  }

 private:
  double launch(double seconds) {
    sending_ += seconds;
    return channel_ = std::max(channel_, now_) + seconds;
  }
  void await(double seconds) { now_ = launch(seconds); }
  double gather(double bytes) {
    return bytes > 0 ? launch(all_gather_seconds(bytes, ranks_, machine_)) : now_;
  }

  void forward() {
    const auto& units = work_.units;
    const double rest = first_ ? gather(work_.rest_bytes) : now_;
    if (!units.empty()) got_[0] = gather(units[0].bytes);
    now_ = std::max(now_, rest) + work_.before / work_.parts;
    for (size_t u = 0; u < units.size(); ++u) {
      now_ = std::max(now_, got_[u]);
      if (u + 1 < units.size()) got_[u + 1] = gather(units[u + 1].bytes);
      now_ += units[u].forward / work_.parts;
    }
    now_ += work_.after / work_.parts;
  }

  void backward() {
    const auto& units = work_.units;
    done_ = 0;
    next_ = 0;
    compute(work_.after * work_.backward);
    for (size_t u = units.size(); u-- > 0;) {
      now_ = std::max(now_, got_[u]);  // the last unit is still there
      if (u > 0) got_[u - 1] = gather(units[u - 1].bytes);
      compute(units[u].forward * work_.backward);
    }
    compute(work_.before * work_.backward);
    while (next_ < work_.gradients.size()) send(work_.gradients[next_++]);
    while (!last_ && !scattering_.empty()) settle();
  }

  // A piece of backward, in which gradients become ready.
  void compute(double seconds) {
    const double end = done_ + seconds;
    while (next_ < work_.gradients.size() && work_.gradients[next_].ready <= end) {
      const StepWork::Gradients& ready = work_.gradients[next_++];
      const double until = std::max(ready.ready - done_, 0.0);
      now_ += until / work_.parts;
      done_ += until;
      send(ready);
    }
    now_ += (end - done_) / work_.parts;
    done_ = end;
  }

  void send(const StepWork::Gradients& gradients) {
    if (!gradients.scattered) {
      if (last_) launch(all_reduce_seconds(gradients.bytes, ranks_, machine_));
      return;
    }
    while (scattering_.size() > kUnderWay) settle();
    scattering_.push_back(launch(reduce_scatter_seconds(gradients.bytes, ranks_, machine_)));
  }

  void settle() {
    now_ = std::max(now_, scattering_.front());
    scattering_.pop_front();
  }

  const StepWork& work_;
  const int ranks_;
  const Machine& machine_;
  double now_ = 0, channel_ = 0, sending_ = 0;
  bool first_ = true, last_ = true;  // part
  double done_ = 0;                  // of backward, in seconds of computing were it one
  size_t next_ = 0;                  // of gradients
  std::vector<double> got_;          // when each unit's parameters are there
  std::deque<double> scattering_;    // ends
};

// Bytes by a rank: a ring's, whatever the hosts.
double sent_bytes(const StepWork& work, int ranks) {
  double halves = 0;
  for (size_t u = 0; u < work.units.size(); ++u)
    halves += work.units[u].bytes * (u + 1 < work.units.size() ? 2 : 1);
  for (const auto& each : work.gradients) halves += each.scattered ? each.bytes : 0;
  halves = halves * work.parts + work.rest_bytes + 2 * kWordBytes * (1 + work.words);
  for (const auto& each : work.gradients) halves += each.scattered ? 0 : 2 * each.bytes;
  for (const double bytes : work.spread) halves += bytes;
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
  StepTime time = Walk(work, ranks, machine).run();
  time.sent = sent_bytes(work, ranks);
  return time;
}

}  // namespace bv

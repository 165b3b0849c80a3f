// Predicts how long a training step of many processes takes, from sizes, bandwidths and latencies.
// Pure functions of numbers; docs/scaling.md explains the model.
//
// A collective is a ring: each of N ranks sends N - 1 messages of 1/N of the bytes (an all-reduce
// twice as many). If the ranks are on several hosts, the ring runs within each host first; then
// each rank reduces or gathers its 1/per_host of the bytes with the ranks in the same position on
// the other hosts; then the ring runs within the host again. Between hosts an all-reduce may also
// use a double binary tree, whose latency grows with the logarithm of the number of hosts (NCCL has
// both). Collectives run one at a time, in the order in which they are started.
#pragma once

#include <vector>

namespace bv {

struct Link {
  double bandwidth = 0;  // bytes per second that each rank sends while it receives as many
  double latency = 0;    // seconds for one message, however small
};

struct Machine {
  Link inside;        // between the ranks of a host
  Link between = {};  // between hosts: one rank's share of the network
  int per_host = 1;   // ranks per host
  // If > 0, the ranks of a host share this many CPU cores. With more ranks than cores on a host,
  // computation takes (ranks on the host) / cores times as long. Communication does not overlap
  // with computation, because both need the cores. Measure the links with the same number of ranks.
  int cores = 0;

  // Returns the factor by which computing takes longer with `ranks` ranks in total.
  double slowdown(int ranks) const;
};

// Return the seconds of one collective while nothing else runs. `bytes` is the size of the full
// tensor on one rank.
double all_reduce_seconds(double bytes, int ranks, const Machine& machine);
double reduce_scatter_seconds(double bytes, int ranks, const Machine& machine);
double all_gather_seconds(double bytes, int ranks, const Machine& machine);

// The work of one rank in a training step of lib/train: how many seconds each computation takes on
// one device, and how many bytes each collective has.
struct StepWork {
  // A unit of the model, whose parameters may be sharded.
  struct Unit {
    double forward = 0;  // seconds for all micro-batches; backward takes `backward` times as long
    double bytes = 0;    // of its sharded parameters
  };
  // Gradients that are reduced together.
  struct Gradients {
    double bytes = 0;
    double ready = 0;  // seconds of backward after which they are ready, for all micro-batches
    // true: a reduce-scatter in each micro-batch; false: an all-reduce in the last one.
    bool sharded = false;
  };
  std::vector<Unit> units;
  int micro_batches = 1;             // grad_accum_steps
  double before = 0, after = 0;      // seconds of forward before and after the units
  double root_bytes = 0;             // sharded parameters outside all units: gathered once
  double backward = 2;               // seconds of backward for each second of forward
  std::vector<Gradients> gradients;  // in the order in which they are ready
  double update = 0;                 // seconds of the optimizer on this rank
  // Bytes of each all-gather after the update (zero1, zero2).
  std::vector<double> parameter_gathers;
  int norm_reduces = 0;  // small all-reduces that the update waits for

  double forward_seconds() const;
  double compute_seconds() const;  // forward, backward and update
};

struct StepTime {
  double seconds = 0;
  double exposed = 0;  // seconds in which nothing is computed
  double sent = 0;     // bytes that one rank sends
};
StepTime predict_step(const StepWork& work, int ranks, const Machine& machine);

}  // namespace bv

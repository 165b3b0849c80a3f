// How long a step of many processes takes: a prediction from sizes, bandwidths and latencies. Pure
// functions of numbers.
//
// Collectives are rings: N ranks pass a message on N - 1 times (twice that for a sum on all), each
// time 1/N of the bytes. Where ranks lie on several hosts: first within each host, then each rank
// sums or gathers its 1/per_host with those in its place on the other hosts, then within the host
// again. A sum between hosts may also go along a double binary tree, whose latency grows with the
// logarithm of the hosts (NCCL has both). One collective runs at a time, in the order of launch.
#pragma once

#include <vector>

namespace bv {

struct Link {
  double bandwidth = 0;  // bytes a second that each rank sends, and receives at the same time
  double latency = 0;    // seconds of passing one message on, however small
};

struct Machine {
  Link inside;        // a host
  Link between = {};  // hosts: of a rank's share of the network
  int per_host = 1;   // ranks
  // > 0: the ranks of a host share so many cores. Computing takes ranks / cores times as long then,
  // and sending takes from it: nothing overlaps. The links are as measured with as many ranks.
  int cores = 0;

  // How much longer computing takes with `ranks` in all.
  double slowdown(int ranks) const;
};

// Seconds, with nothing else going on. `bytes`: of the whole on a rank.
double all_reduce_seconds(double bytes, int ranks, const Machine& machine);
double reduce_scatter_seconds(double bytes, int ranks, const Machine& machine);
double all_gather_seconds(double bytes, int ranks, const Machine& machine);

// A step, as lib/train does it: seconds of computing on one device, and what is sent when.
struct StepWork {
  // A part of the model whose parameters may be sharded. Backward takes `backward` times forward.
  struct Unit {
    double forward = 0;
    double bytes = 0;  // of its sharded parameters
  };
  // Gradients that leave together, `ready` seconds of computing after backward began, were it one.
  // Scattered ones leave in each part, the others in the last.
  struct Gradients {
    double bytes = 0;
    double ready = 0;
    bool scattered = false;  // each rank gets its part; else all get the sum
  };
  std::vector<Unit> units;
  int parts = 1;                 // of a rank's examples, forward and backward one after the other
  double before = 0, after = 0;  // forward of what lies before and behind the units
  double rest_bytes = 0;         // sharded parameters that belong to no unit: gathered first
  double backward = 2;
  std::vector<Gradients> gradients;  // in the order in which they are ready
  double update = 0;                 // of the optimizer, by this rank
  std::vector<double> spread;        // bytes of what all ranks gather behind the update
  int words = 0;                     // small sums that all wait for: norms

  double forward_seconds() const;
  double compute_seconds() const;  // forward, backward, update
};

struct StepTime {
  double seconds = 0;
  double exposed = 0;  // of which nothing is computed
  double sent = 0;     // bytes by a rank
};
StepTime predict_step(const StepWork& work, int ranks, const Machine& machine);

}  // namespace bv

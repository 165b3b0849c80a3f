// The command line: flags, subcommands, environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace bv {

enum class DryRun { no, quick, full };

struct Arguments {
  enum class Verb { train, export_weights, predict, bench } verb = Verb::train;
  std::vector<std::string> argv;
  std::string config, workdir, devices = "auto";
  std::string launcher = "auto";   // auto, none, self, env, slurm, mpi
  int nnodes = 1, node_rank = -1;  // node_rank -1: not given
  std::string rendezvous;          // HOST:PORT of node 0
  int max_restarts = 0;
  std::string elastic;              // MIN:MAX ranks after a restart
  std::vector<Override> overrides;  // --set a.b=v, --config.a.b=v
  DryRun dry_run = DryRun::no;
  bool synthetic = false, cleanup = false, explain = false, version = false;
  std::string list;                    // --list KIND
  std::string format = "npz", output;  // export
  std::string image_size;
  double seconds = 5;    // bench: per measurement
  std::string bench;     // "", "collectives", "scaling"
  int64_t most_mb = 64;  // bench collectives: the largest size
  // bench scaling: of one device, of the links inside a host and between hosts.
  struct Scaling {
    std::vector<int64_t> processes = {1, 8, 16, 32, 64, 128, 256, 512, 1024};
    int64_t examples = 0;                              // of one process; 0: batch_size divided
    double compute_ms = 0, tflops = 0, update_ms = 0;  // 0: not given
    double bandwidth_gb = 0, latency_us = 0, network_gb = 0, network_us = 0;
    int per_host = 8, cores = 0;
  } scaling;
  // predict
  std::vector<std::string> inputs;
  std::optional<std::string> pp;
  std::string outputs = "logits", eval;
  int64_t batch_size = 64, top = 5, first = 0;
  bool ema = false;
};

// Throws Error(Exit::usage) for a bad command line. --help prints and returns false.
bool parse_arguments(int argc, char** argv, Arguments& arguments);

}  // namespace bv

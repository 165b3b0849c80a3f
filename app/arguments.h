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
  double seconds = 5;  // bench: per measurement
  // predict
  std::vector<std::string> inputs;
  std::optional<std::string> pp;
  std::string outputs = "logits";
  int64_t batch_size = 64, top = 5;
  bool ema = false;
};

// Throws Error(Exit::usage) for a bad command line. --help prints and returns false.
bool parse_arguments(int argc, char** argv, Arguments& arguments);

}  // namespace bv

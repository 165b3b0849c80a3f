// The command line: subcommands and flags, some of which may come from the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/load_config.h"
#include "lib/help/command_line.h"

namespace bv {

enum class DryRun { no, quick, full };

struct Arguments {
  enum class Verb {
    train,
    export_weights,
    predict,
    eval,
    replay,
    bench,
    compare,
    ckpt,
    data,
    init,
    help,
    schema,
    completion
  } verb = Verb::train;
  std::vector<std::string> argv;  // as given
  bool version = false;
  // Whether the command trains. A signal may interrupt training only between two steps.
  bool trains() const {
    return verb == Verb::train && !version && list.empty() && dry_run == DryRun::no && !explain;
  }
  std::string list;   // --list KIND
  bool json = false;  // print JSON; training itself has no such output
  std::string part;   // the second word of the verb: "scaling" of bench scaling, "ls" of ckpt ls

  // Shared by several verbs.
  std::string config, workdir;
  std::vector<Override> overrides;  // --set a.b=v, --config.a.b=v
  std::string devices = "auto";
  bool synthetic = false;
  bool ema = false;    // export, predict, ckpt average: the averaged weights
  bool best = false;   // export, predict, eval: the best checkpoint, which `workdir` then names
  std::string output;  // export, predict, init, ckpt average, data check
  std::string format;  // export, predict; empty: the suffix of `output` decides

  // train
  DryRun dry_run = DryRun::no;
  bool cleanup = false, explain = false;
  bool debug_on_crash = false;     // a crashed process waits for gdb
  bool accept_changes = false;     // continue a run although its config has changed
  std::string launcher = "auto";   // auto, none, self, env, slurm, mpi
  int nnodes = 1, node_rank = -1;  // -1: not given
  std::string rendezvous;          // HOST:PORT of node 0
  int max_restarts = 0;
  std::string max_time;  // 47h50m; empty: no limit
  bool requeue = false;  // after code 75, requeue the slurm job
  std::string elastic;   // MIN:MAX: numbers of ranks that a restart may have

  // export
  std::string image_size;  // HEIGHT,WIDTH[,CHANNELS]

  // predict
  std::vector<std::string> inputs;
  std::optional<std::string> pp;
  std::string outputs = "logits", eval, weights;
  int64_t batch_size = 64, first = 0;
  int64_t top = 0;  // 0: not given

  // compare
  struct Compare {
    std::vector<std::string> paths;    // workdirs, folders of workdirs, globs
    std::string sort, better;          // a metric; "higher", "lower" or "": by its name
    bool best = false, last = false;   // which value of a metric counts
    std::vector<std::string> metrics;  // further columns
    std::string format = "text", html;
  } compare;

  // eval
  struct Evaluate {
    bool follow = false, once = false;
    int64_t step = -1;  // -1: not given
  } evaluate;

  // replay
  struct Replay {
    std::string folder;  // of a bad step; empty: the run in `workdir` is repeated
    int64_t steps = 0;   // 0: to the end of the run
  } replay;

  // ckpt
  struct Ckpt {
    std::string path, other;         // a workdir or a checkpoint; diff compares it with `other`
    std::vector<std::string> paths;  // verify
    std::vector<int64_t> steps;
    int64_t last = 0, top = 10;  // last: 0 if not given
    bool all_but_newest = false, dry_run = false;
  } ckpt;

  // data
  struct Data {
    std::string folder;             // instead of `config`
    std::vector<std::string> only;  // "input", "evals.val"; empty: all
    int threads = 0;                // 0: the cores of this process
    bool pp = false;
  } data;

  // init
  struct Init {
    std::string folder, from;  // from: weights, or ""
    std::vector<std::string> label;
    std::string task = "classify";
  } init;

  // help
  struct Help {
    std::vector<std::string> words;
    bool man = false;
    std::string reference;  // a folder
  } help;
  std::string shell;  // completion

  // bench
  double seconds = 5;                                // of each measurement
  int64_t most_mb = 64;                              // bench collectives: the largest message, MiB
  std::vector<std::string> gpus = {"H100", "H200"};  // bench operators
  // bench scaling: a device, and the links within a host and between hosts. 0: not given.
  struct Scaling {
    std::vector<int64_t> processes = {1, 8, 16, 32, 64, 128, 256, 512, 1024};
    int64_t examples = 0;  // per process; 0: batch_size / processes
    double compute_ms = 0, tflops = 0, update_ms = 0;
    double bandwidth_gb = 0, latency_us = 0, network_gb = 0, network_us = 0;
    int per_host = 8, cores = 0;
  } scaling;
};

// Fills `arguments`. Returns false after printing the text of --help. Throws Error(Exit::usage) for
// a bad command line.
bool parse_arguments(int argc, char** argv, Arguments& arguments);

// Returns all commands and flags that parse_arguments() knows.
CommandLine command_line();

}  // namespace bv

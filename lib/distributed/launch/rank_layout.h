// Where this process stands among the ranks of a run, from flags and the launcher's environment.
#pragma once

#include <map>
#include <string>

#include "lib/device/devices.h"

namespace bv {

using EnvironmentMap = std::map<std::string, std::string>;
EnvironmentMap environment_map();  // of this process

struct RankLayoutOptions {
  std::string launcher = "auto";  // --launcher auto|none|self|env|slurm|mpi
  Devices devices;                // --devices
  int nnodes = 1;                 // --nnodes
  int node_rank = -1;             // --node-rank; -1: not given
  std::string rendezvous;         // --rendezvous host:port; "": not given
};

// Throws Error(Exit::usage) for what is wrong with the flags whatever the environment holds.
void check_options(const RankLayoutOptions& options);

// Who answers at address:port.
enum class StoreHost { rank0, launcher, torchrun };

struct RankLayout {
  int rank = 0, size = 1;              // of all ranks
  int local_rank = 0, local_size = 1;  // on this host; with `launches` the processes to start
  int node = 0, nodes = 1;
  std::string found_by = "none";  // none, self, torchrun, slurm, mpi, rendezvous
  std::string address;            // of the store, as found (a name or a numeric address)
  int port = 0;                   // 0 with `launches` on one host: any free one
  std::string token;              // keys of this run lie under it
  StoreHost store_host = StoreHost::rank0;
  bool hosts_store = false;  // this process binds it: rank 0 where store_host is rank0
  bool launches = false;     // this process starts local_size ranks and is none itself
  int restarts = 0;          // how often our launcher started the group again
  int first_size = 0;        // ranks that it started at first; 0: not told
};

// The first that fits: our own launcher's variables; torchrun's (RANK, WORLD_SIZE, ...); mpirun's
// (OMPI_COMM_WORLD_*, PMI_*) unless they agree with slurm's; a slurm step of more than one task;
// then the flags. `options.launcher` picks one instead. An outside group of one rank is no group.
// Pure: reads nothing but its arguments. Throws Error(Exit::usage) "RANK=7: error: ..." naming the
// variable and its value, for what is not a number, out of range, or there in half.
RankLayout find_rank_layout(const RankLayoutOptions& options, const EnvironmentMap& environment);

// "rank 1 of 4, node 0 of 2, found by torchrun (RANK, WORLD_SIZE), store at n1:29500"
std::string describe(const RankLayout& place);

struct HostPort {
  std::string host;
  int port = 0;
};
// "n1:29500", "10.0.0.1:29500", "[fe80::1]:29500". Throws Error(Exit::usage) naming `where`.
HostPort parse_host_port(const std::string& text, const std::string& where);

}  // namespace bv

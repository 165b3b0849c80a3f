// The position of this process among the ranks of a run, from flags and the launcher's environment.
#pragma once

#include <map>
#include <string>

#include "lib/device/devices.h"

namespace bv {

using EnvironmentMap = std::map<std::string, std::string>;
// Returns the environment variables of this process.
EnvironmentMap environment_map();

// The flags that the search for a layout depends on.
struct RankLayoutOptions {
  std::string launcher = "auto";  // --launcher auto|none|self|env|slurm|mpi
  Devices devices;                // --devices
  int nnodes = 1;                 // --nnodes
  int node_rank = -1;             // --node-rank; -1: not given
  std::string rendezvous;         // --rendezvous host:port; "": not given
};

// Throws Error(Exit::usage) for flags that are wrong in any environment.
void check_options(const RankLayoutOptions& options);

// Which process runs the store at RankLayout::address.
enum class StoreHost { rank0, launcher, torchrun };

struct RankLayout {
  int rank = 0, size = 1;              // among all ranks
  int local_rank = 0, local_size = 1;  // on this host; with `launches`, the processes to start
  // HostPlace::slot. Set by bvtrain's launcher only; -1 under other launchers.
  int slot = -1;
  int host_devices = 0;  // HostPlace::devices
  int node = 0, nodes = 1;
  // What the layout was taken from: none, self, torchrun, slurm, mpi or rendezvous.
  std::string found_by = "none";
  std::string address;  // of the store: a name or a numeric address
  int port = 0;         // of the store; 0 (with `launches` on one host): any free port
  // Prefix of this run's keys in the store. With torchrun each start adds to it (start_token.h).
  std::string token;
  StoreHost store_host = StoreHost::rank0;
  bool hosts_store = false;  // this process runs the store, e.g. rank 0 with StoreHost::rank0
  bool launches = false;     // this process starts local_size ranks and is not a rank itself
  int restarts = 0;    // how often bvtrain's launcher has restarted the group, or torchrun's agent
  int first_size = 0;  // ranks of the first start by that launcher; 0: unknown

  HostPlace place() const { return {local_rank, slot >= 0 ? slot : local_rank, host_devices}; }
};

// Returns the first of these that applies: the variables of bvtrain's own launcher; those of
// torchrun (RANK, WORLD_SIZE, ...); those of mpirun (OMPI_COMM_WORLD_*, PMI_*), unless they agree
// with slurm's; a slurm step of more than one task; the flags. options.launcher selects one of
// them. An external group of one rank does not count as a group. Reads nothing but its arguments,
// except that it checks whether 127.0.0.1 can be bound. Throws Error(Exit::usage) "RANK=7: error:
// ..." naming the variable and its value if it is not a number, if it is out of range, or if others
// that belong to it are missing.
RankLayout find_rank_layout(const RankLayoutOptions& options, const EnvironmentMap& environment);

// Returns "rank 1 of 4, node 0 of 2, found by torchrun (RANK, WORLD_SIZE), store at n1:29500".
std::string describe(const RankLayout& layout);

struct HostPort {
  std::string host;
  int port = 0;
};
// Parses "n1:29500", "10.0.0.1:29500" or "[fe80::1]:29500". Throws Error(Exit::usage) naming
// `where`.
HostPort parse_host_port(const std::string& text, const std::string& where);

}  // namespace bv

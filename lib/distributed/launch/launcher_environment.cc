#include "lib/distributed/launch/launcher_environment.h"

#include <charconv>

#include "lib/distributed/address.h"
#include "lib/distributed/launch/hostlist.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int kMostPort = 65535;

// Whether `step` is the number of a step that srun started, such as "0". The batch script, the
// interactive step and the extern step have numbers from 4294967290 on.
bool is_srun_step(const std::string& step) {
  return !step.empty() && step.size() < 10 &&
         step.find_first_not_of("0123456789") == std::string::npos;
}

// Returns the port in MASTER_PORT, or `fallback` if that is not set.
int master_port(const Environment& environment, int fallback) {
  return environment.number("MASTER_PORT", 1, kMostPort).value_or(fallback);
}

int node_of(const Environment& environment, const std::string& name, int rank, int local_size) {
  return environment.number(name, 0, kMostRanks - 1).value_or(rank / std::max(1, local_size));
}

}  // namespace

std::optional<std::string> Environment::find(const std::string& name) const {
  const auto found = map_.find(name);
  if (found == map_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::string Environment::text(const std::string& name, const std::string& fallback) const {
  return find(name).value_or(fallback);
}

std::string Environment::first(const std::vector<std::string>& names) const {
  for (const std::string& name : names)
    if (const auto value = find(name)) return *value;
  return "";
}

std::optional<int> Environment::number(const std::string& name, int low, int high) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  int parsed = 0;
  const char* end = value->data() + value->size();
  const auto [at, error] = std::from_chars(value->data(), end, parsed);
  if (error != std::errc() || at != end)
    throw Error(Exit::usage, shown(name, *value), "expected an integer");
  if (parsed < low || parsed > high)
    throw Error(Exit::usage, shown(name, *value),
                fmt::format("expected a number from {} to {}", low, high));
  return parsed;
}

int Environment::required(const std::string& name, int low, int high, std::string_view of) const {
  if (const auto value = number(name, low, high)) return *value;
  throw Error(Exit::usage, name, fmt::format("is not set, although others of {} are", of));
}

std::string shown(const std::string& name, std::string_view value) {
  return fmt::format("{}={}", name, value.substr(0, 200));
}

void check_rank(const std::string& rank_name, int rank, const std::string& size_name, int size) {
  if (rank >= size)
    throw Error(Exit::usage, shown(rank_name, std::to_string(rank)),
                fmt::format("must be below {}={}", size_name, size));
}

int derived_port(std::string_view job) { return 10000 + static_cast<int>(hash64(job) % 20000); }

std::optional<RankLayout> own_launcher_layout(const Environment& environment) {
  if (!environment.has("BVTRAIN_GROUP_RANK") && !environment.has("BVTRAIN_GROUP_SIZE"))
    return std::nullopt;
  const auto required = [&](const std::string& name, int low, int high) {
    return environment.required("BVTRAIN_GROUP_" + name, low, high, "bvtrain's launcher");
  };
  RankLayout layout;
  layout.found_by = environment.text("BVTRAIN_GROUP_FOUND_BY", "self");
  layout.size = required("SIZE", 1, kMostRanks);
  layout.rank = required("RANK", 0, kMostRanks - 1);
  check_rank("BVTRAIN_GROUP_RANK", layout.rank, "BVTRAIN_GROUP_SIZE", layout.size);
  layout.local_size = required("LOCAL_SIZE", 1, kMostRanks);
  layout.local_rank = required("LOCAL_RANK", 0, kMostRanks - 1);
  check_rank("BVTRAIN_GROUP_LOCAL_RANK", layout.local_rank, "BVTRAIN_GROUP_LOCAL_SIZE",
             layout.local_size);
  layout.slot = required("SLOT", 0, kMostRanks - 1);
  layout.host_devices = required("DEVICES", 0, kMostRanks);
  layout.node = required("NODE", 0, kMostRanks - 1);
  layout.nodes = required("NODES", 1, kMostRanks);
  layout.restarts = required("RESTARTS", 0, 1 << 30);
  layout.first_size = required("FIRST_SIZE", 1, kMostRanks);
  const HostPort store =
      parse_host_port(environment.text("BVTRAIN_GROUP_STORE", ""), "BVTRAIN_GROUP_STORE");
  layout.address = store.host;
  layout.port = store.port;
  layout.token = environment.text("BVTRAIN_GROUP_TOKEN", "");
  layout.store_host = StoreHost::launcher;
  return layout;
}

std::optional<RankLayout> torchrun_layout(const Environment& environment, bool needed) {
  if (!needed && !environment.has("RANK") && !environment.has("WORLD_SIZE")) return std::nullopt;
  const std::string of = "torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT";
  RankLayout layout;
  layout.found_by = "torchrun";
  layout.size = environment.required("WORLD_SIZE", 1, kMostRanks, of);
  layout.rank = environment.required("RANK", 0, kMostRanks - 1, of);
  check_rank("RANK", layout.rank, "WORLD_SIZE", layout.size);
  layout.local_size =
      environment.number("LOCAL_WORLD_SIZE", 1, kMostRanks).value_or(layout.size == 1 ? 1 : 0);
  if (layout.size == 1) return layout;
  layout.local_rank = environment.required("LOCAL_RANK", 0, kMostRanks - 1, of);
  if (layout.local_size == 0) layout.local_size = layout.local_rank + 1;
  check_rank("LOCAL_RANK", layout.local_rank, "LOCAL_WORLD_SIZE", layout.local_size);
  if (layout.local_size > layout.size)
    throw Error(Exit::usage, shown("LOCAL_WORLD_SIZE", std::to_string(layout.local_size)),
                fmt::format("must not be above WORLD_SIZE={}", layout.size));
  layout.node = node_of(environment, "GROUP_RANK", layout.rank, layout.local_size);
  layout.nodes = environment.number("GROUP_WORLD_SIZE", 1, kMostRanks)
                     .value_or((layout.size + layout.local_size - 1) / layout.local_size);
  const auto address = environment.find("MASTER_ADDR");
  if (!address)
    throw Error(Exit::usage, "MASTER_ADDR",
                fmt::format("is not set, although others of {} are", of));
  layout.address = *address;
  layout.port = environment.required("MASTER_PORT", 1, kMostPort, of);
  const bool agent = environment.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  layout.store_host = agent ? StoreHost::torchrun : StoreHost::rank0;
  layout.restarts = environment.number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30).value_or(0);
  layout.token = "torchrun-" + environment.text("TORCHELASTIC_RUN_ID", "none");
  return layout;
}

std::optional<RankLayout> slurm_layout(const Environment& environment, bool needed) {
  const std::string step = environment.first({"SLURM_STEP_ID", "SLURM_STEPID"});
  const std::string size_name =
      environment.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  // A batch script of sbatch also sees SLURM_NTASKS and SLURM_PROCID, but it is not a step with
  // several tasks.
  if (!is_srun_step(step) || !environment.has("SLURM_PROCID")) {
    if (!needed) return std::nullopt;
    throw Error(Exit::usage, "--launcher slurm",
                "this process was not started by srun (no SLURM_STEP_ID and SLURM_PROCID)");
  }
  const std::string of = "slurm's SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_JOB_NODELIST";
  RankLayout layout;
  layout.found_by = "slurm";
  layout.size = environment.required(size_name, 1, kMostRanks, of);
  layout.rank = environment.required("SLURM_PROCID", 0, kMostRanks - 1, of);
  check_rank("SLURM_PROCID", layout.rank, size_name, layout.size);
  if (layout.size == 1) return layout;
  layout.local_rank = environment.required("SLURM_LOCALID", 0, kMostRanks - 1, of);
  layout.node = environment.number("SLURM_NODEID", 0, kMostRanks - 1).value_or(0);
  const std::string list_name =
      environment.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto list = environment.find(list_name);
  if (!list)
    throw Error(Exit::usage, list_name, fmt::format("is not set, although others of {} are", of));
  const std::vector<std::string> hosts = parse_hostlist(*list, list_name);
  layout.nodes = static_cast<int>(hosts.size());
  check_rank("SLURM_NODEID", layout.node, "number of hosts in " + list_name, layout.nodes);
  const std::string counts_name = "SLURM_STEP_TASKS_PER_NODE";
  if (const auto counts = environment.find(counts_name)) {
    const std::vector<int> tasks = parse_counts(*counts, counts_name);
    if (static_cast<int>(tasks.size()) != layout.nodes)
      throw Error(Exit::usage, shown(counts_name, *counts),
                  fmt::format("{} nodes, but {} names {}", tasks.size(), list_name, layout.nodes));
    layout.local_size = tasks[static_cast<size_t>(layout.node)];
  } else {
    layout.local_size = std::max(layout.local_rank + 1, layout.size / layout.nodes);
  }
  check_rank("SLURM_LOCALID", layout.local_rank, "tasks of this node", layout.local_size);
  const std::string job = fmt::format("slurm-{}-{}-{}", environment.text("SLURM_JOB_ID", "none"),
                                      step, environment.text("SLURM_RESTART_COUNT", "0"));
  layout.address = environment.text("MASTER_ADDR", hosts[0]);
  layout.port = master_port(environment, derived_port(job));
  layout.token = job;
  return layout;
}

std::optional<RankLayout> mpi_layout(const Environment& environment,
                                     const RankLayoutOptions& options, bool needed) {
  const bool open_mpi =
      environment.has("OMPI_COMM_WORLD_RANK") || environment.has("OMPI_COMM_WORLD_SIZE");
  const bool pmi = environment.has("PMI_RANK") || environment.has("PMI_SIZE");
  if (!open_mpi && !pmi) {
    if (!needed) return std::nullopt;
    throw Error(Exit::usage, "--launcher mpi",
                "no OMPI_COMM_WORLD_RANK or PMI_RANK in the environment: not started by mpirun?");
  }
  const std::string prefix = open_mpi ? "OMPI_COMM_WORLD_" : "PMI_";
  const std::string of = open_mpi ? "OpenMPI's OMPI_COMM_WORLD_*" : "PMI's PMI_RANK, PMI_SIZE";
  RankLayout layout;
  layout.found_by = "mpi";
  layout.size = environment.required(prefix + "SIZE", 1, kMostRanks, of);
  layout.rank = environment.required(prefix + "RANK", 0, kMostRanks - 1, of);
  check_rank(prefix + "RANK", layout.rank, prefix + "SIZE", layout.size);
  if (layout.size == 1) return layout;
  // Hydra (MPICH, Intel MPI) uses other names for the local numbers, if it sets them at all.
  const std::string local_rank = open_mpi ? prefix + "LOCAL_RANK" : "MPI_LOCALRANKID";
  const std::string local_size = open_mpi ? prefix + "LOCAL_SIZE" : "MPI_LOCALNRANKS";
  const bool local_known = environment.has(local_rank) && environment.has(local_size);
  if (open_mpi || local_known) {
    layout.local_rank = environment.required(local_rank, 0, kMostRanks - 1, of);
    layout.local_size = environment.required(local_size, 1, layout.size, of);
    check_rank(local_rank, layout.local_rank, local_size, layout.local_size);
  }
  layout.node = layout.rank / layout.local_size;
  layout.nodes = (layout.size + layout.local_size - 1) / layout.local_size;
  const std::string job = environment.first(
      {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID"});
  layout.token = "mpi-" + (job.empty() ? "none" : job);
  if (!options.rendezvous.empty()) return layout;  // find_rank_layout() sets the address
  if (const auto address = environment.find("MASTER_ADDR")) {
    layout.address = *address;
    layout.port = master_port(environment, derived_port(layout.token));
  } else if (layout.local_size == layout.size && local_known && !job.empty()) {
    layout.address = loopback_address();
    layout.port = master_port(environment, derived_port(layout.token));
  } else {
    throw Error(
        Exit::usage, shown(prefix + "SIZE", std::to_string(layout.size)),
        "mpirun sets no address for the store: give --rendezvous HOST:PORT, or MASTER_ADDR and "
        "MASTER_PORT with mpirun's -x, where HOST runs rank 0");
  }
  return layout;
}

}  // namespace bv

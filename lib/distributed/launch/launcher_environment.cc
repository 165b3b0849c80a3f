// Readers of the launchers' environments: our own, torchrun, slurm, OpenMPI and PMI.
#include "lib/distributed/launch/launcher_environment.h"

#include <charconv>

#include "lib/distributed/launch/hostlist.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int kMostPort = 65535;

// `n` as "0": whether slurm's step number is one that srun gave (the batch script, the interactive
// and the extern step have numbers from 4294967290 on).
bool is_srun_step(const std::string& step) {
  return !step.empty() && step.size() < 10 &&
         step.find_first_not_of("0123456789") == std::string::npos;
}

// The port of MASTER_PORT, else `fallback`.
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
    throw Error(Exit::usage, shown(name, *value), "expected a whole number");
  if (parsed < low || parsed > high)
    throw Error(Exit::usage, shown(name, *value),
                fmt::format("expected a number from {} to {}", low, high));
  return parsed;
}

int Environment::required(const std::string& name, int low, int high, std::string_view of) const {
  if (const auto value = number(name, low, high)) return *value;
  throw Error(Exit::usage, name, fmt::format("is not set, though others of {} are", of));
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

std::optional<RankLayout> place_of_own_launcher(const Environment& environment) {
  if (!environment.has("BVTRAIN_GROUP_RANK") && !environment.has("BVTRAIN_GROUP_SIZE"))
    return std::nullopt;
  const auto required = [&](const std::string& name, int low, int high) {
    return environment.required("BVTRAIN_GROUP_" + name, low, high, "bvtrain's launcher");
  };
  RankLayout place;
  place.found_by = environment.text("BVTRAIN_GROUP_FOUND_BY", "self");
  place.size = required("SIZE", 1, kMostRanks);
  place.rank = required("RANK", 0, kMostRanks - 1);
  check_rank("BVTRAIN_GROUP_RANK", place.rank, "BVTRAIN_GROUP_SIZE", place.size);
  place.local_size = required("LOCAL_SIZE", 1, kMostRanks);
  place.local_rank = required("LOCAL_RANK", 0, kMostRanks - 1);
  check_rank("BVTRAIN_GROUP_LOCAL_RANK", place.local_rank, "BVTRAIN_GROUP_LOCAL_SIZE",
             place.local_size);
  place.node = required("NODE", 0, kMostRanks - 1);
  place.nodes = required("NODES", 1, kMostRanks);
  place.restarts = required("RESTARTS", 0, 1 << 30);
  place.first_size = required("FIRST_SIZE", 1, kMostRanks);
  const HostPort store =
      parse_host_port(environment.text("BVTRAIN_GROUP_STORE", ""), "BVTRAIN_GROUP_STORE");
  place.address = store.host;
  place.port = store.port;
  place.token = environment.text("BVTRAIN_GROUP_TOKEN", "");
  place.store_host = StoreHost::launcher;
  return place;
}

std::optional<RankLayout> place_of_torchrun(const Environment& environment, bool needed) {
  if (!needed && !environment.has("RANK") && !environment.has("WORLD_SIZE")) return std::nullopt;
  const std::string of = "torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT";
  RankLayout place;
  place.found_by = "torchrun";
  place.size = environment.required("WORLD_SIZE", 1, kMostRanks, of);
  place.rank = environment.required("RANK", 0, kMostRanks - 1, of);
  check_rank("RANK", place.rank, "WORLD_SIZE", place.size);
  place.local_size =
      environment.number("LOCAL_WORLD_SIZE", 1, kMostRanks).value_or(place.size == 1 ? 1 : 0);
  if (place.size == 1) return place;
  place.local_rank = environment.required("LOCAL_RANK", 0, kMostRanks - 1, of);
  if (place.local_size == 0) place.local_size = place.local_rank + 1;
  check_rank("LOCAL_RANK", place.local_rank, "LOCAL_WORLD_SIZE", place.local_size);
  if (place.local_size > place.size)
    throw Error(Exit::usage, shown("LOCAL_WORLD_SIZE", std::to_string(place.local_size)),
                fmt::format("must not be above WORLD_SIZE={}", place.size));
  place.node = node_of(environment, "GROUP_RANK", place.rank, place.local_size);
  place.nodes = environment.number("GROUP_WORLD_SIZE", 1, kMostRanks)
                    .value_or((place.size + place.local_size - 1) / place.local_size);
  const auto address = environment.find("MASTER_ADDR");
  if (!address)
    throw Error(Exit::usage, "MASTER_ADDR", fmt::format("is not set, though others of {} are", of));
  place.address = *address;
  place.port = environment.required("MASTER_PORT", 1, kMostPort, of);
  const bool agent = environment.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  place.store_host = agent ? StoreHost::torchrun : StoreHost::rank0;
  place.restarts = environment.number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30).value_or(0);
  place.token = fmt::format("torchrun-{}-{}", environment.text("TORCHELASTIC_RUN_ID", "none"),
                            place.restarts);
  return place;
}

std::optional<RankLayout> place_of_slurm(const Environment& environment, bool needed) {
  const std::string step = environment.first({"SLURM_STEP_ID", "SLURM_STEPID"});
  const std::string size_name =
      environment.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  // An sbatch script sees SLURM_NTASKS and SLURM_PROCID too, but is no step of several tasks.
  if (!is_srun_step(step) || !environment.has("SLURM_PROCID")) {
    if (!needed) return std::nullopt;
    throw Error(Exit::usage, "--launcher slurm",
                "this process is no task of srun (no SLURM_STEP_ID and SLURM_PROCID)");
  }
  const std::string of = "slurm's SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_JOB_NODELIST";
  RankLayout place;
  place.found_by = "slurm";
  place.size = environment.required(size_name, 1, kMostRanks, of);
  place.rank = environment.required("SLURM_PROCID", 0, kMostRanks - 1, of);
  check_rank("SLURM_PROCID", place.rank, size_name, place.size);
  if (place.size == 1) return place;
  place.local_rank = environment.required("SLURM_LOCALID", 0, kMostRanks - 1, of);
  place.node = environment.number("SLURM_NODEID", 0, kMostRanks - 1).value_or(0);
  const std::string list_name =
      environment.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto list = environment.find(list_name);
  if (!list)
    throw Error(Exit::usage, list_name, fmt::format("is not set, though others of {} are", of));
  const std::vector<std::string> hosts = parse_hostlist(*list, list_name);
  place.nodes = static_cast<int>(hosts.size());
  check_rank("SLURM_NODEID", place.node, "number of hosts in " + list_name, place.nodes);
  const std::string counts_name = "SLURM_STEP_TASKS_PER_NODE";
  if (const auto counts = environment.find(counts_name)) {
    const std::vector<int> tasks = parse_counts(*counts, counts_name);
    if (static_cast<int>(tasks.size()) != place.nodes)
      throw Error(Exit::usage, shown(counts_name, *counts),
                  fmt::format("{} nodes, but {} names {}", tasks.size(), list_name, place.nodes));
    place.local_size = tasks[static_cast<size_t>(place.node)];
  } else {
    place.local_size = std::max(place.local_rank + 1, place.size / place.nodes);
  }
  check_rank("SLURM_LOCALID", place.local_rank, "tasks of this node", place.local_size);
  const std::string job = fmt::format("slurm-{}-{}-{}", environment.text("SLURM_JOB_ID", "none"),
                                      step, environment.text("SLURM_RESTART_COUNT", "0"));
  place.address = environment.text("MASTER_ADDR", hosts[0]);
  place.port = master_port(environment, derived_port(job));
  place.token = job;
  return place;
}

std::optional<RankLayout> place_of_mpi(const Environment& environment,
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
  RankLayout place;
  place.found_by = "mpi";
  place.size = environment.required(prefix + "SIZE", 1, kMostRanks, of);
  place.rank = environment.required(prefix + "RANK", 0, kMostRanks - 1, of);
  check_rank(prefix + "RANK", place.rank, prefix + "SIZE", place.size);
  if (place.size == 1) return place;
  // Hydra (MPICH, Intel MPI) gives the local numbers names of their own, if any.
  const std::string local_rank = open_mpi ? prefix + "LOCAL_RANK" : "MPI_LOCALRANKID";
  const std::string local_size = open_mpi ? prefix + "LOCAL_SIZE" : "MPI_LOCALNRANKS";
  const bool local_known = environment.has(local_rank) && environment.has(local_size);
  if (open_mpi || local_known) {
    place.local_rank = environment.required(local_rank, 0, kMostRanks - 1, of);
    place.local_size = environment.required(local_size, 1, place.size, of);
    check_rank(local_rank, place.local_rank, local_size, place.local_size);
  }
  place.node = place.rank / place.local_size;
  place.nodes = (place.size + place.local_size - 1) / place.local_size;
  const std::string job = environment.first(
      {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID"});
  place.token = "mpi-" + (job.empty() ? "none" : job);
  if (!options.rendezvous.empty()) return place;  // find_rank_layout fills it in
  if (const auto address = environment.find("MASTER_ADDR")) {
    place.address = *address;
    place.port = master_port(environment, derived_port(place.token));
  } else if (place.local_size == place.size && local_known && !job.empty()) {
    place.address = "127.0.0.1";
    place.port = master_port(environment, derived_port(place.token));
  } else {
    throw Error(Exit::usage, shown(prefix + "SIZE", std::to_string(place.size)),
                "mpirun names no meeting point: give --rendezvous HOST:PORT, or MASTER_ADDR and "
                "MASTER_PORT with mpirun's -x, where HOST runs rank 0");
  }
  return place;
}

}  // namespace bv

#include "lib/distributed/launch/rank_layout.h"

#include <unistd.h>

#include <algorithm>

#include "lib/distributed/address.h"
#include "lib/distributed/launch/launcher_environment.h"
#include "lib/util/error.h"

extern char** environ;

namespace bv {
namespace {

bool same_rank(const RankLayout& a, const RankLayout& b) {
  return a.rank == b.rank && a.size == b.size;
}

// Returns the layout given by a launcher other than bvtrain's own, in the order of rank_layout.h;
// nullopt if there is none.
std::optional<RankLayout> external_layout(const RankLayoutOptions& options,
                                          const Environment& environment) {
  const std::string& wanted = options.launcher;
  if (wanted == "env") return torchrun_layout(environment, true);
  if (wanted == "slurm") return slurm_layout(environment, true);
  if (wanted == "mpi") return mpi_layout(environment, options, true);
  if (wanted == "none" || wanted == "self") return std::nullopt;
  if (auto layout = torchrun_layout(environment, false)) return layout;
  const auto slurm = slurm_layout(environment, false);
  // Inside a slurm job, mpirun starts its daemons with srun, and slurm's variables then describe
  // the daemons, not the ranks. But srun itself also sets PMI_*: then both agree, and slurm's
  // variables contain more.
  RankLayoutOptions with_address = options;
  if (slurm && options.rendezvous.empty())
    with_address.rendezvous = fmt::format("{}:{}", slurm->address, slurm->port);
  auto mpi = mpi_layout(environment, slurm ? with_address : options, false);
  if (slurm && (!mpi || same_rank(*slurm, *mpi))) return slurm;
  if (mpi && slurm && mpi->address.empty() && options.rendezvous.empty()) {
    mpi->address = slurm->address;
    mpi->port = slurm->port;
  }
  return mpi;
}

// Under another launcher every process is one rank, so --devices may only repeat the number of
// processes that it started on this host.
void check_flags_under_external_launcher(const RankLayout& layout,
                                         const RankLayoutOptions& options) {
  if (options.devices.count > 1 && options.devices.count != layout.local_size &&
      options.devices.text != "auto")
    throw Error(
        Exit::usage, "--devices " + options.devices.text,
        fmt::format("{} started {} process{} on this host, one per device; leave the number "
                    "out, or give --launcher none",
                    layout.found_by, layout.local_size, layout.local_size == 1 ? "" : "es"));
  if (options.nnodes != 1 || options.node_rank >= 0)
    throw Error(Exit::usage, "--nnodes",
                fmt::format("{} has set the number of nodes already; give --launcher self to "
                            "start ranks from here",
                            layout.found_by));
}

RankLayout layout_from_flags(const RankLayoutOptions& options, const Environment& environment) {
  RankLayout layout;
  const bool alone = options.launcher == "none" && options.devices.text == "auto";
  layout.local_size = alone ? 1 : options.devices.count;
  layout.nodes = options.nnodes;
  layout.host_devices = options.devices.visible;
  if (options.nnodes > 1) {
    if (options.node_rank < 0)
      throw Error(Exit::usage, fmt::format("--nnodes {}", options.nnodes),
                  "needs --node-rank R (0 on the host of --rendezvous)");
    if (options.rendezvous.empty())
      throw Error(Exit::usage, fmt::format("--nnodes {}", options.nnodes),
                  "needs --rendezvous HOST:PORT, where HOST is node 0");
    layout.node = options.node_rank;
  }
  const bool wants_ranks = layout.local_size > 1 || layout.nodes > 1;
  if (options.launcher == "none" && wants_ranks)
    throw Error(Exit::usage, "--launcher none",
                "runs one process; it does not work with several --devices or --nnodes");
  if (!wants_ranks) return layout;
  layout.launches = true;
  layout.found_by = layout.nodes > 1 ? "rendezvous" : "self";
  layout.size = layout.local_size * layout.nodes;
  layout.store_host = StoreHost::launcher;
  layout.hosts_store = layout.node == 0;
  layout.address = loopback_address();
  layout.token = environment.text("BVTRAIN_TOKEN", "");
  return layout;
}

}  // namespace

EnvironmentMap environment_map() {
  EnvironmentMap map;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) map.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return map;
}

void check_options(const RankLayoutOptions& options) {
  static const std::vector<std::string> known = {"auto", "none", "self", "env", "slurm", "mpi"};
  if (std::find(known.begin(), known.end(), options.launcher) == known.end())
    throw Error(Exit::usage, "--launcher " + options.launcher,
                "expected auto, none, self, env, slurm or mpi");
  if (options.nnodes < 1 || options.nnodes > kMostRanks)
    throw Error(Exit::usage, fmt::format("--nnodes {}", options.nnodes),
                fmt::format("expected a number from 1 to {}", kMostRanks));
  if (options.nnodes == 1 && options.node_rank > 0)
    throw Error(Exit::usage, fmt::format("--node-rank {}", options.node_rank),
                "must be below --nnodes, which is 1");
  check_rank("--node-rank", options.node_rank, "--nnodes", options.nnodes);
  if (!options.rendezvous.empty()) parse_host_port(options.rendezvous, "--rendezvous");
}

RankLayout find_rank_layout(const RankLayoutOptions& options, const EnvironmentMap& map) {
  check_options(options);
  const Environment environment(map);
  // A rank that bvtrain's launcher started ignores all other variables.
  if (auto layout = own_launcher_layout(environment)) return *layout;
  auto external = external_layout(options, environment);
  if (!external || external->size == 1) {
    RankLayout layout = layout_from_flags(options, environment);
    if (layout.launches && !options.rendezvous.empty()) {
      const HostPort store = parse_host_port(options.rendezvous, "--rendezvous");
      layout.address = store.host;
      layout.port = store.port;
    }
    return layout;
  }
  check_flags_under_external_launcher(*external, options);
  if (!options.rendezvous.empty()) {
    const HostPort store = parse_host_port(options.rendezvous, "--rendezvous");
    external->address = store.host;
    external->port = store.port;
    external->store_host = StoreHost::rank0;
  }
  if (const auto token = environment.find("BVTRAIN_TOKEN")) external->token = *token;
  external->hosts_store = external->store_host == StoreHost::rank0 && external->rank == 0;
  return *external;
}

std::string describe(const RankLayout& layout) {
  if (layout.size == 1) return "one process";
  const std::string store = fmt::format("{}:{}", layout.address, layout.port);
  const char* by = layout.found_by == "torchrun"     ? "torchrun (RANK, WORLD_SIZE)"
                   : layout.found_by == "slurm"      ? "slurm (SLURM_PROCID)"
                   : layout.found_by == "mpi"        ? "mpirun (OMPI_COMM_WORLD_RANK or PMI_RANK)"
                   : layout.found_by == "rendezvous" ? "--nnodes and --rendezvous"
                                                     : "--devices";
  return fmt::format("rank {} of {}, node {} of {}, found by {}, store at {}", layout.rank,
                     layout.size, layout.node, layout.nodes, by, store);
}

HostPort parse_host_port(const std::string& text, const std::string& where) {
  const auto fail = [&] {
    throw Error(Exit::usage, fmt::format("{} {}", where, text.substr(0, 200)),
                "expected HOST:PORT with a port from 1 to 65535");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) fail();
  const std::string port = text.substr(colon + 1);
  if (port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) fail();
  HostPort parsed{text.substr(0, colon), std::stoi(port)};
  if (parsed.port < 1 || parsed.port > 65535) fail();
  if (parsed.host.front() == '[' && parsed.host.back() == ']' && parsed.host.size() > 2)
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  else if (parsed.host.find(':') != std::string::npos)
    fail();  // an IPv6 address needs brackets
  if (parsed.host.find_first_of("[] \t/@") != std::string::npos) fail();
  return parsed;
}

}  // namespace bv

// Which launcher started this process, and what it is told to be.
#include "lib/distributed/launch/rank_layout.h"

#include <unistd.h>

#include <algorithm>

#include "lib/distributed/launch/launcher_environment.h"
#include "lib/util/error.h"

extern char** environ;

namespace bv {
namespace {

bool same_rank(const RankLayout& a, const RankLayout& b) {
  return a.rank == b.rank && a.size == b.size;
}

// The launcher outside of bvtrain, by the order of place.h.
std::optional<RankLayout> outside_place(const RankLayoutOptions& options,
                                        const Environment& environment) {
  const std::string& wanted = options.launcher;
  if (wanted == "env") return place_of_torchrun(environment, true);
  if (wanted == "slurm") return place_of_slurm(environment, true);
  if (wanted == "mpi") return place_of_mpi(environment, options, true);
  if (wanted == "none" || wanted == "self") return std::nullopt;
  if (auto place = place_of_torchrun(environment, false)) return place;
  const auto slurm = place_of_slurm(environment, false);
  // mpirun inside a slurm job starts its own daemons by srun, whose numbers are not the ranks';
  // srun itself also sets PMI_*, which then agree and know less.
  RankLayoutOptions with_address = options;
  if (slurm && options.rendezvous.empty())
    with_address.rendezvous = fmt::format("{}:{}", slurm->address, slurm->port);
  auto mpi = place_of_mpi(environment, slurm ? with_address : options, false);
  if (slurm && (!mpi || same_rank(*slurm, *mpi))) return slurm;
  if (mpi && slurm && mpi->address.empty() && options.rendezvous.empty()) {
    mpi->address = slurm->address;
    mpi->port = slurm->port;
  }
  return mpi;
}

// With a launcher outside, every process is one rank: --devices can only repeat how many it
// started here.
void check_outside_flags(const RankLayout& place, const RankLayoutOptions& options) {
  if (options.devices.count > 1 && options.devices.count != place.local_size &&
      options.devices.text != "auto")
    throw Error(Exit::usage, "--devices " + options.devices.text,
                fmt::format("{} started {} process{} on this host, one a device; leave the number "
                            "out, or give --launcher none",
                            place.found_by, place.local_size, place.local_size == 1 ? "" : "es"));
  if (options.nnodes != 1 || options.node_rank >= 0)
    throw Error(Exit::usage, "--nnodes",
                fmt::format("{} says already how many nodes there are; give --launcher self to "
                            "start ranks from here",
                            place.found_by));
}

RankLayout own_place(const RankLayoutOptions& options, const Environment& environment) {
  RankLayout place;
  const bool alone = options.launcher == "none" && options.devices.text == "auto";
  place.local_size = alone ? 1 : options.devices.count;
  place.nodes = options.nnodes;
  if (options.nnodes > 1) {
    if (options.node_rank < 0)
      throw Error(Exit::usage, fmt::format("--nnodes {}", options.nnodes),
                  "needs --node-rank R (0 on the host of --rendezvous)");
    if (options.rendezvous.empty())
      throw Error(Exit::usage, fmt::format("--nnodes {}", options.nnodes),
                  "needs --rendezvous HOST:PORT, where HOST is node 0");
    place.node = options.node_rank;
  }
  const bool wants_ranks = place.local_size > 1 || place.nodes > 1;
  if (options.launcher == "none" && wants_ranks)
    throw Error(Exit::usage, "--launcher none",
                "runs one process; it does not go with --devices for several or --nnodes");
  if (!wants_ranks) return place;
  place.launches = true;
  place.found_by = place.nodes > 1 ? "rendezvous" : "self";
  place.size = place.local_size * place.nodes;
  place.store_host = StoreHost::launcher;
  place.hosts_store = place.node == 0;
  place.address = "127.0.0.1";
  place.token = environment.text("BVTRAIN_TOKEN", "");
  return place;
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
  // A rank of our own launcher keeps its place whatever else the environment holds.
  if (auto place = place_of_own_launcher(environment)) return *place;
  auto outside = outside_place(options, environment);
  if (!outside || outside->size == 1) {
    RankLayout place = own_place(options, environment);
    if (place.launches && !options.rendezvous.empty()) {
      const HostPort store = parse_host_port(options.rendezvous, "--rendezvous");
      place.address = store.host;
      place.port = store.port;
    }
    return place;
  }
  check_outside_flags(*outside, options);
  if (!options.rendezvous.empty()) {
    const HostPort store = parse_host_port(options.rendezvous, "--rendezvous");
    outside->address = store.host;
    outside->port = store.port;
    outside->store_host = StoreHost::rank0;
  }
  if (const auto token = environment.find("BVTRAIN_TOKEN"))
    outside->token = fmt::format("{}-{}", *token, outside->restarts);
  outside->hosts_store = outside->store_host == StoreHost::rank0 && outside->rank == 0;
  return *outside;
}

std::string describe(const RankLayout& place) {
  if (place.size == 1) return "one process";
  const std::string store = fmt::format("{}:{}", place.address, place.port);
  const char* by = place.found_by == "torchrun"     ? "torchrun (RANK, WORLD_SIZE)"
                   : place.found_by == "slurm"      ? "slurm (SLURM_PROCID)"
                   : place.found_by == "mpi"        ? "mpirun (OMPI_COMM_WORLD_RANK or PMI_RANK)"
                   : place.found_by == "rendezvous" ? "--nnodes and --rendezvous"
                                                    : "--devices";
  return fmt::format("rank {} of {}, node {} of {}, found by {}, store at {}", place.rank,
                     place.size, place.node, place.nodes, by, store);
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
    fail();  // an IPv6 address needs its brackets
  if (parsed.host.find_first_of("[] \t/@") != std::string::npos) fail();
  return parsed;
}

}  // namespace bv

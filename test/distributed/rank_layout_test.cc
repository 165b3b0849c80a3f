#include "lib/distributed/launch/rank_layout.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "lib/util/error.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

RankLayoutOptions flags(const std::string& launcher = "auto", const std::string& devices = "auto") {
  RankLayoutOptions options;
  options.launcher = launcher;
  options.devices = parse_devices(devices);
  return options;
}

std::string refused_layout(const RankLayoutOptions& options, const EnvironmentMap& environment) {
  return error_of([&] { find_rank_layout(options, environment); });
}

const EnvironmentMap kTorchrun = {{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "4"},
                                  {"GROUP_RANK", "1"},
                                  {"MASTER_ADDR", "n1"},
                                  {"MASTER_PORT", "29500"},
                                  {"TORCHELASTIC_RUN_ID", "run"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"}};
const EnvironmentMap kSlurm = {{"SLURM_JOB_ID", "77"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_NUM_TASKS", "5"},
                               {"SLURM_NTASKS", "5"},
                               {"SLURM_PROCID", "4"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_JOB_NODELIST", "n[1-9]"},
                               {"SLURM_STEP_NODELIST", "n[3-4]"},
                               {"SLURM_STEP_TASKS_PER_NODE", "3,2"}};
const EnvironmentMap kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"PMIX_NAMESPACE", "12345"}};

EnvironmentMap with(EnvironmentMap map, const EnvironmentMap& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}

TEST_CASE("without a launcher there is one process") {
  const RankLayout layout = find_rank_layout(flags(), {});
  CHECK(layout.size == 1);
  CHECK(layout.found_by == "none");
  CHECK_FALSE(layout.launches);
  CHECK(describe(layout) == "one process");
  // Variables of a one-process group do not create a group.
  CHECK(find_rank_layout(flags(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}}).found_by == "none");
  CHECK(find_rank_layout(flags("auto", "cpu:3"), {{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launches);
  // An sbatch script sees the numbers of its job, but it is not a step of several tasks.
  CHECK(find_rank_layout(flags(), {{"SLURM_JOB_ID", "7"},
                                   {"SLURM_NTASKS", "8"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_LOCALID", "0"},
                                   {"SLURM_JOB_NODELIST", "n[1-2]"}})
            .size == 1);
  CHECK(find_rank_layout(flags(), with(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})).size == 1);
  CHECK(find_rank_layout(flags("none"), kTorchrun).size == 1);
}

TEST_CASE("torchrun's variables") {
  const RankLayout layout = find_rank_layout(flags(), kTorchrun);
  CHECK(layout.found_by == "torchrun");
  CHECK(layout.rank == 5);
  CHECK(layout.size == 8);
  CHECK(layout.local_rank == 1);
  CHECK(layout.local_size == 4);
  CHECK(layout.node == 1);
  CHECK(layout.nodes == 2);
  CHECK(layout.address == "n1");
  CHECK(layout.port == 29500);
  CHECK(layout.place().slot == 1);
  CHECK(layout.place().devices == 0);
  CHECK(layout.token == "torchrun-run");
  CHECK(layout.store_host == StoreHost::rank0);
  CHECK_FALSE(layout.hosts_store);
  CHECK(describe(layout) ==
        "rank 5 of 8, node 1 of 2, found by torchrun (RANK, WORLD_SIZE), store at n1:29500");
  CHECK(
      find_rank_layout(flags(), with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).hosts_store);
  const RankLayout agent = find_rank_layout(
      flags(),
      with(kTorchrun,
           {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  CHECK(agent.store_host == StoreHost::torchrun);
  CHECK_FALSE(agent.hosts_store);
  CHECK(find_rank_layout(flags(), with(kTorchrun, {{"BVTRAIN_TOKEN", "t"}})).token == "t");
}

TEST_CASE("a slurm step") {
  const RankLayout layout = find_rank_layout(flags(), kSlurm);
  CHECK(layout.found_by == "slurm");
  CHECK(layout.rank == 4);
  CHECK(layout.size == 5);
  CHECK(layout.local_rank == 1);
  CHECK(layout.local_size == 2);
  CHECK(layout.node == 1);
  CHECK(layout.nodes == 2);
  CHECK(layout.address == "n3");
  CHECK(layout.token == "slurm-77-0-0");
  CHECK(layout.port >= 10000);
  CHECK(layout.port < 30000);
  const RankLayout first = find_rank_layout(
      flags(),
      with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}}));
  CHECK(first.hosts_store);
  CHECK(first.port == layout.port);  // every rank derives the same port
  CHECK(find_rank_layout(flags(), with(kSlurm, {{"SLURM_STEP_ID", "1"}})).port != layout.port);
  // With srun and PMI both sets of variables agree. With mpirun's daemons under srun they do not.
  CHECK(find_rank_layout(flags(), with(kSlurm, {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}})).found_by ==
        "slurm");
  const RankLayout mpi = find_rank_layout(flags(), with(kSlurm, kOpenMpi));
  CHECK(mpi.found_by == "mpi");
  CHECK(mpi.rank == 3);
  CHECK(mpi.address == "n3");
  CHECK(find_rank_layout(flags("slurm"), with(kSlurm, kOpenMpi)).found_by == "slurm");
}

TEST_CASE("mpirun's variables") {
  RankLayoutOptions options = flags();
  options.rendezvous = "[fe80::1]:700";
  const RankLayout layout = find_rank_layout(options, kOpenMpi);
  CHECK(layout.found_by == "mpi");
  CHECK(layout.rank == 3);
  CHECK(layout.local_size == 2);
  CHECK(layout.node == 1);
  CHECK(layout.nodes == 2);
  CHECK(layout.address == "fe80::1");
  CHECK(layout.port == 700);
  CHECK(layout.token == "mpi-12345");
  const RankLayout named =
      find_rank_layout(flags(), with(kOpenMpi, {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "5"}}));
  CHECK(named.address == "n1");
  CHECK(named.port == 5);
  // On one host the ranks meet at the loopback address.
  const RankLayout one =
      find_rank_layout(flags(), with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  CHECK(one.address == "127.0.0.1");
  CHECK(one.nodes == 1);
  const RankLayout hydra = find_rank_layout(flags(), {{"PMI_RANK", "1"},
                                                      {"PMI_SIZE", "2"},
                                                      {"MPI_LOCALRANKID", "1"},
                                                      {"MPI_LOCALNRANKS", "2"},
                                                      {"PMI_JOBID", "x"}});
  CHECK(hydra.address == "127.0.0.1");
  CHECK(hydra.local_rank == 1);
  CHECK(refused_layout(flags(), kOpenMpi) ==
        "OMPI_COMM_WORLD_SIZE=4: error: mpirun sets no address for the store: give --rendezvous "
        "HOST:PORT, "
        "or MASTER_ADDR and MASTER_PORT with mpirun's -x, where HOST runs rank 0");
}

TEST_CASE("our own flags") {
  const RankLayout one = find_rank_layout(flags("auto", "cpu:8"), {});
  CHECK(one.launches);
  CHECK(one.found_by == "self");
  CHECK(one.local_size == 8);
  CHECK(one.size == 8);
  CHECK(one.address == "127.0.0.1");
  CHECK(one.port == 0);
  CHECK(one.hosts_store);

  RankLayoutOptions options = flags("auto", "cpu:2");
  options.nnodes = 3;
  options.node_rank = 2;
  options.rendezvous = "n1:29400";
  const RankLayout many = find_rank_layout(options, {{"BVTRAIN_TOKEN", "secret"}});
  CHECK(many.launches);
  CHECK(many.found_by == "rendezvous");
  CHECK(many.size == 6);
  CHECK(many.node == 2);
  CHECK_FALSE(many.hosts_store);
  CHECK(many.address == "n1");
  CHECK(many.port == 29400);
  CHECK(many.token == "secret");

  // --launcher self starts ranks, regardless of the environment.
  CHECK(find_rank_layout(flags("self", "cpu:2"), kTorchrun).launches);
}

TEST_CASE("a rank of our own launcher keeps its place") {
  const EnvironmentMap own = {
      {"BVTRAIN_GROUP_RANK", "1"},       {"BVTRAIN_GROUP_SIZE", "2"},
      {"BVTRAIN_GROUP_LOCAL_RANK", "1"}, {"BVTRAIN_GROUP_LOCAL_SIZE", "2"},
      {"BVTRAIN_GROUP_SLOT", "3"},       {"BVTRAIN_GROUP_DEVICES", "8"},
      {"BVTRAIN_GROUP_NODE", "0"},       {"BVTRAIN_GROUP_NODES", "1"},
      {"BVTRAIN_GROUP_RESTARTS", "3"},   {"BVTRAIN_GROUP_STORE", "127.0.0.1:4000"},
      {"BVTRAIN_GROUP_TOKEN", "abc.3"},  {"BVTRAIN_GROUP_FIRST_SIZE", "4"}};
  const RankLayout layout = find_rank_layout(flags("auto", "cpu:2"), with(kTorchrun, own));
  CHECK(layout.found_by == "self");
  CHECK(layout.rank == 1);
  CHECK(layout.size == 2);
  CHECK_FALSE(layout.launches);
  CHECK_FALSE(layout.hosts_store);
  CHECK(layout.store_host == StoreHost::launcher);
  CHECK(layout.restarts == 3);
  CHECK(layout.first_size == 4);
  CHECK(layout.place().local_rank == 1);
  CHECK(layout.place().slot == 3);
  CHECK(layout.place().devices == 8);
  CHECK(layout.token == "abc.3");
  EnvironmentMap half = own;
  half.erase("BVTRAIN_GROUP_NODE");
  CHECK(refused_layout(flags(), half) ==
        "BVTRAIN_GROUP_NODE: error: is not set, although others of bvtrain's launcher are");
}

TEST_CASE("inconsistent variables are refused by name") {
  const auto torchrun = [](const EnvironmentMap& more) {
    return refused_layout(flags(), with(kTorchrun, more));
  };
  CHECK(torchrun({{"RANK", "8"}}) == "RANK=8: error: must be below WORLD_SIZE=8");
  CHECK(torchrun({{"RANK", "two"}}) == "RANK=two: error: expected an integer");
  CHECK(torchrun({{"RANK", "-1"}}) == "RANK=-1: error: expected a number from 0 to 65535");
  CHECK(torchrun({{"RANK", "1e3"}}) == "RANK=1e3: error: expected an integer");
  CHECK(torchrun({{"WORLD_SIZE", "99999999999"}}) ==
        "WORLD_SIZE=99999999999: error: expected an integer");
  CHECK(torchrun({{"LOCAL_RANK", "4"}}) == "LOCAL_RANK=4: error: must be below LOCAL_WORLD_SIZE=4");
  CHECK(torchrun({{"MASTER_PORT", "0"}}) ==
        "MASTER_PORT=0: error: expected a number from 1 to 65535");
  CHECK(torchrun({{"LOCAL_WORLD_SIZE", "9"}}) ==
        "LOCAL_WORLD_SIZE=9: error: must not be above WORLD_SIZE=8");
  const std::string of =
      "is not set, although others of torchrun's RANK, WORLD_SIZE, MASTER_ADDR, "
      "MASTER_PORT are";
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    CHECK(torchrun({{name, ""}}) == std::string(name) + ": error: " + of);

  const auto slurm = [](const EnvironmentMap& more) {
    return refused_layout(flags(), with(kSlurm, more));
  };
  CHECK(slurm({{"SLURM_PROCID", "5"}}) ==
        "SLURM_PROCID=5: error: must be below SLURM_STEP_NUM_TASKS=5");
  CHECK(slurm({{"SLURM_STEP_NODELIST", "n[1"}}) ==
        "SLURM_STEP_NODELIST: error: 'n[1' is not a host list: a bracket is not closed");
  CHECK(slurm({{"SLURM_STEP_TASKS_PER_NODE", "5"}}) ==
        "SLURM_STEP_TASKS_PER_NODE=5: error: 1 nodes, but SLURM_STEP_NODELIST names 2");
  CHECK(slurm({{"SLURM_LOCALID", "2"}}) ==
        "SLURM_LOCALID=2: error: must be below tasks of this node=2");

  CHECK(refused_layout(flags("env"), {}) == "WORLD_SIZE: error: " + of);
  CHECK(refused_layout(flags("slurm"), {}) ==
        "--launcher slurm: error: this process was not started by srun (no SLURM_STEP_ID and "
        "SLURM_PROCID)");
  CHECK(
      refused_layout(flags("mpi"), {}) ==
      "--launcher mpi: error: no OMPI_COMM_WORLD_RANK or PMI_RANK in the environment: not started "
      "by mpirun?");
  CHECK(refused_layout(flags("ssh"), {}) ==
        "--launcher ssh: error: expected auto, none, self, env, slurm or mpi");
  CHECK(refused_layout(flags("none", "cpu:2"), {}) ==
        "--launcher none: error: runs one process; it does not work with several --devices or "
        "--nnodes");
  CHECK(refused_layout(flags("auto", "cpu:8"), kTorchrun) ==
        "--devices cpu:8: error: torchrun started 4 processes on this host, one per device; leave "
        "the "
        "number out, or give --launcher none");
  CHECK(find_rank_layout(flags("auto", "cpu:4"), kTorchrun).rank == 5);
}

TEST_CASE("--nnodes, --node-rank and --rendezvous go together") {
  RankLayoutOptions options = flags();
  options.nnodes = 2;
  CHECK(refused_layout(options, {}) ==
        "--nnodes 2: error: needs --node-rank R (0 on the host of --rendezvous)");
  options.node_rank = 2;
  CHECK(refused_layout(options, {}) == "--node-rank=2: error: must be below --nnodes=2");
  options.node_rank = 1;
  CHECK(refused_layout(options, {}) ==
        "--nnodes 2: error: needs --rendezvous HOST:PORT, where HOST is node 0");
  for (const char* bad : {"n1", "n1:", ":5", "n1:0", "n1:65536", "n1:5x", "fe80::1:5", "a b:5",
                          "[::1:5", "tcp://n1:5"}) {
    options.rendezvous = bad;
    CHECK(refused_layout(options, {}) ==
          "--rendezvous " + std::string(bad) +
              ": error: expected HOST:PORT with a port from 1 to 65535");
  }
  options.nnodes = 1;
  options.rendezvous = "";
  CHECK(refused_layout(options, {}) == "--node-rank 1: error: must be below --nnodes, which is 1");
  options.nnodes = 0;
  CHECK(refused_layout(options, {}) == "--nnodes 0: error: expected a number from 1 to 65536");
}

TEST_CASE("--devices") {
  CHECK(parse_devices("auto").kind == Devices::Kind::automatic);
  CHECK(parse_devices("cpu").count == 1);
  CHECK(parse_devices("cpu:8").count == 8);
  CHECK(parse_devices("cuda").kind == Devices::Kind::cuda);
  CHECK(parse_devices("cuda:0,3").indices == std::vector<int>{0, 3});
  CHECK(parse_devices("cuda:0,3").count == 2);
  CHECK(parse_devices("cuda:all").all);
  const std::string known = ": error: expected auto, cpu, cpu:N, cuda, cuda:0,1 or cuda:all";
  for (const char* bad : {"", "cpu,cuda", "CPU", "tpu:8", "-1", "1025"})
    CHECK_THROWS_WITH(parse_devices(bad), "--devices " + std::string(bad) + known);
  const std::pair<std::string, std::string> meant[] = {{"gpu", "cuda"},
                                                       {"gpu:0,1", "cuda:0,1"},
                                                       {"0", "cuda:0"},
                                                       {"1", "cpu or cuda:0"},
                                                       {"2", "cpu:2 or cuda:0,1"},
                                                       {"8", "cpu:8 or cuda:all"},
                                                       {"2,3", "cuda:2,3"},
                                                       {"gpu:", "cuda"}};
  for (const auto& [bad, better] : meant)
    CHECK_THROWS_WITH(parse_devices(bad),
                      "--devices " + bad + known + "; did you mean " + better + "?");
  for (const char* bad :
       {"cpu:", "cpu:0", "cpu:-1", "cpu:x", "cpu:1025", "cpu:99999999999", "cpu:2 "})
    CHECK_THROWS_WITH(parse_devices(bad), "--devices " + std::string(bad) +
                                              ": error: expected cpu:N with N from 1 to 1024");
  for (const char* bad : {"cuda:", "cuda:a", "cuda:0,", "cuda:-1"})
    CHECK_THROWS_WITH(parse_devices(bad), "--devices " + std::string(bad) +
                                              ": error: expected cuda:all or indices such as "
                                              "cuda:0,1");
  CHECK_THROWS_WITH(parse_devices("cuda:1,1"),
                    "--devices cuda:1,1: error: device 1 is given twice");
}

TEST_CASE("a process that is left after an elastic restart keeps its CUDA device") {
  const Devices all = parse_devices("cuda:all"), named = parse_devices("cuda:4,5,6");
  const HostPlace first{1, 1, 3}, later{1, 2, 3};  // slot 1 has failed
  CHECK(device_index(all, first, 3) == 1);
  CHECK(device_index(all, later, 3) == 2);
  CHECK(device_index(named, {1, 1, 8}, 8) == 5);
  CHECK(device_index(named, {1, 2, 8}, 8) == 6);
  // The failed device has disappeared, and the driver has numbered the others again.
  CHECK(device_index(all, later, 2) == 1);
  CHECK(device_index(all, {0, 1, 2}, 1) == 0);
  // The second of the devices 4, 5 and 6 may now be one that the user did not name.
  CHECK_THROWS_WITH(device_index(named, {1, 1, 8}, 7),
                    "--devices cuda:4,5,6: error: this process sees 7 CUDA devices, and the first "
                    "start saw 8: the numbers may now mean other devices; start the run again with "
                    "the right ones");
  // Another launcher started the processes: the local rank counts, unless each sees one device.
  CHECK(device_index(parse_devices("cuda"), {3, 3, 0}, 8) == 3);
  CHECK(device_index(parse_devices("cuda"), {3, 3, 0}, 1) == 0);
  CHECK_THROWS_WITH(device_index(named, {3, 3, 0}, 8),
                    "--devices cuda:4,5,6: error: names 3 devices, but this is process 3 of the "
                    "host");
  CHECK_THROWS_WITH(device_index(all, {3, 3, 0}, 2),
                    "--devices cuda:all: error: there is no device 3: this process sees 2 CUDA "
                    "devices");
}

}  // namespace
}  // namespace bv::test

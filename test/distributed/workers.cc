#include "test/distributed/workers.h"

#include <fmt/format.h>

#include <fstream>

#include "lib/util/text.h"

namespace bv::test {

Worker::Worker(const std::string& role, const Variables& variables)
    // Discards Catch's report: stdout belongs to the role.
    : Process(
          "/proc/self/exe", {"test_distributed", kWorkerCase, "-o", "/dev/null"},
          [&] {
            Environment all(variables.begin(), variables.end());
            all.emplace_back("DIST_ROLE", role);
            return all;
          }(),
          /*own_group=*/true) {}

Worker launched(Variables more) {
  for (const auto& [name, value] : Variables{{"BVTRAIN_HEARTBEAT", "0.2"},
                                             {"BVTRAIN_SILENCE", "8"},
                                             {"BVTRAIN_STARTUP_TIMEOUT", "100"},
                                             {"OMP_NUM_THREADS", "1"}})
    more.emplace(name, value);
  return Worker("launcher", more);
}

int process_of(const Worker& launcher, int rank) {
  const std::string wanted = fmt::format("BVTRAIN_GROUP_RANK={}", rank);
  for (const int pid : children_of(launcher.pid())) {
    std::ifstream environment(fmt::format("/proc/{}/environ", pid));
    for (std::string entry; std::getline(environment, entry, '\0');)
      if (entry == wanted) return pid;
  }
  return -1;
}

Hosts::Hosts(Variables more, int count) : all(std::move(more)) {
  all.insert({{"DIST_NODES", std::to_string(count)},
              {"DIST_RENDEZVOUS", "127.0.0.1:" + std::to_string(free_port())}});
}

Worker Hosts::start(const char* node) const {
  Variables more = all;
  more["DIST_NODE"] = node;
  return launched(more);
}

Variables rank_variables(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"OMP_NUM_THREADS", "1"},
          {"BVTRAIN_HEARTBEAT", "0.5"},
          {"BVTRAIN_SILENCE", "8"},
          {"BVTRAIN_STARTUP_TIMEOUT", "100"}};
}

std::vector<Worker> start_ranks(const std::string& role, int size, const Variables& more) {
  const int port = free_port();
  std::vector<Worker> workers;
  for (int rank = 0; rank < size; ++rank) {
    Variables variables = rank_variables(rank, size, port);
    for (const auto& [name, value] : more) variables[name] = value;
    workers.emplace_back(role, variables);
  }
  return workers;
}

std::string without_waits(const std::string& err) {
  std::string rest;
  for (const std::string& line : split(err, '\n'))
    if (!line.empty() && !contains(line, "waiting for ")) rest += line + "\n";
  return rest;
}

std::vector<Finished> wait_all(std::vector<Worker>& workers) {
  std::vector<Finished> all;
  for (Worker& worker : workers) all.push_back(worker.wait());
  return all;
}

Store store_of(const RankLayout& layout) {
  constexpr double kPatience = 100;  // seconds
  const auto connect = [&](const std::string& token) {
    return Store(layout.address, layout.port, token, kPatience);
  };
  if (layout.found_by != "torchrun") return connect(layout.token);
  return connect(layout.token + "." + connect(layout.token).get("start"));
}

}  // namespace bv::test

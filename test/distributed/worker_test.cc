// The roles of worker processes (workers.h). A check that fails ends the process with code 99.
#include <sys/resource.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "lib/distributed/check_agreement.h"
#include "lib/distributed/group.h"
#include "lib/distributed/launch/launcher.h"
#include "lib/distributed/store.h"
#include "lib/distributed/watch/heartbeat.h"
#include "lib/distributed/watch/watch.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"
#include "test/distributed/workers.h"

namespace bv::test {
namespace {

std::string variable(const char* name, const std::string& fallback = "") {
  const char* value = std::getenv(name);
  return value ? value : fallback;
}

void expect(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  _exit(99);
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Waits until all other ranks of the group are in the last barrier.
void await_last_barrier(const Group& group) {
  Store store = store_of(find_rank_layout({}, environment_map()));
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto ending = [&] {
      const auto heartbeat = Heartbeat::parse(store.get(heartbeat_key(rank)));
      return heartbeat && heartbeat->phase == kEnding;
    };
    if (rank != group.rank()) expect(wait_until(ending), "the others are in the last barrier");
  }
}

volatile std::sig_atomic_t g_signal = 0;
void note_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1})
    std::signal(signal, [](int number) { g_signal = number; });
}
int code_of(int signal) { return signal == SIGTERM ? 143 : signal == SIGINT ? 130 : 75; }

std::shared_ptr<Group> join_here() {
  const EnvironmentMap environment = environment_map();
  GroupOptions options = group_options(environment);
  options.stop = [] { return g_signal != 0; };
  return Group::join(find_rank_layout({}, environment), options);
}

// Returns values that differ between ranks and elements and whose sums are exact.
at::Tensor values(int rank, int64_t n, at::ScalarType type) {
  const at::Tensor whole = (at::arange(n) * 3 + rank * 5).remainder(16);
  return whole.to(type);
}

at::Tensor sum_of_values(int size, int64_t n, at::ScalarType type) {
  at::Tensor sum = values(0, n, type);
  for (int r = 1; r < size; ++r) sum = sum + values(r, n, type);
  return sum;
}

void check_sums(Group& group) {
  const int rank = group.rank(), size = group.size();
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kBFloat16, at::kByte}) {
    const std::string name = at::toString(type);
    for (const int64_t n : {int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{100003}}) {
      at::Tensor sum = values(rank, n, type);
      group.all_reduce_sum(sum, "sum").wait();
      expect(sum.equal(sum_of_values(size, n, type)), "all_reduce_sum of " + name);

      at::Tensor part = at::full({n}, 77, type);
      group.reduce_scatter_sum(part, values(rank, n * size, type), "scatter").wait();
      const at::Tensor whole = sum_of_values(size, n * size, type);
      expect(part.equal(whole.slice(0, rank * n, (rank + 1) * n)), "reduce_scatter of " + name);

      at::Tensor all = at::full({n * size}, 77, type);
      group.all_gather(all, values(rank, n, type), "gather").wait();
      for (int r = 0; r < size; ++r)
        expect(all.slice(0, r * n, (r + 1) * n).equal(values(r, n, type)), "all_gather of " + name);

      at::Tensor before = at::full({n}, 77, type);
      group.send_to_next(before, values(rank, n, type), "send to next").wait();
      expect(before.equal(values((rank + size - 1) % size, n, type)), "send_to_next of " + name);

      for (int root = 0; root < size; ++root) {
        at::Tensor sent = values(rank, n, type);
        group.broadcast(sent, root, "broadcast");
        expect(sent.equal(values(root, n, type)), "broadcast of " + name);
      }
    }
  }
}

// In place: the input of a rank is its own part of the result.
void check_in_place(Group& group) {
  at::Tensor all = at::zeros({group.size() * 10});
  at::Tensor own = all.slice(0, group.rank() * 10, (group.rank() + 1) * 10);
  own.fill_(group.rank() + 1);
  group.all_gather(all, own, "gather in place").wait();
  for (int r = 0; r < group.size(); ++r)
    expect(all[r * 10 + 9].item<float>() == static_cast<float>(r + 1), "all_gather in place");
}

// Several collectives run at once, and are awaited in another order.
void check_overlap(Group& group) {
  std::vector<at::Tensor> sums;
  std::vector<Group::Pending> pending;
  for (int i = 0; i < 8; ++i) {
    sums.push_back(at::full({20000 + i}, static_cast<float>(group.rank() + i)));
    pending.push_back(group.all_reduce_sum(sums.back(), "bucket"));
  }
  const int size = group.size();
  for (int i = 7; i >= 0; --i) {
    pending[static_cast<size_t>(i)].wait();
    pending[static_cast<size_t>(i)].wait();  // the second does nothing
    const auto expected = static_cast<float>(size * (size - 1) / 2 + size * i);
    expect(sums[static_cast<size_t>(i)].eq(expected).all().item<bool>(), "several buckets");
  }
}

void check_words(Group& group) {
  const int64_t mine[] = {group.rank(), -group.rank(), INT64_MIN, INT64_MAX, 7};
  const std::vector<int64_t> most = group.all_max(mine, "control");
  expect(most == std::vector<int64_t>{group.size() - 1, 0, INT64_MIN, INT64_MAX, 7}, "all_max");
  expect(group.all_max({}, "nothing").empty(), "all_max of nothing");
  const std::string text = std::string(static_cast<size_t>(group.rank() * 1000), 'x') + "\0\n" +
                           std::to_string(group.rank());
  const std::string first("\0 of rank 0", 11);
  expect(group.broadcast_text(group.rank() > 0 ? text : first, "text") == first, "broadcast_text");
  expect(group.broadcast_text(group.rank() > 0 ? text : "", "text").empty(), "an empty text");
  const auto texts = group.gather_text(text, "texts");
  expect(std::ssize(texts) == group.size(), "gather_text");
  for (int r = 0; r < group.size(); ++r)
    expect(texts[static_cast<size_t>(r)].ends_with(std::to_string(r)), "gather_text's order");
  expect(texts[static_cast<size_t>(group.rank())] == text, "gather_text's bytes");
  group.barrier("barrier");
}

void sums() {
  const auto group = join_here();
  check_sums(*group);
  check_in_place(*group);
  check_overlap(*group);
  check_words(*group);
  expect(group->size() == 1 || group->counts().collectives > 100, "collectives are counted");
  const int64_t before = group->counts().bytes_sent;
  group->all_reduce_sum(at::ones({1000000}), "sum").wait();
  expect(group->counts().bytes_sent - before == 2 * (group->size() - 1) * 4000000 / group->size(),
         "bytes of the ring");
  const int64_t before_next = group->counts().bytes_sent;
  at::Tensor previous = at::empty({1000000});
  group->send_to_next(previous, at::ones({1000000}), "send to next").wait();
  expect(group->counts().bytes_sent - before_next == (group->size() > 1 ? 4000000 : 0),
         "bytes to the next rank only");
  const int64_t before_text = group->counts().bytes_sent;
  group->broadcast_text(std::string(1000, 'x'), "text");
  // The last rank passes nothing on in the tree.
  expect(group->rank() < group->size() - 1 || group->size() == 1 ||
             group->counts().bytes_sent == before_text,
         "bytes of a broadcast text");
  group->finish();
  expect(group->counts().collectives == 0, "a group of one after the end");
  std::printf("ok\n");
}

// Rank 0 prints the places of all ranks: "rank 1 of 3, node 1 of 2, slot 2, 8 GPUs; ...". The slot
// is left out if it is the local rank, and the GPUs if there are none.
void print_layouts(Group& group) {
  const RankLayout layout = find_rank_layout({}, environment_map());
  const std::string text = describe(layout);
  std::string mine = text.substr(0, text.find(", found by"));
  if (const int slot = layout.place().slot; slot != layout.local_rank)
    mine += fmt::format(", slot {}", slot);
  if (const int gpus = layout.place().devices; gpus > 0) mine += fmt::format(", {} GPUs", gpus);
  const std::vector<std::string> all = group.gather_text(mine, "places");
  if (group.rank() > 0) return;
  for (const std::string& place : all) std::printf("%s; ", place.c_str());
  std::printf("\n"), std::fflush(stdout);
}

// Runs steps with one collective each. $DIST_STEPS "1000 20" means 1000 steps, and 20 after a
// restart. $DIST_FAULT "KIND:RANK:STEP" makes a rank fail before the collective of that step;
// "KIND:RANK:STEP:1" does so after the first restart. With the kind "differs", all ranks end at
// that step, because the rank differs from the others, or, with the rank -1, because they find no
// majority. With the kinds "leaves" and "hangs", the rank ends with code 7 or stops after its last
// step, while the others wait for it in the last barrier. $DIST_END_CODES "75 6" are the exit codes
// of the ranks, which then end one after the other. $DIST_DEVICE_HANGS is a step in which all ranks
// wait for a device that does not answer. $DIST_SAYS are lines that every rank but rank 0 prints
// after its first step.
void steps() {
  const auto group = join_here();
  const std::vector<std::string> fault = split(variable("DIST_FAULT", "none:-1:-1"), ':');
  const std::vector<std::string> lengths = split(variable("DIST_STEPS", "10"), ' ');
  const auto life = static_cast<size_t>(std::stoi(variable("BVTRAIN_GROUP_RESTARTS", "0")));
  const int steps = std::stoi(lengths[std::min(life, lengths.size() - 1)]);
  const double length = std::stod(variable("DIST_STEP_SECONDS", "0.01"));
  const bool faulty_life = life == (fault.size() > 3 ? std::stoul(fault[3]) : 0);
  if (life > 0 && variable("DIST_TELL") != "") print_layouts(*group);
  for (int step = 0; step < steps; ++step) {
    const bool here = std::stoi(fault[1]) == group->rank() && faulty_life;
    const bool now = here && std::stoi(fault[2]) == step;
    if (now && fault[0] == "kill") raise(SIGKILL);
    if (now && fault[0] == "stop") raise(SIGSTOP);
    if (now && fault[0] == "late") pause(1000);
    if (fault[0] == "differs" && faulty_life && std::stoi(fault[2]) == step) {
      if (here) pause(0.5);  // it writes its rows first
      const Exit code = here ? Exit::internal : Exit::peer;
      std::fprintf(stderr, "[train] the copies differ\n");
      abort_group(code, "[train] the copies differ");
    }
    if (now && fault[0] == "phase") {
      const Group::Phase phase(*group, "checkpoint");
      { const Group::Phase inner(*group, "inner"); }
      pause(4);
    }
    if (now && fault[0] == "exit") _exit(6);
    if (variable("DIST_DEVICE_HANGS") == std::to_string(step)) {
      const Group::DeviceWait wait(*group, c10::Device(c10::kCUDA, 0));
      group->barrier("inner");  // in the same wait
      pause(1000);
    }
    // A step in which all ranks block, and nothing says that they wait.
    if (variable("DIST_HANGS") == std::to_string(step)) pause(1000);
    if (now && fault[0] == "error") {
      std::fprintf(stderr, "out/x: error: no space left\n");
      abort_group(Exit::storage, "out/x: error: no space left");
    }
    pause(here && fault[0] == "slow" ? 8 * length : length);
    at::Tensor sum = at::ones({1000});
    group->all_reduce_sum(sum, "gradients").wait();
    expect(sum[5].item<float>() == static_cast<float>(group->size()), "a step's sum");
    group->note_step(step);
    if (step == 0 && group->rank() == 0) std::printf("stepping\n"), std::fflush(stdout);
    if (step == 0 && group->rank() > 0) std::fputs(variable("DIST_SAYS").c_str(), stderr);
  }
  const int rank = group->rank();
  if (std::stoi(fault[1]) == rank && (fault[0] == "leaves" || fault[0] == "hangs")) {
    await_last_barrier(*group);
    if (fault[0] == "hangs") raise(SIGSTOP);
    abort_group(Exit::peer, "[distributed] the others are lost");
  }
  group->finish(/*complete=*/true);
  if (variable("DIST_END_CODES").empty()) return;
  pause(0.5 * rank);
  _exit(std::stoi(split(variable("DIST_END_CODES"), ' ').at(static_cast<size_t>(rank))));
}

// Returns a hash, in 16 hexadecimal digits, of the bits of sums that depend on the order of
// addition.
std::string bits_of_sums(Group& group) {
  at::Tensor sum = at::sin(at::arange(50001, at::kFloat) + 0.1 * group.rank());
  group.all_reduce_sum(sum, "bits").wait();
  at::Tensor part = at::empty({1000});
  const at::Tensor angles = at::arange(1000.0 * group.size()) * (group.rank() + 1);
  group.reduce_scatter_sum(part, at::cos(angles).to(at::kFloat), "bits").wait();
  const std::string bytes(static_cast<const char*>(sum.data_ptr()), sum.nbytes());
  const std::string more(static_cast<const char*>(part.data_ptr()), part.nbytes());
  return fmt::format("{:016x}", hash64(bytes + more));
}

// Joins several groups, one after the other, at the ports $DIST_PORTS.
void lives() {
  const std::vector<std::string> ports = split(variable("DIST_PORTS"), ' ');
  for (size_t life = 0; life < ports.size(); ++life) {
    EnvironmentMap environment = environment_map();
    environment["MASTER_PORT"] = ports[life];
    const auto group = Group::join(find_rank_layout({}, environment), group_options(environment));
    for (int64_t step = 0; step < 3; ++step) {
      group->all_reduce_sum(at::ones({1000}), "gradients").wait();
      group->note_step(step);
    }
    std::printf("%s ", bits_of_sums(*group).c_str());
    const double last_step = now();
    if (life + 1 == ports.size()) std::printf("%.6f\n", last_step);
    group->finish();
    if (life + 1 < ports.size()) std::printf("%.6f\n", now() - last_step);
  }
}

// Steps until any rank gets a signal. The control word makes all ranks end at the same step.
void until_signal() {
  note_signals();
  const auto group = join_here();
  for (int64_t step = 0;; ++step) {
    pause(0.005);
    const int64_t mine[] = {g_signal};
    const int64_t seen = group->all_max(mine, "control word")[0];
    group->note_step(step);
    if (step == 0) std::printf("stepping\n"), std::fflush(stdout);
    if (seen == 0) continue;
    group->finish();
    _exit(code_of(static_cast<int>(seen)));
  }
}

void wait_for_others() {
  note_signals();
  std::printf("waiting\n"), std::fflush(stdout);
  until_signal();
}

// All ranks receive a signal, and only rank 1 checks for it immediately.
void slow_to_look() {
  install_signal_handlers();
  const auto group = join_here();
  std::printf("joined\n"), std::fflush(stdout);
  if (group->rank() == 0) pause(1000);
  while (stop_requested() == Exit::ok) pause(0.01);
  abort_group(stop_requested(), kStoppedBySignal);
}

void store() {
  const StoreServer server("127.0.0.1", 0);
  std::printf("%d\n", server.port()), std::fflush(stdout);
  pause(1000);
}

void agree() {
  const auto group = join_here();
  try {
    check_agreement(*group, {{"bvtrain", "0.1.0"},
                             {"config", group->rank() >= 2 ? "b1" : "a0"},
                             {"input.data", group->rank() == 1 ? "59" : "60"}});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    group->finish();
    _exit(static_cast<int>(error.code()));
  }
  group->finish();
}

// Runs bvtrain's launcher. Its ranks play the role $DIST_CHILD. With $DIST_ANNOUNCES, it first
// prints "launching". $DIST_GPUS is the number of GPUs that it pretends to see.
// $DIST_WORKDIR_PROBLEM is why a restart would not continue the run, once it has trained. With
// $DIST_NOHUP it ignores SIGHUP.
void launcher() {
  RankLayoutOptions layout;
  layout.devices = parse_devices("cpu:" + variable("DIST_RANKS", "2"));
  layout.devices.visible = std::stoi(variable("DIST_GPUS", "0"));
  layout.nnodes = std::stoi(variable("DIST_NODES", "1"));
  if (layout.nnodes > 1) {
    layout.node_rank = std::stoi(variable("DIST_NODE"));
    layout.rendezvous = variable("DIST_RENDEZVOUS");
  }
  LaunchOptions options;
  options.layout = find_rank_layout(layout, environment_map());
  options.argv = {"test_distributed", kWorkerCase, "-o", "/dev/null"};
  options.max_restarts = std::stoi(variable("DIST_RESTARTS", "0"));
  options.grace_period = std::stod(variable("DIST_GRACE", "10"));
  options.hold_period = std::stod(variable("DIST_HOLD", "10"));
  options.kill_period = std::stod(variable("DIST_KILL_PERIOD", "30"));
  options.startup_timeout = 100;
  options.answer_timeout = std::stod(variable("DIST_ANSWER", "45"));
  options.batch_size = std::stoi(variable("DIST_BATCH", "0"));
  if (!variable("DIST_ELASTIC").empty()) parse_elastic(variable("DIST_ELASTIC"), options);
  if (const std::string loss = variable("DIST_WORKDIR_PROBLEM"); !loss.empty())
    options.workdir_problem = [loss](bool trained) { return trained ? loss : ""; };
  setenv("DIST_ROLE", variable("DIST_CHILD", "steps").c_str(), 1);
  if (!variable("DIST_NOHUP").empty()) ::signal(SIGHUP, SIG_IGN);
  if (!variable("DIST_ANNOUNCES").empty()) std::printf("launching\n"), std::fflush(stdout);
  const int code = launch(options);
  std::printf("launched: %d\n", code), std::fflush(stdout);
  _exit(code);
}

// All ranks fail at the same time. Rank 0 then writes its rows to a slow disk.
void all_fail() {
  const auto group = join_here();
  const Group::Phase failing(*group, kFailing);
  if (group->rank() == 0) pause(2.5);
  abort_group(Exit::storage, "out/x: error: no space left");
}

TEST_CASE(kWorkerCase, "[.]") {
  const std::map<std::string, std::function<void()>> roles = {{"sums", sums},
                                                              {"steps", steps},
                                                              {"store", store},
                                                              {"agree", agree},
                                                              {"launcher", launcher},
                                                              {"until_signal", until_signal},
                                                              {"lives", lives},
                                                              {"wait_for_others", wait_for_others},
                                                              {"slow_to_look", slow_to_look},
                                                              {"all_fail", all_fail}};
  // The launcher starts its ranks with these signals blocked.
  const sigset_t signals = stop_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  if (const std::string files = variable("DIST_FILES"); !files.empty()) {
    const rlimit limit{std::stoul(files), std::stoul(files)};
    expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  }
  try {
    roles.at(variable("DIST_ROLE"))();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    abort_group(error.code(), error.what());
    _exit(static_cast<int>(error.code()));
  } catch (const Interrupted&) {
    abort_group(static_cast<Exit>(code_of(g_signal)), kStoppedBySignal);
    _exit(code_of(g_signal));
  }
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace
}  // namespace bv::test

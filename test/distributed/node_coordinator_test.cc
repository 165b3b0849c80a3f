// Agreement between the launchers of several hosts. Here they are objects of one process that share
// a store.
#include "lib/distributed/launch/node_coordinator.h"

#include <chrono>
#include <future>

#include "lib/util/error.h"
#include "test/distributed/workers.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

using Sizes = std::vector<int>;

struct Fixture {
  StoreServer server{"127.0.0.1", 0};
  LaunchOptions options;
  std::vector<NodeCoordinator> nodes;
  explicit Fixture(int count, double answer, const char* elastic = "1:99") {
    options.max_restarts = 9;
    options.answer_timeout = answer;
    if (*elastic) parse_elastic(elastic, options);
    for (int node = 0; node < count; ++node) add(node, count);
  }
  void add(
      int node, int count, std::function<bool()> stop = [] { return false; }) {
    nodes.emplace_back(node, count, store(), std::move(stop));
  }
  Store store() const { return {"127.0.0.1", server.port(), "nodes", 10}; }

  struct Next {
    Sizes sizes;
    double seconds;
  };
  // Node `node` reports that the generation ended with `code` and that `failed` of its ranks
  // failed.
  std::future<Next> end(int node, int generation, const Sizes& sizes, int code = 7,
                        int failed = 0) {
    return std::async(std::launch::async, [=, this] {
      const double begun = now();
      Sizes next = nodes[static_cast<size_t>(node)].next(generation, code, failed, sizes, options);
      return Next{std::move(next), now() - begun};
    });
  }
};

void check_left_out(std::future<Fixture::Next> next, int node) {
  try {
    next.get();
    FAIL("the node was not left out");
  } catch (const Error& error) {
    CHECK(error.what() ==
          fmt::format("[distributed] the other nodes continued without this one (node {})", node));
    CHECK(error.code() == Exit::peer);
  }
}

TEST_CASE(
    "nodes start with the number of ranks that each reports, and again with the same numbers") {
  Fixture f(3, 20, "");
  std::vector<std::future<Sizes>> starts;
  for (const int node : {2, 0, 1})
    starts.push_back(std::async(std::launch::async, [&f, node] {
      return f.nodes[static_cast<size_t>(node)].sizes(node + 1, 20);
    }));
  for (auto& start : starts) CHECK(start.get() == Sizes{1, 2, 3});
  std::vector<std::future<Fixture::Next>> all;
  for (int node = 0; node < 3; ++node)
    all.push_back(f.end(node, 0, {1, 2, 3}, node == 1 ? 137 : 7, node == 1));
  for (auto& one : all) CHECK(one.get().sizes == Sizes{1, 2, 3});
}

TEST_CASE("a node that does not join at the start is named") {
  Fixture f(2, 1);
  CHECK_THROWS_WITH(f.nodes[0].sizes(1, 0.3), "[distributed] node 1 did not join within 0.3 s");
}

TEST_CASE("a launcher that has waited for 5 s says for which nodes, once") {
  Fixture f(3, 1);
  f.store().set("launch/0/size/1", "1 x");
  const std::string log = logged([&] {
    CHECK_THROWS_WITH(f.nodes[0].sizes(1, 5.6), "[distributed] node 2 did not join within 5.6 s");
  });
  CHECK(count(log, "waiting for node 2 to join (5.6 s at most)\n") == 1);
  CHECK(count(log, "waiting for") == 1);
}

TEST_CASE("an exit code that forbids a restart, a signal or a normal end stops all nodes") {
  for (const auto& [first, second] :
       {std::pair{7, 2}, {4, 7}, {7, 143}, {75, 75}, {0, 0}, {0, 130}}) {
    Fixture f(2, 20);
    auto one = f.end(0, 0, {1, 1}, first), two = f.end(1, 0, {1, 1}, second);
    CHECK(one.get().sizes.empty());
    CHECK(two.get().sizes.empty());
  }
  // One node failed and the other ended normally: they start again.
  Fixture f(2, 20);
  auto one = f.end(0, 0, {1, 1}, 0), two = f.end(1, 0, {1, 1}, 6, 1);
  CHECK(one.get().sizes == Sizes{1, 1});
  CHECK(two.get().sizes == Sizes{1, 1});
}

TEST_CASE("a signal stops all nodes, even while they wait for a lost one") {
  // Node 0 stops waiting; node 1 reports the signal when it is asked again.
  Fixture told_first(0, 30), told_second(0, 4);
  std::vector<std::future<Fixture::Next>> all;
  for (Fixture* f : {&told_first, &told_second}) {
    const int stopped = f == &told_first ? 0 : 1;
    const double told = now() + 1;
    for (int node = 0; node < 2; ++node)
      f->add(node, 3, [=] { return node == stopped && now() > told; });
    for (int node = 0; node < 2; ++node) all.push_back(f->end(node, 0, {1, 1, 1}));
  }
  for (auto& one : all) {
    const Fixture::Next next = one.get();
    CHECK(next.sizes.empty());
    CHECK(next.seconds < 25);  // node 0 does not wait up to 30 s for the lost node
  }
}

TEST_CASE("a node that does not answer is left out, and not waited for again") {
  constexpr double kAnswer = 4;  // seconds to wait for a node
  Fixture f(3, kAnswer);
  auto one = f.end(0, 0, {2, 2, 2}), three = f.end(2, 0, {2, 2, 2}, 137, 1);
  const Fixture::Next first = one.get();
  CHECK(first.sizes == Sizes{2, 0, 1});
  CHECK(first.seconds >= kAnswer);
  CHECK(three.get().sizes == Sizes{2, 0, 1});
  // It comes back too late, and finds that the others have continued.
  check_left_out(f.end(1, 0, {2, 2, 2}), 1);
  one = f.end(0, 1, {2, 0, 1}, 137, 1), three = f.end(2, 1, {2, 0, 1});
  const Fixture::Next second = one.get();
  CHECK(second.sizes == Sizes{1, 0, 1});
  CHECK(second.seconds < kAnswer);
  CHECK(three.get().sizes == Sizes{1, 0, 1});
  // Nor do they wait for it when the restarts are used up.
  f.options.max_restarts = 2;
  one = f.end(0, 2, {1, 0, 1}), three = f.end(2, 2, {1, 0, 1});
  const Fixture::Next last = one.get();
  CHECK(last.sizes.empty());
  CHECK(last.seconds < kAnswer);
  CHECK(three.get().sizes.empty());
}

TEST_CASE("a node that is lost while the others wait for another one is left out, too") {
  constexpr double kAnswer = 3;
  Fixture f(4, kAnswer);
  auto one = f.end(0, 0, {1, 1, 1, 1}), four = f.end(3, 0, {1, 1, 1, 1});
  // Node 2 reported this before it was lost; node 1 did not.
  f.store().set("launch/0/end/0/2", "7 0");
  const Fixture::Next next = one.get();
  CHECK(next.sizes == Sizes{1, 0, 0, 1});
  CHECK(next.seconds >= 2 * kAnswer);
  CHECK(four.get().sizes == Sizes{1, 0, 0, 1});
  check_left_out(f.end(1, 0, {1, 1, 1, 1}), 1);
  check_left_out(f.end(2, 0, {1, 1, 1, 1}), 2);
}

TEST_CASE("without --elastic, or with too few ranks left, a lost node ends the run") {
  for (const char* elastic : {"", "4:6"}) {
    Fixture f(3, 0.5, elastic);
    auto one = f.end(0, 0, {2, 2, 2}), two = f.end(1, 0, {2, 2, 2}, 137, 1);
    CHECK(one.get().sizes.empty());
    CHECK(two.get().sizes.empty());
    CHECK(f.end(2, 0, {2, 2, 2}).get().sizes.empty());  // nobody continued without it
  }
}

TEST_CASE("a node that has no place in the next number of ranks learns it") {
  Fixture f(3, 20);
  f.options.batch_size = 8;
  auto one = f.end(0, 0, {2, 1, 1}, 137, 1), two = f.end(1, 0, {2, 1, 1});
  auto three = f.end(2, 0, {2, 1, 1});
  CHECK(one.get().sizes == Sizes{1, 1, 0});
  CHECK(two.get().sizes == Sizes{1, 1, 0});
  check_left_out(std::move(three), 2);
}

TEST_CASE("the exit codes after which a group may start again") {
  for (const int code : {1, 3, 5, 6, 7, 137, 139}) CHECK(may_restart(code));
  for (const int code : {0, 2, 4, 75, 130, 143}) CHECK_FALSE(may_restart(code));
}

TEST_CASE("elastic restarts keep a number of ranks that divides the batch") {
  LaunchOptions options;
  CHECK(shrink({4, 4}, {1, 0}, options) == Sizes{4, 4});  // not elastic
  parse_elastic("2:8", options);
  CHECK(shrink({4, 4}, {1, 0}, options) == Sizes{3, 4});
  options.batch_size = 256;
  CHECK(shrink({8}, {1}, options) == Sizes{4});
  CHECK(shrink({4, 4}, {1, 0}, options) == Sizes{2, 2});
  CHECK(shrink({1, 1}, {1, 1}, options) == Sizes{1, 1});
  parse_elastic("3:8", options);
  CHECK(shrink({3}, {1}, options).empty());
  options.batch_size = 7;
  CHECK(shrink({6}, {0}, options).empty());
  for (const char* bad : {"", "2", "0:4", "4:2", "a:b", "2:4x", "-1:4", "2:4:8"})
    CHECK_THROWS_WITH(parse_elastic(bad, options), "--elastic " + std::string(bad) +
                                                       ": error: expected MIN:MAX with 1 <= MIN <= "
                                                       "MAX");
}

TEST_CASE("a lost node keeps no rank, any other keeps one") {
  LaunchOptions options;
  parse_elastic("1:64", options);
  CHECK(shrink({2, 0, 2}, {0, 0, 0}, options) == Sizes{2, 0, 2});
  CHECK(shrink({2, 0, 2}, {2, 0, 1}, options) == Sizes{1, 0, 1});
  CHECK(shrink({1, 0, 0}, {1, 0, 0}, options) == Sizes{1, 0, 0});
  options.batch_size = 256;
  CHECK(shrink({8, 0, 8, 8}, {0, 0, 0, 0}, options) == Sizes{5, 0, 5, 6});
  parse_elastic("3:64", options);
  CHECK(shrink({2, 0}, {0, 0}, options).empty());
  // 3 does not divide 256, and 2 are too few.
  CHECK(shrink({1, 0, 1, 1}, {0, 0, 0, 0}, options).empty());
}

TEST_CASE(
    "with one rank per node some nodes are left out so that the ranks divide the batch, never node "
    "0") {
  LaunchOptions options;
  parse_elastic("1:64", options);
  options.batch_size = 8;
  CHECK(shrink({1, 0, 1, 1}, {0, 0, 0, 0}, options) == Sizes{1, 0, 1, 0});
  CHECK(shrink({1, 0, 1, 1}, {0, 0, 1, 0}, options) == Sizes{1, 0, 0, 1});
  CHECK(shrink({1, 1, 1, 1, 1, 1, 0}, {1, 0, 1, 0, 1, 0, 0}, options) ==
        Sizes{1, 1, 0, 1, 0, 1, 0});
  options.batch_size = 7;
  CHECK(shrink({1, 1, 0, 1}, {1, 0, 0, 0}, options) == Sizes{1, 0, 0, 0});
}

TEST_CASE("the ranks that are left divide the batch and are within --elastic") {
  LaunchOptions options;
  for (int trial = 0; trial < 2000; ++trial) {
    auto draw = [&, at = uint64_t{0}](int below) mutable {
      const uint64_t bits = (static_cast<uint64_t>(trial) * 31 + ++at) * 0x9e3779b97f4a7c15u;
      return static_cast<int>((bits >> 33) % static_cast<uint64_t>(below));
    };
    Sizes sizes{1 + draw(4)}, failed{draw(sizes[0] + 1)};
    for (int node = draw(6); node > 0; --node) {
      sizes.push_back(draw(5));
      failed.push_back(draw(sizes.back() + 1));
    }
    options.least_ranks = 1 + draw(6);
    options.most_ranks = options.least_ranks + draw(20);
    options.batch_size = draw(100);
    const Sizes next = shrink(sizes, failed, options);
    INFO(trial);
    int left = 0, total = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      left += std::max(sizes[i] - failed[i], std::min(sizes[i], 1));
    if (next.empty()) {  // there is no such number
      for (int n = options.least_ranks; n <= std::min(left, options.most_ranks); ++n)
        CHECK((options.batch_size > 0 && options.batch_size % n != 0));
      continue;
    }
    REQUIRE(next.size() == sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      CHECK(next[i] >= 0);
      CHECK(next[i] <= std::max(sizes[i] - failed[i], std::min(sizes[i], 1)));
      total += next[i];
    }
    CHECK(next[0] >= 1);
    CHECK(total >= options.least_ranks);
    CHECK(total <= options.most_ranks);
    if (options.batch_size > 0) CHECK(options.batch_size % total == 0);
  }
}

}  // namespace
}  // namespace bv::test

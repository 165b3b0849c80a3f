// Keys in the store for generation <g>:
//   launch/0/size/<node>           "<ranks> <random>", at the start
//   launch/<g>/end/<round>/<node>  "<code> <failed>", the answer of each node
//   launch/<g>/decision/<round>    node 0's decision: "stop", "again", or the ranks of each node
//   launch/<g>/read                how many other nodes have read the last decision
#include "lib/distributed/launch/node_coordinator.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "lib/distributed/wait_notice.h"
#include "lib/distributed/watch/deadline.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFinalWait = 5;             // seconds to wait for other nodes when the run ends
constexpr double kSignalPollInterval = 0.2;  // seconds between two checks for a signal
constexpr const char* kStop = "stop";
// A node did not answer. Others may have been lost while node 0 waited for it: all answer again.
constexpr const char* kAgain = "again";

std::string key(int generation, const char* name) {
  return fmt::format("launch/{}/{}", generation, name);
}
std::string key(int generation, const char* name, int index) {
  return fmt::format("launch/{}/{}/{}", generation, name, index);
}
std::string end_key(int generation, int round, int node) {
  return fmt::format("launch/{}/end/{}/{}", generation, round, node);
}

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
double left_until(Clock::time_point end) {
  return std::chrono::duration<double>(end - Clock::now()).count();
}

// Parses integers separated by spaces; anything else counts as `fallback`.
std::vector<int> numbers(const std::string& text, int fallback) {
  std::vector<int> values;
  for (const std::string& part : split(text, ' ')) {
    int value = fallback;
    std::from_chars(part.data(), part.data() + part.size(), value);
    values.push_back(value);
  }
  return values;
}

int sum(const std::vector<int>& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 0); }

// Removes the failed ranks, but keeps at least one on each node that has any.
std::vector<int> without_failed(std::vector<int> sizes, const std::vector<int>& failed) {
  for (size_t node = 0; node < sizes.size(); ++node)
    if (sizes[node] > 0) sizes[node] = std::max(1, sizes[node] - failed.at(node));
  return sizes;
}

// Returns the node that gives up a rank: the first of those with the most ranks. If each has one,
// returns the last node whose ranks failed or, if none failed, the last node.
size_t node_to_shrink(const std::vector<int>& sizes, const std::vector<int>& failed) {
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  if (*largest > 1) return static_cast<size_t>(largest - sizes.begin());
  size_t found = 0;
  for (size_t node = 1; node < sizes.size(); ++node)
    if (sizes[node] > 0 && (found == 0 || failed.at(node) > 0 || failed.at(found) == 0))
      found = node;
  return found;
}

// "node 1", "nodes 1, 3"
std::string node_list(const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(std::to_string(node));
  return (nodes.size() == 1 ? "node " : "nodes ") + join(names, ", ");
}

// The answers of all nodes at the end of a generation.
struct NodeAnswers {
  bool restart = false;     // all codes allow a restart, and at least one is not 0
  std::vector<int> lost;    // nodes that did not answer
  std::vector<int> sizes;   // ranks of each node; 0 for lost nodes
  std::vector<int> failed;  // of these, the ranks that failed
};

NodeAnswers read_answers(const std::vector<int>& sizes,
                         const std::map<int, std::string>& answered) {
  NodeAnswers answers{true, {}, sizes, std::vector<int>(sizes.size(), 0)};
  bool any = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto answer = answered.find(static_cast<int>(i));
    if (answer == answered.end()) {
      if (std::exchange(answers.sizes[i], 0) > 0) answers.lost.push_back(static_cast<int>(i));
      continue;
    }
    const std::vector<int> ended = numbers(answer->second, static_cast<int>(Exit::usage));
    any |= ended.at(0) != 0;
    answers.restart &= ended.at(0) == 0 || may_restart(ended.at(0));
    answers.failed[i] = ended.at(1);
  }
  answers.restart &= any;
  return answers;
}

// Returns ": ...", the reason why there is no restart although the codes allow one, or "".
std::string why_no_restart(const NodeAnswers& answers, const LaunchOptions& options) {
  const int least = options.least_ranks;
  if (!answers.restart) return "";
  if (least == 0) return ": a run continues without a node only with --elastic";
  const int left = sum(without_failed(answers.sizes, answers.failed));
  const std::string are =
      left == 1 ? std::string("1 rank is left") : fmt::format("{} ranks are left", left);
  if (left < least)
    return fmt::format(": {}, but --elastic {}:{} needs {}", are, least, options.most_ranks, least);
  return fmt::format(": {}, and no number from {} to {} divides the batch size", are, least,
                     std::min(left, options.most_ranks));
}

// Returns the ranks of each node in the next generation, or nothing if there is none. `answered`
// maps nodes to their answers; nodes of `sizes` without an answer are lost. Logs what changes.
std::vector<int> decide(const std::vector<int>& sizes, const std::map<int, std::string>& answered,
                        const LaunchOptions& options) {
  const NodeAnswers answers = read_answers(sizes, answered);
  std::vector<int> next;
  if (answers.restart && (answers.lost.empty() || options.least_ranks > 0))
    next = shrink(answers.sizes, answers.failed, options);
  std::vector<int> left_out;
  for (size_t i = 0; i < next.size(); ++i)
    if (answers.sizes[i] > 0 && next[i] == 0) left_out.push_back(static_cast<int>(i));
  if (!left_out.empty())
    log::warn("continuing without {}, because the number of ranks must divide the batch size",
              node_list(left_out));
  const bool all = answers.lost.empty();
  const std::string missing = all ? "" : node_list(answers.lost) + " did not answer; ";
  if (next.empty() && (answers.restart || !all))
    log::warn("{}not starting again{}", missing, why_no_restart(answers, options));
  else if (!all)
    log::warn("{}starting again without {}", missing, answers.lost.size() == 1 ? "it" : "them");
  return next;
}

}  // namespace

bool orderly(int code) {
  return code == static_cast<int>(Exit::ok) || code == static_cast<int>(Exit::stopped) ||
         code == static_cast<int>(Exit::sigint) || code == static_cast<int>(Exit::sigterm);
}

bool may_restart(int code) {
  return !orderly(code) && code != static_cast<int>(Exit::usage) &&
         code != static_cast<int>(Exit::diverged);
}

std::vector<int> shrink(std::vector<int> sizes, const std::vector<int>& failed,
                        const LaunchOptions& options) {
  if (options.least_ranks == 0) return sizes;
  sizes = without_failed(std::move(sizes), failed);
  int total = sum(sizes);
  const auto fits = [&] {
    return total <= options.most_ranks &&
           (options.batch_size <= 0 || options.batch_size % total == 0);
  };
  for (; total > 1 && !fits(); --total) --sizes[node_to_shrink(sizes, failed)];
  if (total < options.least_ranks) return {};
  return sizes;
}

bool NodeCoordinator::await(const std::string& key, double seconds) {
  const auto end = after(seconds);
  while (!store_.has({key})) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Rejects a launcher whose node number is taken: a command given twice, or with another host's
// --node-rank.
void NodeCoordinator::claim_node(int mine) {
  std::random_device random;
  const std::string own = fmt::format("{} {:08x}{:08x}", mine, random(), random());
  if (store_.exchange(key(0, "size", node_), "", own) == own) return;
  throw Error(
      Exit::usage, fmt::format("--node-rank {}", node_),
      fmt::format("node {} has joined already: was this command given twice, or on two hosts?",
                  node_));
}

// Returns the nodes that have not joined.
std::vector<int> NodeCoordinator::missing_nodes() {
  std::vector<int> missing;
  for (int node = 0; node < count_; ++node)
    if (!store_.has({key(0, "size", node)})) missing.push_back(node);
  return missing;
}

std::vector<int> NodeCoordinator::sizes(int mine, double seconds) {
  if (count_ == 1) return {mine};
  claim_node(mine);
  std::vector<int> sizes;
  const auto end = after(seconds);
  WaitNotice notice;
  for (int node = 0; node < count_; ++node) {
    const std::string name = key(0, "size", node);
    while (!await(name, kSignalPollInterval)) {
      if (stop_()) return {};
      const std::vector<int> missing = notice.due() ? missing_nodes() : std::vector<int>();
      if (!missing.empty())
        log::info("waiting for {} to join ({:g} s at most)", node_list(missing), seconds);
      if (Clock::now() > end)
        throw Error::in("distributed", Exit::peer,
                        fmt::format("node {} did not join within {:g} s", node, seconds));
    }
    sizes.push_back(numbers(store_.get(name), 0).at(0));
    if (sizes.back() < 1 || sizes.back() > 65536)
      throw Error::in("distributed", Exit::peer,
                      fmt::format("node {} has no valid number of ranks", node));
  }
  return sizes;
}

// A node that received a stop signal reports the signal, whatever code its ranks ended with.
std::string NodeCoordinator::own_answer(int code, int failed) const {
  const bool stopped = code != 0 && stop_();
  return fmt::format("{} {}", stopped ? static_cast<int>(Exit::sigterm) : code, failed);
}

// Whether the answer `key` arrives within `seconds`. After a stop signal it waits at most
// kFinalWait.
bool NodeCoordinator::await_answer(const std::string& key, double seconds) {
  const auto end = after(seconds);
  while (!await(key, std::min(kSignalPollInterval, left_until(end)))) {
    if (Clock::now() > end) return false;
    if (stop_()) return await(key, std::min(kFinalWait, left_until(end)));
  }
  return true;
}

// On node 0: reads the answers of the nodes in `answered` and removes those that do not arrive
// within `seconds`. Returns whether all arrived.
bool NodeCoordinator::collect_answers(int generation, int round, double seconds,
                                      std::map<int, std::string>& answered) {
  const auto end = after(seconds);
  const size_t asked = answered.size();
  for (auto node = answered.begin(); node != answered.end();) {
    const std::string name = end_key(generation, round, node->first);
    if (await_answer(name, left_until(end)))
      (node++)->second = store_.get(name);
    else
      node = answered.erase(node);
  }
  return answered.size() == asked;
}

// On node 0: asks until all remaining nodes have answered in the same round, decides, and returns
// the decision.
std::string NodeCoordinator::decide_as_leader(int generation, int code, int failed,
                                              const std::vector<int>& sizes,
                                              const LaunchOptions& options) {
  std::map<int, std::string> answered;
  for (int node = 0; node < count_; ++node)
    if (sizes.at(static_cast<size_t>(node)) > 0) answered[node];
  int round = 0;
  while (true) {
    store_.set(end_key(generation, round, node_), own_answer(code, failed));
    if (collect_answers(generation, round, options.answer_timeout, answered)) break;
    store_.set(key(generation, "decision", round++), kAgain);
  }
  answered[node_] = own_answer(code, failed);  // a signal may have arrived meanwhile
  std::vector<std::string> next;
  for (const int size : decide(sizes, answered, options)) next.push_back(std::to_string(size));
  const std::string decision = next.empty() ? kStop : join(next, " ");
  store_.set(key(generation, "decision", round), decision);
  const auto end = after(kFinalWait);
  const int64_t others = std::ssize(answered) - 1;
  while (store_.add(key(generation, "read"), 0) < others && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return decision;
}

// On the other nodes: answers each time node 0 asks. Returns its decision, or "stop" if none
// arrives.
std::string NodeCoordinator::await_decision(int generation, int code, int failed,
                                            double answer_timeout) {
  for (int round = 0;; ++round) {
    const Deadline deadline(3 * answer_timeout,
                            "[distributed] the launcher of node 0 does not answer");
    store_.set(end_key(generation, round, node_), own_answer(code, failed));
    const std::string name = key(generation, "decision", round);
    const std::string decision = await(name, 1.5 * answer_timeout) ? store_.get(name) : kStop;
    if (decision == kAgain) continue;
    store_.add(key(generation, "read"), 1);
    return decision;
  }
}

// Used when no restart is left and there is nothing to decide. The store is in node 0's launcher,
// which waits until the other nodes no longer need it.
void NodeCoordinator::exchange_final_answers(int generation, const std::string& answer,
                                             const std::vector<int>& sizes) {
  store_.set(end_key(generation, 0, node_), answer);
  for (int node = 0; node_ == 0 && node < count_; ++node) {
    const bool has_ranks = sizes.at(static_cast<size_t>(node)) > 0;
    if (has_ranks && !await(end_key(generation, 0, node), kFinalWait)) break;
  }
}

std::vector<int> NodeCoordinator::next(int generation, int code, int failed,
                                       const std::vector<int>& sizes,
                                       const LaunchOptions& options) {
  const bool last = generation >= options.max_restarts;
  if (count_ == 1)
    return last ? std::vector<int>() : decide(sizes, {{0, own_answer(code, failed)}}, options);
  std::string decision = kStop;
  try {
    if (last)
      exchange_final_answers(generation, own_answer(code, failed), sizes);
    else
      decision = node_ == 0 ? decide_as_leader(generation, code, failed, sizes, options)
                            : await_decision(generation, code, failed, options.answer_timeout);
  } catch (const std::exception&) {
    return {};  // node 0 is gone; the ranks of this node have reported that
  }
  if (decision == kStop) return {};
  const std::vector<int> next = numbers(decision, 0);
  if (std::ssize(next) != count_) return {};
  if (next.at(static_cast<size_t>(node_)) > 0) return next;
  throw Error::in("distributed", Exit::peer,
                  fmt::format("the other nodes continued without this one (node {})", node_));
}

}  // namespace bv

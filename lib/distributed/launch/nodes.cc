// Keys in the store, for generation <g>:
//   launch/0/size/<node>           "<ranks> <random>", at the start
//   launch/<g>/end/<round>/<node>  "<code> <failed>", each node's answer
//   launch/<g>/word/<round>        node 0's word on them: "stop", "again", or each node's ranks
//   launch/<g>/read                how many others have read the last one
#include "lib/distributed/launch/nodes.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "lib/distributed/watch/leave.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLastWords = 5;  // seconds
constexpr double kLook = 0.2;     // seconds between two looks for a signal
constexpr const char* kStop = "stop";
// A node did not answer. While it was waited for, others may have gone: all answer once more.
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

// Whole numbers, separated by blanks; what is none counts as `fallback`.
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

// Without the ranks that failed, but one of each node that has any.
std::vector<int> without(std::vector<int> sizes, const std::vector<int>& failed) {
  for (size_t node = 0; node < sizes.size(); ++node)
    if (sizes[node] > 0) sizes[node] = std::max(1, sizes[node] - failed.at(node));
  return sizes;
}

// The node that does with a rank less: the first with most; where each has one, the last, but
// rather one whose ranks failed.
size_t giving_node(const std::vector<int>& sizes, const std::vector<int>& failed) {
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  if (*largest > 1) return static_cast<size_t>(largest - sizes.begin());
  size_t found = 0;
  for (size_t node = 1; node < sizes.size(); ++node)
    if (sizes[node] > 0 && (found == 0 || failed.at(node) > 0 || failed.at(found) == 0))
      found = node;
  return found;
}

// "node 1", "nodes 1, 3"
std::string named(const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(std::to_string(node));
  return (nodes.size() == 1 ? "node " : "nodes ") + join(names, ", ");
}

// What the nodes have said of the end of a generation.
struct Heard {
  bool again = false;       // all codes allow a restart, and one asks for it
  std::vector<int> lost;    // nodes that said nothing
  std::vector<int> sizes;   // ranks of each node, without those of lost nodes
  std::vector<int> failed;  // of these
};

Heard read_answers(const std::vector<int>& sizes, const std::map<int, std::string>& said) {
  Heard heard{true, {}, sizes, std::vector<int>(sizes.size(), 0)};
  bool any = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto words = said.find(static_cast<int>(i));
    if (words == said.end()) {
      if (std::exchange(heard.sizes[i], 0) > 0) heard.lost.push_back(static_cast<int>(i));
      continue;
    }
    const std::vector<int> ended = numbers(words->second, static_cast<int>(Exit::usage));
    any |= ended.at(0) != 0;
    heard.again &= ended.at(0) == 0 || may_restart(ended.at(0));
    heard.failed[i] = ended.at(1);
  }
  heard.again &= any;
  return heard;
}

// ": ..." where codes allow a restart and there is none.
std::string why_none(const Heard& heard, const LaunchOptions& options) {
  const int least = options.least_ranks;
  if (!heard.again) return "";
  if (least == 0) return ": only with --elastic does a run go on without a node";
  const int left = sum(without(heard.sizes, heard.failed));
  const std::string are =
      left == 1 ? std::string("1 rank is left") : fmt::format("{} ranks are left", left);
  if (left < least)
    return fmt::format(": {}, and --elastic {}:{} asks for {}", are, least, options.most_ranks,
                       least);
  return fmt::format(": {}, and no number from {} to {} divides the batch size", are, least,
                     std::min(left, options.most_ranks));
}

// The ranks of each node in the next generation, or nothing, from what the nodes `said`; those of
// `sizes` that said nothing are lost. Warns of what is not as it was.
std::vector<int> decide(const std::vector<int>& sizes, const std::map<int, std::string>& said,
                        const LaunchOptions& options) {
  const Heard heard = read_answers(sizes, said);
  std::vector<int> next;
  if (heard.again && (heard.lost.empty() || options.least_ranks > 0))
    next = shrink(heard.sizes, heard.failed, options);
  std::vector<int> left_out;
  for (size_t i = 0; i < next.size(); ++i)
    if (heard.sizes[i] > 0 && next[i] == 0) left_out.push_back(static_cast<int>(i));
  if (!left_out.empty())
    log::warn("going on without {}, as the number of ranks must divide the batch size",
              named(left_out));
  const bool all = heard.lost.empty();
  const std::string missing = all ? "" : named(heard.lost) + " did not answer; ";
  if (next.empty() && (heard.again || !all))
    log::warn("{}not starting again{}", missing, why_none(heard, options));
  else if (!all)
    log::warn("{}starting again without {}", missing, heard.lost.size() == 1 ? "it" : "them");
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
  sizes = without(std::move(sizes), failed);
  int total = sum(sizes);
  const auto fits = [&] {
    return total <= options.most_ranks &&
           (options.batch_size <= 0 || options.batch_size % total == 0);
  };
  for (; total > 1 && !fits(); --total) --sizes[giving_node(sizes, failed)];
  if (total < options.least_ranks) return {};
  return sizes;
}

bool Nodes::await(const std::string& key, double seconds) {
  const auto end = after(seconds);
  while (!store_.has({key})) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// A command given twice, or with another host's --node-rank, must not join the run.
void Nodes::claim(int mine) {
  std::random_device random;
  const std::string own = fmt::format("{} {:08x}{:08x}", mine, random(), random());
  if (store_.exchange(key(0, "size", node_), "", own) == own) return;
  throw Error(
      Exit::usage, fmt::format("--node-rank {}", node_),
      fmt::format("node {} is there already: was this command given twice, or on two hosts?",
                  node_));
}

std::vector<int> Nodes::sizes(int mine, double seconds) {
  if (count_ == 1) return {mine};
  claim(mine);
  std::vector<int> sizes;
  const auto end = after(seconds);
  for (int node = 0; node < count_; ++node) {
    const std::string name = key(0, "size", node);
    while (!await(name, kLook)) {
      if (stop_()) return {};
      if (Clock::now() > end)
        throw Error::in("distributed", Exit::peer,
                        fmt::format("node {} did not come within {:g} s", node, seconds));
    }
    sizes.push_back(numbers(store_.get(name), 0).at(0));
    if (sizes.back() < 1 || sizes.back() > 65536)
      throw Error::in("distributed", Exit::peer, fmt::format("node {} offers no ranks", node));
  }
  return sizes;
}

// A node that is told to stop says so, whatever its ranks made of it.
std::string Nodes::words(int code, int failed) const {
  const bool stopped = code != 0 && stop_();
  return fmt::format("{} {}", stopped ? static_cast<int>(Exit::sigterm) : code, failed);
}

// Whether a node's answer comes within `seconds`; a run that is told to stop waits no longer than
// for last words.
bool Nodes::answers(const std::string& key, double seconds) {
  const auto end = after(seconds);
  while (!await(key, std::min(kLook, left_until(end)))) {
    if (Clock::now() > end) return false;
    if (stop_()) return await(key, std::min(kLastWords, left_until(end)));
  }
  return true;
}

// On node 0: the answers of the nodes in `said`, less those that do not come within `seconds`.
// Whether all came.
bool Nodes::ask(int generation, int round, double seconds, std::map<int, std::string>& said) {
  const auto end = after(seconds);
  const size_t asked = said.size();
  for (auto node = said.begin(); node != said.end();) {
    const std::string name = end_key(generation, round, node->first);
    if (answers(name, left_until(end)))
      (node++)->second = store_.get(name);
    else
      node = said.erase(node);
  }
  return said.size() == asked;
}

// On node 0: asks until all that are left have answered at once, and decides. Its last word.
std::string Nodes::lead(int generation, int code, int failed, const std::vector<int>& sizes,
                        const LaunchOptions& options) {
  std::map<int, std::string> said;
  for (int node = 0; node < count_; ++node)
    if (sizes.at(static_cast<size_t>(node)) > 0) said[node];
  int round = 0;
  while (true) {
    store_.set(end_key(generation, round, node_), words(code, failed));
    if (ask(generation, round, options.answer, said)) break;
    store_.set(key(generation, "word", round++), kAgain);
  }
  said[node_] = words(code, failed);  // a signal may have come meanwhile
  std::vector<std::string> next;
  for (const int size : decide(sizes, said, options)) next.push_back(std::to_string(size));
  const std::string word = next.empty() ? kStop : join(next, " ");
  store_.set(key(generation, "word", round), word);
  const auto end = after(kLastWords);
  const int64_t others = std::ssize(said) - 1;
  while (store_.add(key(generation, "read"), 0) < others && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return word;
}

// On the others: answers as often as node 0 asks. Its last word, "stop" where it says nothing.
std::string Nodes::follow(int generation, int code, int failed, double answer) {
  for (int round = 0;; ++round) {
    const Alarm alarm(3 * answer, "[distributed] the launcher of node 0 does not answer");
    store_.set(end_key(generation, round, node_), words(code, failed));
    const std::string name = key(generation, "word", round);
    const std::string word = await(name, 1.5 * answer) ? store_.get(name) : kStop;
    if (word == kAgain) continue;
    store_.add(key(generation, "read"), 1);
    return word;
  }
}

// Where nothing is to be decided. But the store lives in node 0's launcher, which stays so long.
void Nodes::last_words(int generation, const std::string& words, const std::vector<int>& sizes) {
  store_.set(end_key(generation, 0, node_), words);
  for (int node = 0; node_ == 0 && node < count_; ++node) {
    const bool there = sizes.at(static_cast<size_t>(node)) > 0;
    if (there && !await(end_key(generation, 0, node), kLastWords)) break;
  }
}

std::vector<int> Nodes::next(int generation, int code, int failed, const std::vector<int>& sizes,
                             const LaunchOptions& options) {
  const bool last = generation >= options.max_restarts;
  if (count_ == 1)
    return last ? std::vector<int>() : decide(sizes, {{0, words(code, failed)}}, options);
  std::string word = kStop;
  try {
    if (last)
      last_words(generation, words(code, failed), sizes);
    else
      word = node_ == 0 ? lead(generation, code, failed, sizes, options)
                        : follow(generation, code, failed, options.answer);
  } catch (const std::exception&) {
    return {};  // node 0 is gone; this node's ranks have said so
  }
  if (word == kStop) return {};
  const std::vector<int> next = numbers(word, 0);
  if (std::ssize(next) != count_) return {};
  if (next.at(static_cast<size_t>(node_)) > 0) return next;
  throw Error::in("distributed", Exit::peer,
                  fmt::format("the other nodes went on without this one (node {})", node_));
}

}  // namespace bv

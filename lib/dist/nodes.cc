#include "lib/dist/nodes.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLastWords = 5;  // seconds

std::string key(int generation, const char* name) {
  return fmt::format("launch/{}/{}", generation, name);
}
std::string key(int generation, const char* name, int node) {
  return fmt::format("launch/{}/{}/{}", generation, name, node);
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
  for (size_t node = 0; node < sizes.size(); ++node)
    sizes[node] = std::max(1, sizes[node] - failed.at(node));
  int total = std::accumulate(sizes.begin(), sizes.end(), 0);
  const auto fits = [&] {
    return total <= options.most_ranks &&
           (options.batch_size <= 0 || options.batch_size % total == 0);
  };
  while (!fits()) {
    int& largest = *std::max_element(sizes.begin(), sizes.end());
    if (largest == 1) return {};
    --largest;
    --total;
  }
  if (total < options.least_ranks) return {};
  return sizes;
}

bool Nodes::await(const std::string& key, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
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

std::vector<int> Nodes::sizes(int generation, int mine, double seconds,
                              const std::function<bool()>& stop) {
  if (count_ == 1) return {mine};
  if (generation == 0)
    claim(mine);
  else
    store_.set(key(generation, "size", node_), std::to_string(mine));
  std::vector<int> sizes;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int node = 0; node < count_; ++node) {
    const std::string name = key(generation, "size", node);
    while (!await(name, 0.2)) {
      if (stop()) return {};
      if (Clock::now() > end)
        throw Error::in("dist", Exit::peer,
                        fmt::format("node {} did not come within {:g} s", node, seconds));
    }
    sizes.push_back(numbers(store_.get(name), 0).at(0));
    if (sizes.back() < 1 || sizes.back() > 65536)
      throw Error::in("dist", Exit::peer, fmt::format("node {} offers no ranks", node));
  }
  return sizes;
}

// On node 0: from how the generation ended everywhere. A node that does not say so is gone.
std::vector<int> Nodes::decide(int generation, const std::vector<int>& sizes,
                               const LaunchOptions& options) {
  const auto end = Clock::now() + std::chrono::duration<double>(options.answer);
  bool again = generation < options.max_restarts, any = false;
  std::vector<int> failed;
  for (int node = 0; node < count_; ++node) {
    const std::string name = key(generation, "end", node);
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    const bool answered = await(name, left);
    if (!answered) log::warn("node {} did not answer; not starting again", node);
    const std::vector<int> said =
        numbers(answered ? store_.get(name) : "2 0", static_cast<int>(Exit::usage));
    any |= said.at(0) != 0;
    again &= said.at(0) == 0 || may_restart(said.at(0));
    failed.push_back(said.at(1));
  }
  return again && any ? shrink(sizes, failed, options) : std::vector<int>();
}

std::vector<int> Nodes::next(int generation, int code, int failed, const std::vector<int>& sizes,
                             const LaunchOptions& options) {
  if (count_ == 1) {
    const bool again = may_restart(code) && generation < options.max_restarts;
    return again ? shrink(sizes, {failed}, options) : std::vector<int>();
  }
  const std::string decision = key(generation, "decision"), read = key(generation, "read");
  try {
    store_.set(key(generation, "end", node_), fmt::format("{} {}", code, failed));
    if (generation >= options.max_restarts) {
      // Nothing to decide. But the store lives in node 0's launcher: it stays for the last words.
      for (int node = 0; node_ == 0 && node < count_; ++node)
        if (!await(key(generation, "end", node), kLastWords)) break;
      return {};
    }
    if (node_ == 0) {
      std::vector<std::string> next;
      for (const int size : decide(generation, sizes, options))
        next.push_back(std::to_string(size));
      store_.set(decision, next.empty() ? "stop" : join(next, " "));
    }
    const std::string text = await(decision, 1.5 * options.answer) ? store_.get(decision) : "stop";
    store_.add(read, 1);
    const auto end = Clock::now() + std::chrono::duration<double>(kLastWords);
    while (node_ == 0 && store_.add(read, 0) < count_ && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (text == "stop") return {};
    const std::vector<int> next = numbers(text, 0);
    return std::ssize(next) == count_ ? next : std::vector<int>();
  } catch (const std::exception&) {
    return {};  // node 0 is gone; this node's ranks have said so
  }
}

}  // namespace bv::dist

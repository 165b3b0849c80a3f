#include "lib/train/odd_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "lib/device/device_name.h"
#include "lib/model/kernels/device/device_check.h"
#include "lib/util/error.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// All ranks must call it together. Returns the facts of each rank. `mine`: the facts of this rank.
std::vector<RankFacts> gather_facts(Group& group, const RankFacts& mine, const char* what) {
  std::vector<RankFacts> ranks;
  for (const std::string& text : group.gather_text(
           fmt::format("{}\n{}\n{}", mine.device, mine.host, join(mine.values, "\n")), what)) {
    const std::vector<std::string> parts = split(text, '\n');
    ranks.push_back({parts.at(0), parts.at(1), {parts.begin() + 2, parts.end()}});
  }
  return ranks;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::vector<int> differing_ranks(const std::vector<RankFacts>& ranks) {
  std::map<std::string, int64_t> counts;
  for (const RankFacts& rank : ranks) ++counts[rank.values.at(0)];
  std::vector<int> differing;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (2 * counts[ranks[r].values[0]] <= std::ssize(ranks))
      differing.push_back(static_cast<int>(r));
  return differing;
}

std::map<int, std::string> ranks_with_odd_kernels(const std::vector<RankFacts>& ranks) {
  std::map<int, std::string> odd;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const std::string& kernel : ranks[r].values) {
      const auto is_right = [&](const RankFacts& other) {
        return other.device == ranks[r].device && !has(other.values, kernel);
      };
      if (!kernel.empty() && std::ranges::any_of(ranks, is_right))
        odd.emplace(static_cast<int>(r), kernel);
    }
  }
  return odd;
}

void compare_kernels(Group& group, c10::Device device) {
  const std::vector<RankFacts> ranks =
      gather_facts(group, {device_name(device), host_name(), wrong_kernels(device)}, "kernels");
  const std::map<int, std::string> odd = ranks_with_odd_kernels(ranks);
  if (odd.empty()) return;
  std::vector<std::string> names;
  for (const auto& [rank, kernel] : odd) {
    const RankFacts& facts = ranks[static_cast<size_t>(rank)];
    names.push_back(fmt::format("rank {} ({}, {})", rank, facts.host, facts.device));
  }
  throw Error::in("train", odd.contains(group.rank()) ? Exit::internal : Exit::peer,
                  fmt::format("the fused kernel for {} is wrong on {} but right on other GPUs of "
                              "the same kind: a faulty GPU; leave it out",
                              odd.begin()->second, short_list(names)));
}

void report_odd_states(Group& group, c10::Device device, int64_t step, int64_t digest,
                       const std::string& advice) {
  // CPUs with different numbers of threads round differently, too.
  const std::string kind =
      device_name(device) +
      (device.is_cpu() ? fmt::format(", {} threads", at::get_num_threads()) : "");
  const std::vector<RankFacts> ranks =
      gather_facts(group, {kind, host_name(), {fmt::format("{}", digest)}}, "states");
  const auto is_of_kind = [&](const RankFacts& rank) { return rank.device == kind; };
  if (!std::ranges::all_of(ranks, is_of_kind)) return;
  const std::vector<int> odd = differing_ranks(ranks);
  std::vector<std::string> names;
  for (const int rank : odd)
    names.push_back(fmt::format("rank {} ({})", rank, ranks[static_cast<size_t>(rank)].host));
  const bool known = odd.size() < ranks.size();
  const bool mine = known && std::ranges::find(odd, group.rank()) != odd.end();
  throw Error::in(
      "train", mine ? Exit::internal : Exit::peer,
      fmt::format(
          "after step {} the weights, buffers or optimizer state of {} differ{}: {} ({}) or "
          "its memory is faulty{}",
          step, short_list(names), known ? " from those of the other ranks" : "",
          known ? "a device" : "the device of one of them", kind, advice));
}

}  // namespace bv

#include "lib/input/class_map.h"

#include <algorithm>
#include <map>

#include "lib/util/error.h"
#include "lib/util/parse_count.h"

namespace bv {

std::vector<std::string> names_by_number(const std::vector<std::string>& names) {
  constexpr size_t kMost = 1'000'000;  // a date is a number too
  std::map<size_t, std::string> by_number;
  for (const std::string& name : names) {
    const auto number = parse_count<size_t>(name);
    if (!number || *number >= kMost || !by_number.emplace(*number, name).second) return {};
  }
  if (!by_number.contains(0)) return {};
  std::vector<std::string> sorted;
  for (const auto& [number, name] : by_number) {
    while (sorted.size() < number) sorted.push_back(fmt::format("{}", sorted.size()));
    sorted.push_back(name);
  }
  return sorted;
}

ClassMap::ClassMap(const std::vector<std::string>& from, const ClassNames& to, bool others_unknown)
    : others_unknown_(others_unknown) {
  if (from.empty() || to.names.empty() || from == to.names) return;
  std::map<std::string, std::vector<int64_t>> numbers_of;
  for (size_t i = 0; i < to.names.size(); ++i)
    numbers_of[to.names[i]].push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < from.size(); ++i) {
    const auto found = numbers_of.find(from[i]);
    if (found == numbers_of.end()) {
      numbers_.push_back(kUnknown);
      continue;
    }
    // ImageNet has two classes called crane. Equal positions distinguish them.
    const std::vector<int64_t>& all = found->second;
    const bool same_place = std::find(all.begin(), all.end(), static_cast<int64_t>(i)) != all.end();
    const auto copies = std::count(from.begin(), from.end(), from[i]);
    if ((all.size() > 1 || copies > 1) && !same_place) {
      throw Error(Exit::usage, "",
                  fmt::format("the class name '{}' stands for several classes, so the labels "
                              "cannot be matched with those of {}",
                              from[i], to.owner));
    }
    numbers_.push_back(same_place ? static_cast<int64_t>(i) : all[0]);
  }
}

int64_t ClassMap::operator()(int64_t label) const {
  if (numbers_.empty()) return label;
  if (label < 0 || label >= size()) {
    if (others_unknown_) return kUnknown;
    throw Error(Exit::usage, "",
                fmt::format("the label is {}, but the data names only {} classes", label, size()));
  }
  return numbers_[label];
}

}  // namespace bv

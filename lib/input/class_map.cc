#include "lib/input/class_map.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "lib/util/error.h"
#include "lib/util/parse_count.h"

namespace bv {
namespace {

constexpr size_t kMostNumbers = 1'000'000;  // a date is a number too

}  // namespace

std::vector<std::string> names_by_number(const std::vector<std::string>& names) {
  std::map<size_t, std::string> by_number;
  for (const std::string& name : names) {
    const auto number = parse_count<size_t>(name);
    if (!number || *number >= kMostNumbers || !by_number.emplace(*number, name).second) return {};
  }
  if (!by_number.contains(0)) return {};
  std::vector<std::string> sorted;
  for (const auto& [number, name] : by_number) {
    while (sorted.size() < number) sorted.push_back(fmt::format("{}", sorted.size()));
    sorted.push_back(name);
  }
  return sorted;
}

LabelNames names_of_labels(const std::vector<std::string>& names, const std::set<int64_t>& listed) {
  LabelNames found{.names = names_by_number(names)};
  if (listed.empty() || *listed.begin() < 0 ||
      *listed.rbegin() >= static_cast<int64_t>(kMostNumbers))
    return found;
  const std::set<std::string> known(names.begin(), names.end());
  found.listed = std::all_of(listed.begin(), listed.end(), [&](const int64_t label) {
    return known.contains(fmt::format("{}", label));
  });
  if (!found.listed || !found.names.empty()) return found;
  found.ambiguous = *listed.rbegin() < std::ssize(names) &&
                    std::any_of(listed.begin(), listed.end(), [&](const int64_t label) {
                      return names[static_cast<size_t>(label)] != fmt::format("{}", label);
                    });
  for (int64_t label = 0; label <= *listed.rbegin(); ++label)
    found.names.push_back(fmt::format("{}", label));
  return found;
}

std::vector<std::string> names_of_classes(const std::set<int64_t>& classes,
                                          const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const int64_t label : classes) {
    const bool named = label >= 0 && label < static_cast<int64_t>(names.size());
    all.push_back(named ? names[label] : fmt::format("{}", label));
  }
  return all;
}

ClassMap::ClassMap(const std::vector<std::string>& from, const ClassNames& to, bool others_unknown)
    : others_unknown_(others_unknown) {
  if (from.empty() || to.names.empty() || from == to.names) return;
  std::map<std::string, std::vector<int64_t>> numbers_of;
  for (size_t i = 0; i < to.names.size(); ++i)
    numbers_of[to.names[i]].push_back(static_cast<int64_t>(i));
  std::unordered_map<std::string_view, int64_t> copies;
  for (const std::string& name : from) ++copies[name];
  for (size_t i = 0; i < from.size(); ++i) {
    const auto found = numbers_of.find(from[i]);
    if (found == numbers_of.end()) {
      numbers_.push_back(kUnknown);
      continue;
    }
    // ImageNet has two classes called crane. Equal positions distinguish them.
    const std::vector<int64_t>& all = found->second;
    const bool same_place = std::find(all.begin(), all.end(), static_cast<int64_t>(i)) != all.end();
    if ((all.size() > 1 || copies.at(from[i]) > 1) && !same_place) {
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
    throw Error(
        Exit::usage, "",
        fmt::format("the label is {}, but the data has names for only {} classes", label, size()));
  }
  return numbers_[label];
}

}  // namespace bv

#include "lib/input/sources/common/folder_labels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Splits the name of a folder into its labels. Throws Error(Exit::usage) if a label is empty.
std::vector<std::string> labels_in(const std::string& folder, const FolderLabelKeys& keys) {
  if (!keys.separator) return {folder};
  std::vector<std::string> labels;
  for (size_t begin = 0; begin <= folder.size();) {
    const size_t end = std::min(folder.find(*keys.separator, begin), folder.size());
    if (end == begin) {
      throw Error(Exit::usage, keys.separator_place,
                  fmt::format("separator: the folder '{}' has an empty label", printable(folder)));
    }
    labels.push_back(folder.substr(begin, end - begin));
    begin = end + keys.separator->size();
  }
  return labels;
}

// Reads a label as a number. Leading zeros are allowed, although plain_number() rejects them: they
// pad folder names to equal length.
float number_in(const std::string& folder, const std::string& label, const FolderLabelKeys& keys) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string text = label;
  const size_t begin = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  while (text.size() > begin + 1 && text[begin] == '0' && is_digit(text[begin + 1]))
    text.erase(begin, 1);
  const PlainNumber number = plain_number(text);
  if (number.kind == PlainNumber::Kind::whole || number.kind == PlainNumber::Kind::real)
    return static_cast<float>(number.real);
  const std::string place = keys.separator ? fmt::format("'{}' in the folder name '{}'",
                                                         printable(label), printable(folder))
                                           : fmt::format("the folder name '{}'", printable(folder));
  throw Error(Exit::usage, keys.label_place,
              number.kind == PlainNumber::Kind::huge
                  ? fmt::format("label: number, but {} is too large for float32", place)
                  : fmt::format("label: number, but {} is not a number; if a name holds several "
                                "numbers, set `separator` to the text between them",
                                place));
}

// Returns the names of the classes in the order of their numbers. `found` are the classes in the
// names of the folders. Throws Error(Exit::usage) if the key `classes` lists others.
std::vector<std::string> numbered_classes(const std::set<std::string>& found,
                                          const FolderLabelKeys& keys) {
  if (keys.classes.empty()) return {found.begin(), found.end()};
  const std::set<std::string> listed(keys.classes.begin(), keys.classes.end());
  std::vector<std::string> unlisted, without_folder;
  for (const std::string& name : found) {
    if (!listed.contains(name)) unlisted.push_back(fmt::format("'{}'", printable(name)));
  }
  for (const std::string& name : keys.classes) {
    if (!found.contains(name)) without_folder.push_back(fmt::format("'{}'", printable(name)));
  }
  std::vector<std::string> faults;
  if (!unlisted.empty())
    faults.push_back("does not list these names from the folders: " + short_list(unlisted));
  if (!without_folder.empty())
    faults.push_back("lists names that no folder has: " + short_list(without_folder));
  if (faults.empty()) return keys.classes;
  throw Error(Exit::usage, keys.classes_place, "classes: " + join(faults, "; "));
}

}  // namespace

FolderLabels::FolderLabels(const std::vector<std::string>& folders, const FolderLabelKeys& keys)
    : numbers_(keys.numbers), several_(keys.separator.has_value()) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& folder : folders) all.push_back(labels_in(folder, keys));
  const bool separated =
      std::any_of(all.begin(), all.end(), [](const auto& labels) { return labels.size() > 1; });
  if (several_ && !separated)
    remark_ = fmt::format("no folder name contains the separator '{}', so each image has one label",
                          printable(*keys.separator));
  if (!numbers_) {
    std::set<std::string> names;
    for (const auto& labels : all) names.insert(labels.begin(), labels.end());
    class_names_ = numbered_classes(names, keys);
    std::map<std::string, int64_t> numbers;
    for (const std::string& name : class_names_) numbers.emplace(name, std::ssize(numbers));
    for (const auto& labels : all) {
      class_numbers_.emplace_back();
      for (const std::string& label : labels) class_numbers_.back().push_back(numbers.at(label));
    }
    return;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    values_.emplace_back();
    for (const std::string& label : all[i])
      values_.back().push_back(number_in(folders[i], label, keys));
    if (values_[i].size() == values_[0].size()) continue;
    throw Error(Exit::usage, keys.separator_place,
                fmt::format("separator: all folders need the same count of numbers, but '{}' has "
                            "{} and '{}' has {}",
                            printable(folders[0]), values_[0].size(), printable(folders[i]),
                            values_[i].size()));
  }
}

at::Tensor FolderLabels::tensor(size_t folder) const {
  if (one_class()) return at::full({}, number_of(folder), at::kLong);
  if (!numbers_) {
    at::Tensor labels = at::zeros({static_cast<int64_t>(class_names_.size())}, at::kFloat);
    for (const int64_t number : class_numbers_.at(folder))
      labels.mutable_data_ptr<float>()[number] = 1;
    return labels;
  }
  const std::vector<float>& values = values_.at(folder);
  if (!several_) return at::full({}, values.at(0), at::kFloat);
  at::Tensor labels = at::empty({std::ssize(values)}, at::kFloat);
  std::copy(values.begin(), values.end(), labels.mutable_data_ptr<float>());
  return labels;
}

}  // namespace bv

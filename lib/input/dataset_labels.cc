// What a Dataset knows of its labels without reading examples: how many examples each class has,
// and which classes are missing.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lib/input/class_map.h"
#include "lib/input/dataset.h"
#include "lib/input/rare_classes.h"
#include "lib/util/text.h"

namespace bv {

bool Dataset::for_each_label(const std::function<void(int64_t, int64_t)>& each) const {
  for (const Piece& piece : pieces_) {
    if (!source_->labels(piece.split).defined()) return false;
  }
  int64_t index = 0, in_slices = 0;
  for (const Piece& piece : pieces_) {
    const at::Tensor labels = source_->labels(piece.split);  // (split_size,)
    const int64_t* values = labels.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < piece.size() && index < size_; ++i, ++in_slices) {
      if (!kept_.empty() && kept_[index] != in_slices) continue;
      each(index++, values[piece.source_index(i)]);
    }
  }
  return true;
}

std::vector<int64_t> Dataset::labels() const {
  std::vector<int64_t> all;
  for_each_label([&](int64_t, int64_t source_label) { all.push_back(number_of(source_label)); });
  return all;
}

std::map<int64_t, int64_t> Dataset::label_counts() const {
  std::map<int64_t, int64_t> counts;
  for_each_label([&](int64_t, int64_t source_label) {
    if (source_label == Source::kNoLabel) return;
    const int64_t label = classes_(source_label);
    if (label != ClassMap::kUnknown || classes_.keeps_all()) ++counts[label];
  });
  return counts;
}

std::set<int64_t> Dataset::labels_of_splits() const {
  std::set<int64_t> all;
  for (const auto& [label, count] : split_counts()) all.insert(all.end(), label);
  return all;
}

std::map<int64_t, int64_t> Dataset::split_counts() const {
  std::map<int64_t, int64_t> all;
  for (const Piece& piece : pieces_) {
    const at::Tensor labels = source_->labels(piece.split);  // (split_size,)
    if (!labels.defined()) return {};
    const int64_t* values = labels.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < piece.split_size; ++i) {
      if (values[i] == Source::kNoLabel) continue;
      const int64_t label = classes_(values[i]);
      if (label != ClassMap::kUnknown || classes_.keeps_all()) ++all[label];
    }
  }
  return all;
}

std::vector<std::pair<int64_t, int64_t>> Dataset::label_bounds(size_t each) const {
  std::vector<std::pair<int64_t, int64_t>> least, most;
  // `better`: the label is more extreme than those found so far.
  const auto take = [each](auto& found, int64_t index, int64_t label, bool better) {
    if (better) found.clear();
    const bool equal = found.empty() || found[0].second == label;
    if (equal && found.size() < each) found.emplace_back(index, label);
  };
  for_each_label([&](int64_t index, int64_t source_label) {
    if (source_label == Source::kNoLabel) return;
    const int64_t label = classes_(source_label);
    take(least, index, label, !least.empty() && label < least[0].second);
    take(most, index, label, !most.empty() && label > most[0].second);
  });
  least.insert(least.end(), most.begin(), most.end());
  return least;
}

bool Dataset::divided_by_numbers() const {
  return source_->class_names().empty() &&
         std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
           return (piece.permuted || !piece.fold.empty()) && source_->labels(piece.split).defined();
         });
}

bool Dataset::is_whole() const {
  return kept_.empty() && std::all_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
           return piece.size() == piece.split_size;
         });
}

std::set<int64_t> Dataset::lost_labels(const std::map<int64_t, int64_t>& splits) const {
  std::set<int64_t> lost;
  for (const auto& [label, count] : splits) lost.insert(lost.end(), label);
  for_each_label([&](int64_t, int64_t label) { lost.erase(number_of(label)); });
  return lost;
}

std::string Dataset::missing_text(const std::set<int64_t>& lost, size_t all) const {
  if (lost.empty()) return "";
  return fmt::format("split '{}' has no example of {} of the {} classes: {}", split_, lost.size(),
                     all, short_list(names_of_classes(lost, class_names_), /*counted=*/false));
}

std::string Dataset::missing_classes() const {
  if (is_whole()) return "";
  const std::map<int64_t, int64_t> splits = split_counts();
  return missing_text(lost_labels(splits), splits.size());
}

std::string Dataset::classes_missing_without_chance() const {
  if (is_whole()) return "";
  const std::map<int64_t, int64_t> splits = split_counts();
  const std::set<int64_t> lost = lost_labels(splits);
  if (lost.empty()) return "";
  double all = 0;
  for (const auto& [label, count] : splits) all += static_cast<double>(count);
  if (lost_by_chance(splits, lost, std::min(1.0, static_cast<double>(size_) / all))) return "";
  return missing_text(lost, splits.size());
}

}  // namespace bv

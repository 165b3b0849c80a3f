#include "lib/input/dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <set>

#include "lib/input/shuffle.h"
#include "lib/input/split.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// The seed of the permutation along which sources sorted by class are sliced. It must never change,
// or slices would mean other examples.
constexpr uint64_t kSliceSeed = 0x51CE;

// Returns the first names (or numbers) of `classes`, joined by commas.
std::string class_list(const std::vector<int64_t>& classes, const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::vector<std::string> shown;
  for (const int64_t label : classes) {
    if (shown.size() == kShown) {
      shown.push_back("...");
      break;
    }
    const bool named = label >= 0 && label < static_cast<int64_t>(names.size());
    shown.push_back(named ? names[label] : fmt::format("{}", label));
  }
  return join(shown, ", ");
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const Source> source, const std::string& split,
                 const Place& split_place)
    : source_(std::move(source)), split_(split) {
  const std::vector<SplitTerm> terms = parse_split(split, split_place);
  const std::vector<std::string> known = source_->splits();
  for (const SplitTerm& term : terms) {
    const auto found = std::find(known.begin(), known.end(), term.base);
    if (found == known.end()) {
      throw Error(Exit::usage, split_place, unknown_name_message("split", term.base, known));
    }
    Piece piece;
    piece.split = static_cast<size_t>(found - known.begin());
    piece.split_size = source_->size(piece.split);
    std::tie(piece.begin, piece.end) = term.range(piece.split_size, split_place);
    const bool whole = piece.begin == 0 && piece.end == piece.split_size;
    piece.permuted = source_->sorted_by_class() && !whole;
    size_ += piece.end - piece.begin;
    pieces_.push_back(piece);
  }
}

int64_t Dataset::Piece::source_index(int64_t position) const {
  return permuted ? shuffle(kSliceSeed, 0, position, split_size) : position;
}

std::pair<size_t, int64_t> Dataset::locate(int64_t index) const {
  check(index >= 0 && index < size_, "example {} of a data set of {}", index, size_);
  for (const Piece& piece : pieces_) {
    const int64_t length = piece.end - piece.begin;
    if (index >= length) {
      index -= length;
      continue;
    }
    return {piece.split, piece.source_index(piece.begin + index)};
  }
  throw Error(Exit::internal, "internal", "pieces of a data set do not add up");
}

Example Dataset::read(int64_t index) const {
  const auto [split, at] = locate(index);
  return source_->read(split, at);
}

Example Dataset::read_batch(std::span<const int64_t> indices) const {
  // Almost always one split. A batch across several splits is joined from runs of indices in the
  // same split.
  std::vector<std::pair<size_t, std::vector<int64_t>>> runs;
  for (const int64_t index : indices) {
    const auto [split, at] = locate(index);
    if (runs.empty() || runs.back().first != split) runs.push_back({split, {}});
    runs.back().second.push_back(at);
  }
  check(!runs.empty(), "an empty batch");
  if (runs.size() == 1) return source_->read_batch(runs[0].first, runs[0].second);
  std::map<std::string, std::vector<at::Tensor>> parts;
  for (const auto& [split, positions] : runs) {
    for (auto& [key, tensor] : source_->read_batch(split, positions)) parts[key].push_back(tensor);
  }
  Example batch;
  for (const auto& [key, tensors] : parts) batch[key] = at::cat(tensors);
  return batch;
}

std::string Dataset::describe(int64_t index) const {
  const auto [split, at] = locate(index);
  return source_->describe(split, at);
}

std::vector<std::pair<int64_t, int64_t>> Dataset::label_bounds() const {
  std::pair<int64_t, int64_t> least = {-1, 0}, most = {-1, 0};
  int64_t index = 0;
  for (const Piece& piece : pieces_) {
    const at::Tensor labels = source_->labels(piece.split);  // (split_size,)
    if (!labels.defined()) return {};
    const int64_t* values = labels.const_data_ptr<int64_t>();
    for (int64_t position = piece.begin; position < piece.end; ++position, ++index) {
      const int64_t label = values[piece.source_index(position)];
      if (least.first < 0 || label < least.second) least = {index, label};
      if (most.first < 0 || label > most.second) most = {index, label};
    }
  }
  if (index == 0) return {};
  return {least, most};
}

std::string Dataset::missing_classes() const {
  std::set<int64_t> expected, present;
  bool sliced = false;
  for (const Piece& piece : pieces_) {
    sliced |= piece.end - piece.begin != piece.split_size;
    const at::Tensor labels = source_->labels(piece.split);  // (split_size,)
    if (!labels.defined()) return "";
    const int64_t* values = labels.const_data_ptr<int64_t>();
    expected.insert(values, values + piece.split_size);
    for (int64_t position = piece.begin; position < piece.end; ++position) {
      present.insert(values[piece.source_index(position)]);
    }
  }
  if (!sliced) return "";
  std::vector<int64_t> lost;
  std::set_difference(expected.begin(), expected.end(), present.begin(), present.end(),
                      std::back_inserter(lost));
  if (lost.empty()) return "";
  return fmt::format("split '{}' has no example of {} of the {} classes: {}", split_, lost.size(),
                     expected.size(), class_list(lost, source_->class_names()));
}

}  // namespace bv

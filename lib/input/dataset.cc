#include "lib/input/dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "lib/input/shuffle.h"
#include "lib/input/split.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// The seed of the permutation by which sources sorted by class are sliced. It must never change, or
// slices would contain other examples.
constexpr uint64_t kSliceSeed = 0x51CE;

}  // namespace

Dataset::Dataset(std::shared_ptr<const Source> source, const std::string& split,
                 const Place& split_place)
    : source_(std::move(source)), split_(split), class_names_(source_->class_names()) {
  const std::vector<SplitTerm> terms = parse_split(split, split_place);
  const std::vector<std::string> known = source_->splits();
  for (const SplitTerm& term : terms) {
    const auto found = std::find(known.begin(), known.end(), term.base);
    if (found != known.end()) {
      add_piece(term, static_cast<size_t>(found - known.begin()), split_place);
    } else if (term.text == "all") {
      for (size_t i = 0; i < known.size(); ++i) add_piece(term, i, split_place);
    } else {
      const bool all = term.base == "all";  // as in TFDS
      throw Error(Exit::usage, split_place,
                  all ? fmt::format("split '{}': 'all' cannot be sliced; list the splits: {}",
                                    term.text, join(known, ", "))
                      : unknown_name_message("split", term.base, known));
    }
  }
}

void Dataset::add_piece(const SplitTerm& term, size_t split, const Place& split_place) {
  Piece piece;
  piece.split = split;
  piece.split_size = source_->size(split);
  const std::vector<int64_t> shards = source_->shard_lengths(split);
  if (term.in_shards() && !shards.empty() && source_->sorted_by_class(split)) {
    throw Error(Exit::usage, split_place,
                fmt::format("split '{}': '{}' is sorted by class, so its slices are cut from a "
                            "fixed random order and cannot be given in shards",
                            term.text, term.base));
  }
  std::tie(piece.begin, piece.end) = term.range(piece.split_size, split_place, shards);
  const bool whole = piece.begin == 0 && piece.end == piece.split_size;
  piece.permuted = !whole && source_->sorted_by_class(split);
  if (term.part == SplitTerm::Part::fold || term.part == SplitTerm::Part::not_fold) {
    const int64_t count = piece.end - piece.begin;
    const at::Tensor all = source_->labels(split);
    std::vector<int64_t> labels(all.defined() ? count : 0);
    std::map<int64_t, int64_t> order;  // of first appearance; class numbers do not matter
    for (int64_t i = 0; i < std::ssize(labels); ++i) {
      const int64_t label = all.const_data_ptr<int64_t>()[piece.source_index(i)];
      labels[i] = order.emplace(label, std::ssize(order)).first->second;
    }
    piece.fold = fold_positions(term, count, labels);
    if (piece.fold.empty()) {
      throw Error(Exit::usage, split_place,
                  fmt::format("split '{}' is empty: {} examples do not fill {} folds", term.text,
                              count, term.parts));
    }
  }
  size_ += piece.size();
  pieces_.push_back(std::move(piece));
}

int64_t Dataset::Piece::source_index(int64_t i) const {
  const int64_t position = begin + (fold.empty() ? i : fold[i]);
  return permuted ? shuffle(kSliceSeed, 0, position, split_size) : position;
}

std::pair<size_t, int64_t> Dataset::locate(int64_t index) const {
  check(index >= 0 && index < size_, "example {} of a data set of {}", index, size_);
  if (!kept_.empty()) index = kept_[index];
  for (const Piece& piece : pieces_) {
    if (index >= piece.size()) {
      index -= piece.size();
      continue;
    }
    return {piece.split, piece.source_index(index)};
  }
  throw Error(Exit::internal, "internal", "pieces of a data set do not add up");
}

Example Dataset::read(int64_t index) const {
  const auto [split, at] = locate(index);
  Example example = source_->read(split, at);
  renumber(example);
  return example;
}

Example Dataset::read_values(int64_t index) const {
  const auto [split, at] = locate(index);
  Example example = source_->read_values(split, at);
  renumber(example);
  return example;
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
  Example batch;
  if (runs.size() == 1) {
    batch = source_->read_batch(runs[0].first, runs[0].second);
  } else {
    std::map<std::string, std::vector<at::Tensor>> parts;
    for (const auto& [split, positions] : runs) {
      for (auto& [key, tensor] : source_->read_batch(split, positions))
        parts[key].push_back(tensor);
    }
    for (const auto& [key, tensors] : parts) batch[key] = at::cat(tensors);
  }
  renumber(batch);
  return batch;
}

int64_t Dataset::number_of(int64_t label) const {
  return label == Source::kNoLabel ? label : classes_(label);
}

// Replaces the labels of one example or of a batch by the run's numbers: class numbers in `label`,
// and in `labels` one column for each class.
void Dataset::renumber(Example& example) const {
  if (classes_.keeps_all()) return;
  if (const auto label = example.find("label"); label != example.end()) {
    const at::Tensor from = label->second.to(at::kLong).contiguous();
    at::Tensor to = at::empty_like(from);
    const int64_t* in = from.const_data_ptr<int64_t>();
    int64_t* out = to.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < from.numel(); ++i) {
      out[i] = number_of(in[i]);
      // use_classes() has refused or left out those that are known before they are read.
      if (out[i] == ClassMap::kUnknown) {
        throw Error(Exit::usage, "",
                    fmt::format("the label is {}, but the run has no such class", in[i]));
      }
    }
    label->second = to;
  }
  const auto labels = example.find("labels");
  if (labels == example.end() || !at::isFloatingType(labels->second.scalar_type())) return;
  const at::Tensor from = labels->second;
  std::vector<int64_t> shape = from.sizes().vec();
  const int64_t own = classes_.size();
  if (shape.empty() || shape.back() != own) return;  // not one column for each class
  shape.back() = static_cast<int64_t>(class_names_.size());
  at::Tensor to = at::zeros(shape, from.options());
  for (int64_t label = 0; label < own; ++label) {
    if (const int64_t number = classes_(label); number != ClassMap::kUnknown)
      to.select(-1, number).copy_(from.select(-1, label));
  }
  labels->second = to;
}

std::string Dataset::describe(int64_t index) const {
  const auto [split, at] = locate(index);
  return source_->describe(split, at);
}

std::string Dataset::describe_unread(int64_t index) const {
  const auto [split, at] = locate(index);
  return source_->describe_unread(split, at);
}

std::optional<std::vector<std::string>> Dataset::files_of(int64_t index) const {
  const auto [split, at] = locate(index);
  return source_->files_of(split, at);
}

std::string Dataset::labels_file(int64_t index) const {
  return source_->labels_file(locate(index).first);
}

std::string Dataset::use_classes(const ClassNames& classes, bool skip_unknown) {
  check(classes_.keeps_all() && kept_.empty(), "the classes of a data set are matched once");
  std::vector<std::string> own = std::move(class_names_);
  ClassNames run = classes;
  const bool by_number = own.empty();
  if (by_number && !run.names.empty()) {
    std::set<int64_t> listed;
    if (source_->labels_may_be_names()) listed = labels_of_splits();
    label_names_ = names_of_labels(run.names, listed);
    own = label_names_.names;
  }
  if (run.names.empty()) run.names = names_by_number(own);
  class_names_ = run.names.empty() ? own : run.names;
  const ClassMap map(own, run, /*others_unknown=*/by_number);
  if (map.keeps_all()) return "";
  if (source_->classes_are_columns()) {
    for (const std::string& name : run.names) {
      if (std::find(own.begin(), own.end(), name) == own.end()) {
        throw Error(Exit::usage, "",
                    fmt::format("has no label '{}', which {} has; its labels are {}", name,
                                run.owner, short_list(own)));
      }
    }
  }
  std::set<int64_t> unknown;
  std::vector<int64_t> kept;
  bool any_known = false;
  const bool labelled = for_each_label([&](int64_t index, int64_t label) {
    const bool has_label = label != Source::kNoLabel;
    if (has_label && map(label) == ClassMap::kUnknown) {
      unknown.insert(label);
      return;
    }
    kept.push_back(index);
    any_known |= has_label;
  });
  for (size_t label = 0; !labelled && label < own.size(); ++label) {
    if (map(static_cast<int64_t>(label)) == ClassMap::kUnknown)
      unknown.insert(static_cast<int64_t>(label));
  }
  const std::string names = short_list(names_of_classes(unknown, own));
  const bool can_skip = labelled && any_known;
  if (!unknown.empty() && (!skip_unknown || !can_skip)) {
    const char* const why = can_skip        ? "; `unknown_classes: skip` leaves these examples out"
                            : !skip_unknown ? ""
                            : labelled      ? ": no example is left"
                                            : " (`unknown_classes: skip` needs one label per "
                                              "example that is known before it is read)";
    throw Error(Exit::usage, "",
                fmt::format("has examples of {}, but the classes of {} are {}{}", names, run.owner,
                            short_list(run.names), why));
  }
  classes_ = map;
  if (unknown.empty()) return "";
  const int64_t all = size_;
  size_ = std::ssize(kept);
  kept_ = std::move(kept);
  return fmt::format("{} of {} examples are left out, because {} has no class {}", all - size_, all,
                     run.owner, names);
}

void Dataset::leave_out(std::span<const int64_t> indices) {
  if (indices.empty()) return;
  std::vector<int64_t> kept;
  kept.reserve(size_ - std::ssize(indices));
  auto out = indices.begin();
  for (int64_t index = 0; index < size_; ++index) {
    if (out != indices.end() && *out == index)
      ++out;
    else
      kept.push_back(kept_.empty() ? index : kept_[index]);
  }
  check(out == indices.end() && !kept.empty(), "{} of {} examples cannot be left out",
        indices.size(), size_);
  size_ = std::ssize(kept);
  kept_ = std::move(kept);
}

uint64_t Dataset::fingerprint() const {
  std::string text = fmt::format("{}", size_);
  for (const std::string& name : class_names_) text += "\n" + name;
  uint64_t hash = hash64(text);
  for_each_label([&](int64_t, int64_t label) {
    const std::array<uint64_t, 2> next = {hash, static_cast<uint64_t>(number_of(label))};
    hash = hash64({reinterpret_cast<const char*>(next.data()), sizeof(next)});
  });
  return hash;
}

uint64_t Dataset::content() const {
  constexpr int64_t kMost = 16;
  const int64_t count = std::min(kMost, size_);
  std::string hashes;
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    try {
      for (const auto& [name, value] : read(i * (size_ / count))) {
        const at::Tensor dense = value.contiguous();
        text += fmt::format("{} {} ", name, static_cast<int>(dense.scalar_type()));
        text.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
      }
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      text = "broken";
    }
    hashes += fmt::format("{:016x}", hash64(text));
  }
  return hash64(hashes);
}

std::vector<std::pair<std::string, FileNotes>> Dataset::file_notes() const {
  std::set<size_t> used;
  for (const Piece& piece : pieces_) used.insert(piece.split);
  const std::vector<std::string> names = source_->splits();
  std::vector<std::pair<std::string, FileNotes>> notes;
  for (const size_t split : used) notes.emplace_back(names.at(split), source_->file_notes(split));
  return notes;
}

bool Dataset::sliced_in_order() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
    return piece.size() != piece.split_size && !piece.permuted && piece.fold.empty();
  });
}

}  // namespace bv

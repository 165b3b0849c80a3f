// Dataset: the examples of a source that a split expression selects, such as "train[:99%]" or
// "train[8000:]+test" (split.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/input/class_map.h"
#include "lib/input/source.h"
#include "lib/input/split.h"

namespace bv {

// Thread-safe.
//
// A slice of a split that is sorted by class is taken along a fixed pseudo-random permutation of
// the split, so that it usually holds examples of all classes. The permutation never changes: a
// slice means the same examples in every run.
class Dataset {
 public:
  // Opens the source. `split_place` is the place of the split expression in the config. Throws
  // Error(Exit::usage) at it if the expression is malformed, names an unknown split, or is empty or
  // out of bounds.
  Dataset(std::shared_ptr<const Source> source, const std::string& split, const Place& split_place);

  // Renumbers the labels by class name, to the numbers that `classes` has: the class numbers in the
  // feature "label", and the columns of "labels" if it has one column per class. If only the source
  // or only the run has class names, labels keep their numbers, unless the names are numbers
  // (names_by_number()): label 10 and column 10 are then the class '10'. So is label 10 of a CSV
  // file if each label of its splits is the name of a class (names_of_labels()). Call it once,
  // before the data set is shared.
  //
  // Throws Error(Exit::usage) without a place if the data set has examples of a class that is not
  // in `classes`. With `skip_unknown` these examples leave the data set, and the returned line says
  // how many; the line is empty if there are none. Examples without a label stay.
  std::string use_classes(const ClassNames& classes, bool skip_unknown);

  // Returns how use_classes() has read the labels if the data set has no class names.
  const LabelNames& label_names() const { return label_names_; }

  // Removes the examples `indices` (ascending) from the data set; at least one example must remain.
  // The others keep their order. Call it before the data set is shared.
  void leave_out(std::span<const int64_t> indices);

  int64_t size() const { return size_; }
  // The members below are those of Source for example `index` of the data set, 0 <= index < size().
  Example read(int64_t index) const;
  Example read_values(int64_t index) const;
  bool is_array() const { return source_->is_array(); }
  Example read_batch(std::span<const int64_t> indices) const;
  std::string describe(int64_t index) const;
  std::string describe_unread(int64_t index) const;
  std::optional<std::vector<std::string>> files_of(int64_t index) const;
  std::string labels_file(int64_t index) const;  // of the split that has the example
  const Source& source() const { return *source_; }
  // Returns the names of the classes in the order of the labels' numbers; empty if not known.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Source::kNoLabel does not count as a label, except for labels() and fingerprint().

  // Returns the distinct labels of the splits, whether their examples are in the slices or not.
  // Empty if the source does not know its labels.
  std::set<int64_t> labels_of_splits() const;

  // Returns the label of each example, in the run's numbers, and Source::kNoLabel for those without
  // one. Empty if the source does not know its labels.
  std::vector<int64_t> labels() const;
  // Returns how many examples have each label, in the run's numbers. Empty if the source does not
  // know its labels.
  std::map<int64_t, int64_t> label_counts() const;

  // Returns a hash of the number of examples, the class names and, where they are known without
  // reading the examples, the labels. Equal for a copy of the data at another path.
  uint64_t fingerprint() const;
  // Returns a hash of a few evenly spaced examples, as they are in the data set. Equal for a copy
  // of the data at another path. Reads up to 16 examples.
  uint64_t content() const;
  // Returns a one-line warning if a class of the splits has no example in the slices. Empty if all
  // classes are present, or if the source does not know its labels.
  std::string missing_classes() const;
  // The same for data that a run does not learn from. Also empty if the classes are so rare that a
  // random choice of as many examples may lack them, too.
  std::string classes_missing_without_chance() const;
  // Returns whether a slice is cut from its split in the order of the rows. Folds and slices of
  // data sorted by class are not.
  bool sliced_in_order() const;
  // Returns whether labels of a source without class names decide which examples the slices and
  // folds hold: a sliced split is sorted by them, or folds are stratified by them.
  bool divided_by_numbers() const;
  // Returns the file notes of each split that the data set takes examples from, with its name.
  std::vector<std::pair<std::string, FileNotes>> file_notes() const;
  // Returns {index, label} of the first `each` examples (or all, if there are fewer) with the
  // smallest label, then of those with the largest. Empty if the source does not know its labels.
  std::vector<std::pair<int64_t, int64_t>> label_bounds(size_t each = 1) const;

 private:
  // One term of the split expression.
  struct Piece {
    size_t split;        // index into Source::splits()
    int64_t begin, end;  // positions in the source's order, or along the permutation if `permuted`
    int64_t split_size;
    bool permuted;
    std::vector<int64_t> fold;  // the positions that the fold holds; empty: all from begin to end

    int64_t size() const { return fold.empty() ? end - begin : std::ssize(fold); }
    // Returns the source's index of example `i` of the piece, 0 <= i < size().
    int64_t source_index(int64_t i) const;
  };
  void add_piece(const SplitTerm& term, size_t split, const Place& split_place);
  // Returns the split of example `index`, and the index of the example in that split.
  std::pair<size_t, int64_t> locate(int64_t index) const;
  // Calls each(index, label) for every example of the data set, with the source's label, which may
  // be Source::kNoLabel. Returns false, without a call, if the source does not know its labels.
  bool for_each_label(const std::function<void(int64_t, int64_t)>& each) const;
  // Returns whether the data set is all examples of its splits.
  bool is_whole() const;
  // Returns the number of examples of each label in the whole splits, not only in the slices. The
  // labels are the run's. Empty if the source does not know its labels.
  std::map<int64_t, int64_t> split_counts() const;
  // Returns the labels of the splits that no example of the data set has. `splits`: split_counts().
  std::set<int64_t> lost_labels(const std::map<int64_t, int64_t>& splits) const;
  std::string missing_text(const std::set<int64_t>& lost, size_t all) const;
  // Returns the run's number of the source's label; Source::kNoLabel stays.
  int64_t number_of(int64_t label) const;
  void renumber(Example& example) const;

  std::shared_ptr<const Source> source_;
  std::string split_;  // the expression
  std::vector<Piece> pieces_;
  int64_t size_ = 0;
  std::vector<std::string> class_names_;
  ClassMap classes_;
  LabelNames label_names_;
  // The examples that are left if some have unknown classes or were left out, as ascending indices
  // into the slices; otherwise empty.
  std::vector<int64_t> kept_;
};

}  // namespace bv

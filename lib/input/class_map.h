// ClassMap: turns the class numbers of one source into those of the run, by the names of the
// classes.
//
// Two sources may number the same classes differently. A validation folder with the classes cat and
// ship calls ship number 1, where a training folder with cat, dog and ship calls it number 2.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace bv {

// The names of classes in the order of their numbers, and the data that they come from.
struct ClassNames {
  std::vector<std::string> names;           // empty: not known
  std::string owner = "the training data";  // for messages
  // The numbers that labels of the training data have. Empty: not known.
  std::set<int64_t> trained = {};
};

// If all names are integers and one of them is 0, returns them in numeric order. Folders called 0,
// 1, 10, 11, 2, ... are sorted as text, but their names are the labels that the user means. A
// number missing between them becomes a name too. Returns an empty list if the names are not such
// numbers, or if two of them are the same number.
std::vector<std::string> names_by_number(const std::vector<std::string>& names);

// What the label numbers of a data set without class names mean in a run with class names.
struct LabelNames {
  std::vector<std::string> names;  // entry 7 is the class of label 7; empty: compared by number
  // The labels come from a list, such as a CSV file, and each of them is the name of a class.
  bool listed = false;
  // `listed`, and all labels could also be class numbers, which would mean other classes.
  bool ambiguous = false;
};
// First choice: names_by_number(names). Second choice, for labels that may be names: each number is
// its own name, if every label is the name of a class and is below 1,000,000. Otherwise they are
// compared by number. `listed`: the labels of the data set if they may be names
// (Source::labels_may_be_names()), otherwise empty.
LabelNames names_of_labels(const std::vector<std::string>& names, const std::set<int64_t>& listed);

// Whether the labels may be regression targets, such as ages: many of the class numbers below
// `classes` have no example. `unused`: how many.
inline bool looks_like_numbers(int64_t unused, int64_t classes) {
  return unused >= 5 && 4 * unused >= classes;
}

// Returns the names of `classes` among `names`, or their numbers if they have none.
std::vector<std::string> names_of_classes(const std::set<int64_t>& classes,
                                          const std::vector<std::string>& names);

class ClassMap {
 public:
  static constexpr int64_t kUnknown = -1;

  ClassMap() = default;  // keeps every number
  // Matches the names `from` of a source with the names `to` of the run. Keeps every number if the
  // lists are equal or one of them is empty. Throws Error(Exit::usage) without a place if a name
  // could mean several classes of the run. `others_unknown`: the source does not say which classes
  // it has, so a number without a name in `from` is an unknown class and no error.
  ClassMap(const std::vector<std::string>& from, const ClassNames& to, bool others_unknown = false);

  bool keeps_all() const { return numbers_.empty(); }
  // Returns the number of names of the source; 0 if every number is kept.
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }
  // Returns the run's number of the source's class `label`, or kUnknown if the run has no class of
  // that name. Throws Error(Exit::usage) without a place if the source has no class of this number,
  // unless others_unknown.
  int64_t operator()(int64_t label) const;

 private:
  std::vector<int64_t> numbers_;  // by the source's number; empty: every number is kept
  bool others_unknown_ = false;
};

}  // namespace bv

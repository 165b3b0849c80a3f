// The column with the labels of a CSV file: what its values are, and the number of each class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/input/sources/common/manifest/row_text.h"

namespace bv {

// What the labels of a column are, once all of them are known.
struct LabelCode {
  enum class Kind : uint8_t {
    none,    // there is no such column
    number,  // integers, which are the numbers of the classes
    real,    // numbers with points, the targets of a regression
    name     // names of classes
  };
  Kind kind = Kind::none;
  std::vector<std::string> names;  // of the classes; empty if not known
  int64_t classes = 0;             // the largest number plus 1, or the number of names

  // Returns the number of the class that a cell names. Throws RowFault at offset `at` for any other
  // string. The kind is number or name.
  int64_t number_of(std::string_view text, size_t at) const;
  // Returns the number of a class by its name; nullopt if there is none of this name.
  std::optional<int64_t> find(std::string_view name) const;
  // Returns what to throw for a cell that names no class. `similar`: also looks for the most
  // similar name, which takes long if there are many names.
  RowFault unknown_class(std::string_view text, size_t at, bool similar) const;
  // Call it after `names` has changed.
  void index_names();

 private:
  std::unordered_map<std::string, int64_t> numbers_;  // by name
};

// Collects the labels of a column, one for each row, to find out what they are. Keeps only the
// distinct values, and at most 12 bytes a row.
class LabelColumn {
 public:
  // `classes`: the names that the user has given, in the order of their numbers, or none.
  explicit LabelColumn(const std::vector<std::string>& classes);

  // Adds the label of the next row. Throws RowFault at offset `at` of the row if it is empty or
  // means a missing value, or if it is not one of the user's classes; then call add_broken().
  void add(std::string_view text, size_t at, const RowText& row);
  void add_broken();
  // Adds one of several labels of a row. Such labels belong to no row here.
  void add_one_of_several(std::string_view text, size_t at, const RowText& row);

  // Returns what the labels are. `file` is for messages. Throws Error(Exit::usage) if they do not
  // belong together: names together with numbers with a decimal point, or with numbers that are not
  // class names.
  LabelCode finish(const std::string& file) const;
  // Returns the class number of each row, empty if the labels are not classes. A row that is broken
  // has Source::kNoLabel.
  std::vector<int64_t> numbers(const LabelCode& code) const;
  // Returns a remark if almost all labels are numbers, but are taken as names; "" otherwise.
  std::string suspicion(const LabelCode& code) const;

 private:
  // The first label of a kind, for messages.
  struct FirstLabel {
    std::string text;
    int64_t line = 0, column = 0;
    int64_t count = 0;  // of all labels of this kind

    void see(std::string_view label, size_t at, const RowText& row);
  };
  // Notes what kind of label it is, and returns the integer, if it is one.
  std::optional<int64_t> see(std::string_view text, size_t at, const RowText& row);
  std::optional<int64_t> see_given(std::string_view text, size_t at, const RowText& row);
  // Returns the id of a label; kNoId for a number if there are too many to keep their spelling.
  uint32_t id_of(std::string_view text, size_t at);

  static constexpr uint32_t kNoId = UINT32_MAX;
  LabelCode given_;                    // the user's classes
  size_t unknown_seen_ = 0;            // cells so far that name no class
  FirstLabel wholes_, reals_, names_;  // names_: with classes from the user, the labels that are
                                       // such names
  int64_t greatest_ = INT64_MIN;       // of the integers
  std::unordered_map<std::string, uint32_t> ids_;  // by string, without numbers with a decimal
                                                   // point
  bool too_many_ = false;                          // ids_ is empty, because there are too many
  std::vector<uint32_t> rows_;                     // ids
  std::vector<int64_t> whole_rows_;                // numbers, as long as all are integers
};

// Returns the labels in a cell that may hold several. They are separated by ';' and '|' if `bars`,
// and by white space otherwise. The strings are parts of `cell`.
std::vector<std::string_view> several_labels(std::string_view cell, bool bars);

}  // namespace bv

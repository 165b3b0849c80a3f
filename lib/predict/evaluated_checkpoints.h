// Which checkpoints the rows of `bvtrain eval` describe. A run that goes back, or that starts over,
// saves other weights under a step that has a row already. This record distinguishes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace bv {

class EvaluatedCheckpoints {
 public:
  // Reads the record in `file`, if there is one. `rows` are the steps that have a row. A damaged
  // file counts as missing, with a warning. So does a file without rows, but silently: the user has
  // removed the rows. Throws Error(Exit::usage) if it cannot be read.
  EvaluatedCheckpoints(std::string file, std::set<int64_t> rows);

  // Returns what identifies the checkpoint in `folder`: a hash of its manifest. nullopt if there is
  // no manifest.
  static std::optional<std::string> identity(const std::string& folder);

  // Returns whether the checkpoint has a row, or was skipped. Without a record, any checkpoint of a
  // step that has a row counts as evaluated.
  bool contains(int64_t step, const std::string& identity) const;
  // Returns the step of the last row; -1 if there is none.
  int64_t last_row() const { return rows_.empty() ? -1 : *rows_.rbegin(); }
  // Records that the checkpoint has a row now, or that it has none because it cannot be used.
  // Throws Error(Exit::storage).
  void add(int64_t step, const std::string& identity, bool has_row);
  // Records that `step` and all later ones are to be evaluated again: their checkpoints no longer
  // count as evaluated, even if a row of theirs is left. Throws Error(Exit::storage).
  void remove_from(int64_t step);

 private:
  void write() const;

  const std::string file_;
  std::set<int64_t> rows_;
  std::map<int64_t, std::string> identities_;
};

}  // namespace bv

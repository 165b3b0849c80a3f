// Which checkpoints the rows of `bvtrain eval` describe. A run that goes back, or that starts over,
// saves other weights under a step that has a row already. This record distinguishes them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace bv {

// The run whose checkpoints the rows describe.
struct RunOfRows {
  std::string workdir;        // its folder, as an absolute path
  std::string first_started;  // of run.json; empty: not known
};
// Returns the run in a folder. The run need not have started yet.
RunOfRows run_of_rows(const std::string& workdir);
// Returns whether both are the same run. A run stays the same if its folder is moved, or if it
// starts over in its folder.
bool is_same_run(const RunOfRows& before, const RunOfRows& now);

class EvaluatedCheckpoints {
 public:
  // Reads the record in `file`, if there is one. `rows` are the steps that have a row. A damaged
  // file counts as missing, with a warning. So does a file without rows, but silently: the user has
  // removed the rows. Throws Error(Exit::usage) if it cannot be read.
  EvaluatedCheckpoints(std::string file, std::set<int64_t> rows);

  // Returns the run of the rows: the one that set_run() has set or, before that, the one in the
  // file. Returns nullopt if there is neither.
  const std::optional<RunOfRows>& run() const { return run_; }
  // Sets the run that the next call of add() or remove_from() records.
  void set_run(RunOfRows run) { run_ = std::move(run); }

  // Returns what identifies the checkpoint in `folder`: a hash of its manifest and, after a space,
  // a hash of what its weights depend on: the step, the checksums of its files and the starts of
  // the run up to this step. The second hash is missing if the manifest is damaged. nullopt if
  // there is no manifest.
  static std::optional<std::string> identity(const std::string& folder);
  // Returns whether two identities are those of the same weights: a run may save a step twice. If
  // one has only the hash of the manifest, as in records of earlier versions, compares that.
  static bool is_same(std::string_view a, std::string_view b);
  // Returns the identity of the checkpoint in `folder` if contains() is false for it; nullopt also
  // if there is no manifest. Reads the manifest only if it is new or was replaced since the last
  // call, and parses it only if its hash is new.
  std::optional<std::string> new_identity(int64_t step, const std::string& folder);

  // Returns whether the checkpoint has a row, or was skipped by this process. Without a record, any
  // checkpoint of a step that has a row counts as evaluated.
  bool contains(int64_t step, std::string_view identity) const;
  bool has_row(int64_t step) const { return rows_.contains(step); }
  const std::set<int64_t>& rows() const { return rows_; }
  // Returns the step of the last row; -1 if there is none.
  int64_t last_row() const { return rows_.empty() ? -1 : *rows_.rbegin(); }
  // Returns RunStart::time of the start that saved the row's checkpoint; nullopt if it is not
  // known.
  std::optional<int64_t> started(int64_t row) const;
  // Records that the checkpoint now has a row. `started` as above. Throws Error(Exit::storage).
  void add(int64_t step, const std::string& identity, std::optional<int64_t> started = {});
  // Remembers in this process that the checkpoint cannot be used. This is not recorded in the file:
  // a later process may be able to read it, for example after a copy is complete.
  void skip(int64_t step, const std::string& identity) { skipped_[step] = identity; }
  bool has_skipped() const { return !skipped_.empty(); }
  // Records that `step` and all later ones are to be evaluated again: their checkpoints no longer
  // count as evaluated, even if a row of theirs is left. Throws Error(Exit::storage).
  void remove_from(int64_t step);

 private:
  void write() const;

  const std::string file_;
  std::optional<RunOfRows> run_;
  std::set<int64_t> rows_;
  std::map<int64_t, std::string> identities_;
  std::map<int64_t, int64_t> started_;
  std::map<int64_t, std::string> skipped_;

  struct SeenManifest {
    std::array<int64_t, 3> manifest = {};  // manifest_identity()
    std::string identity;
  };
  std::map<int64_t, SeenManifest> seen_;  // of steps for which new_identity() found nothing new
};

}  // namespace bv

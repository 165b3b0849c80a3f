// skipped.jsonl: the examples that a run has skipped because of skip_errors, each listed at the
// step at which it was first skipped.
//
//   {"data": "input", "step": 3, "example": "train/cat/17.jpg", "reason": "truncated JPEG"}
//
// If the examples are rows that name files, these follow as the list `files`. It is empty if the
// row cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/append.h"
#include "lib/report/storage_retries.h"

namespace bv {

struct SkippedExample {
  std::string data;  // "input", "evals.<name>", or a data set of an evaluator with several
  int64_t step = 0;
  std::string example, reason;
  // That the example names, in UTF-8. Empty if the row that names them cannot be read; nullopt if
  // the examples of the data set name no files.
  std::optional<std::vector<std::string>> files = {};
};

// Removes from `file` the entries of a step that belong to these data sets, or to parts of them:
// "evals.knn.train" is a part of "evals.knn". Does nothing if there is no file. Throws
// Error(Exit::storage).
void remove_skipped(const std::string& file, int64_t step, const std::set<std::string>& data);

// What the report shows of one data set.
struct SkippedSummary {
  std::string data;
  int64_t count = 0;
  std::vector<SkippedExample> first;
};

// All ranks hold the same list, and rank 0 alone has the file. Used by one thread.
class SkippedExamples {
 public:
  SkippedExamples() = default;
  SkippedExamples(const SkippedExamples&) = delete;

  // Takes over the entries of `file` up to `last_step` and removes all others from it, damaged ones
  // with a warning. New entries are appended; without entries there is no file. Returns the entries
  // as they are in the file. `check_folder` is called before the file is created later; it throws
  // Error(Exit::storage) if the folder is no longer the run's folder. Throws Error(Exit::storage).
  std::string open(const std::string& file, int64_t last_step,
                   std::function<void()> check_folder = nullptr);
  // Takes over what open() has returned on another rank.
  void adopt(std::string_view lines);

  // Lists the example, unless it is listed already. If the file cannot be written, this warns and
  // keeps the entry; a later add() or sync() writes it.
  void add(const SkippedExample& example);
  // Waits until all entries are on disk. Tries a failed write again for 6.2 s (StorageRetries),
  // then throws Error(Exit::storage).
  void sync();

  bool contains(const std::string& data, const std::string& example) const;
  int64_t count(const std::string& data) const;
  std::set<std::string> examples(const std::string& data) const;
  bool empty() const { return sets_.empty(); }
  std::vector<SkippedSummary> summaries() const;  // one for each data set that lacks examples
  // "3 examples were skipped so far (input: 1, evals.test: 2), see out/skipped.jsonl"
  std::string text() const;

 private:
  struct DataSet {
    std::set<std::string> names;
    std::vector<SkippedExample> first;
  };
  bool remember(const SkippedExample& example);
  void write();  // writes the pending lines

  std::function<void()> check_folder_;
  std::string file_;     // empty: nothing is written
  std::string waiting_;  // lines not yet passed to out_
  std::optional<AppendFile> out_;
  bool refused_ = false;  // whether the last write failed
  bool synced_ = true;
  StorageRetries retries_;
  std::map<std::string, DataSet> sets_;
};

}  // namespace bv

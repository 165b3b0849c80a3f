// What the user of `bvtrain init` says about the labels: the options --label and --task.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bv {

enum class LabelTask : uint8_t {
  classify,    // one class per image
  multilabel,  // several classes or none
  regress      // numbers
};

struct LabelRequest {
  std::vector<std::string> columns = {};  // of a CSV file; empty: the column label or class
  LabelTask task = LabelTask::classify;

  // Returns whether the user has given --label, or a --task other than classify. The data must then
  // be a CSV file.
  bool given() const { return !columns.empty() || task != LabelTask::classify; }
};

// Return the task that --task names, "classify", "multilabel" or "regress", and its name.
LabelTask label_task(const std::string& name);
std::string task_name(LabelTask task);

// Throws Error(Exit::usage) at --label if a column is named twice or has no name, or if there are
// several columns for one class per image.
void check_request(const LabelRequest& request);

// The keys of the source csv that say what the labels are.
struct LabelKeys {
  std::vector<std::string> columns = {};  // empty: the source looks for the column label or class
  bool list = false;        // `label` is a list of columns, also if it is a single one
  bool multilabel = false;  // a cell of the only column holds several classes
  std::vector<std::string> classes = {};

  // Returns the keys with their values in YAML: {{"label", "[age]"}}.
  std::vector<std::pair<std::string, std::string>> yaml() const;
};

}  // namespace bv

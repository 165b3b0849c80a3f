// The key `quarantine`: a list of examples that are excluded from a data set before a run. `bvtrain
// data check` writes such lists (lib/input/check/broken_example.h).
//
// A list is a JSON Lines file. In each object, `example` is the name of an example, as messages
// call it (Dataset::describe()), and `data` the data set that has it: "input", "input.<name>" in a
// mixture, "evals.<name>", or any other string for all data sets with an example of that name.
// `files`, which may be absent, lists the files that the example named (Dataset::files_of()): a row
// of a CSV file is named by its line, and after an edit that line may hold another example. `files`
// is empty for a row that could not be read. Other keys are ignored. So the skipped.jsonl of a run
// is a list too. It lists the examples of a mixture under "input"; their names then begin with the
// data set: "own: train/cat/17.jpg".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/input/dataset.h"

namespace bv {

inline constexpr KeyText kQuarantineKey = {
    "quarantine",
    "string",
    "none",
    "File with a list of examples to exclude from the data set, as written by `bvtrain data check "
    "--output`. The data set is then smaller; slices of a split keep their other examples. Broken "
    "files that are not in the list are found only when they are read. A listed example that "
    "is not in the data set causes a warning. If the data has changed, so that a row of the list "
    "now names other files, the run does not start.",
    "broken.jsonl",
    "-"};

// Returns what `bvtrain data check FOLDER` calls the folder in a list: its name, but "./input" for
// "input", which would be the training data of a config.
std::string name_in_list(const std::string& folder);

class Quarantine {
 public:
  // Reads the list that config["quarantine"] names; null if the key is absent. Throws
  // Error(Exit::usage) at the line that is malformed: "broken.jsonl:3: error: no 'example'".
  static std::shared_ptr<const Quarantine> read(const Config& config);

  // Returns `data` without the examples in the list. `name` is what the list calls the data set.
  // Compares the names of all its examples, with several threads. Records with the config how many
  // examples are excluded, and how many entries match none. Throws Error(Exit::usage) if an entry
  // matches several examples or one that names other files now, or if no example is left.
  std::shared_ptr<const Dataset> leave_out(std::shared_ptr<const Dataset> data,
                                           const std::string& name, int threads) const;

 private:
  struct Entry {
    std::string data, example;
    int64_t line = 0;
    std::optional<std::vector<std::string>> files;
  };
  Quarantine(const Config& config, std::string file);
  void add(std::string_view line, int64_t number);
  // Throws if the entry names other files than example `index` of `data`.
  void check_files(const Entry& entry, const Dataset& data, int64_t index) const;

  Config config_;  // for warnings
  std::string file_;
  std::vector<Entry> entries_;
};

}  // namespace bv

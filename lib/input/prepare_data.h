// Opens the data set of a config section `data: {name, split, unknown_classes, ...}`. The other
// keys are those of the source.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/input/dataset.h"

namespace bv {

// The keys that prepare_data() reads itself.
inline constexpr KeyText kDataKeys[] = {
    {"name", "string", "required",
     "Kind of data set, which determines the file format; `bvtrain --list sources` prints all "
     "kinds. bvtrain looks up any other name, such as imagenet2012, among the data sets that "
     "TensorFlow Datasets has prepared in `data_dir` or $TFDS_DATA_DIR.",
     "image_folder"},
    {"split", "string", "train",
     "Which part of the data set to use, as in TFDS: a whole split such as `train`, a slice such "
     "as `train[:90%]`, `train[5000:]`, `train[-100:]` or `train[:2shard]` (the first two files; "
     "only tfds, tfrecord and webdataset), or several of them joined by `+`; `all` is all splits. "
     "Percentages are rounded to whole examples, and `train[:80%]` and `train[80%:]` do not "
     "overlap. `train[even 2/5]` is the second of five equal, contiguous parts. For "
     "cross-validation, `train[fold 2/5]` is the second of five fixed folds, and "
     "`train[not fold 2/5]` the rest; folds are stratified by class if the labels are "
     "known without reading the images. If the data is sorted by class, as an image folder is, "
     "slices are cut from a fixed random order, the same in every run, so that each has about the "
     "same fraction of every class; other data is sliced in file order. The order and the folds "
     "depend on the labels, so parts of one file can overlap if sections read different columns as "
     "`label`.",
     "train[:90%]"},
    {"unknown_classes", "'error' | 'skip'", "error",
     "What to do with examples of a class that is not in the training data: `error` ends the run, "
     "`skip` leaves these examples out and warns. Classes are matched by name, so this has no "
     "effect on data without class names.",
     "", "-"},
};

// The sources that are open, so that sections with the same keys share one: its index, its open
// files and the arrays that it holds in memory. Thread-safe.
class OpenSources {
 public:
  // Returns a source that was added with the same `keys`, if it still exists; otherwise null.
  std::shared_ptr<const Source> find(const std::string& keys) const;
  void add(const std::string& keys, const std::shared_ptr<const Source>& source);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Source>> sources_;
};

struct DataEnv {
  SourceEnv source;
  bool synthetic = false;  // --synthetic: generated examples in place of any source's own
  // For evaluators: the classes of the run. nullopt: their data has classes of its own.
  std::optional<ClassNames> classes = {};
  // The part of the config whose key skip_errors would keep broken files: "input" or
  // "evals.<name>". The error that lists broken files mentions it. Empty: not mentioned.
  std::string skip_section = {};
  // The labels are regression targets and not classes: the task is `regress`.
  bool labels_are_numbers = false;
  std::shared_ptr<OpenSources> open_sources = {};  // null: nothing is shared
  // The feature from which pp makes `labels` (Pipeline::made_from()), which generated examples then
  // have. Empty: not known.
  std::string labels_from = {};
};

// Opens a data set whose keys have been read. Labels are renumbered by the names of `classes`,
// those of the run (Dataset::use_classes()). nullopt: the data set has classes of its own. Throws
// Error(Exit::usage), and records warnings with the config.
using OpenDataset =
    std::function<std::shared_ptr<const Dataset>(const std::optional<ClassNames>& classes)>;

// Builds the source that `data` names, reading its keys now but opening no file.
//
// With env.synthetic, `data.name` may also be a TFDS name that no source of ours has: the data is
// generated with that data set's published size if it is known.
OpenDataset prepare_data(const Config& data, const DataEnv& env);

// Does dataset.use_classes() and returns warnings: about examples that are left out, and about how
// labels were matched with names if only the data set or only the run has class names. Throws what
// use_classes() throws.
std::vector<std::string> match_classes(Dataset& dataset, const ClassNames& classes,
                                       bool skip_unknown);

// Returns whether `data` is a mixture: a weight for each of several data sets, {own: 0.7,
// public: 0.3}. Only training data may be one.
bool is_mixture(const Config& data);

// Returns TFDS's names of the data sets whose published sizes are known.
std::vector<std::string> known_tfds_names();

}  // namespace bv

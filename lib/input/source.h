// Source: random access to the raw examples of a data set, split by split. Each source is one file
// in sources/, named after `data.name`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/config/registry.h"
#include "lib/input/example.h"

namespace bv {

// What a source may know when it is built.
struct SourceEnv {
  uint64_t seed = 0;           // the run's
  int64_t num_classes = 0;     // the model's; 0 = not known
  int64_t min_split_size = 0;  // --synthetic: the split expression selects at least this many
                               // examples
  // Set by skip_errors: a broken file is kept as an example that fails in read(), instead of an
  // error when the source is opened.
  bool keep_broken = false;
};

// Describes the generated examples with which --synthetic replaces a source's own.
struct SyntheticSpec {
  enum class Labels : uint8_t {
    class_number,  // () int64
    classes,       // `labels`, (classes,) float32: 1 for the class and 0 for the others
    target,        // () float32: a regression target
    targets,       // `labels`, (num_classes,) float32: regression targets
    // Both a number and `labels`, for data whose features are not known without opening it.
    number_and_classes,
    target_and_targets
  };
  int64_t size = 1024;  // examples per split, for splits that are not in split_sizes
  std::map<std::string, int64_t> split_sizes = {};
  int64_t height = 256, width = 256, channels = 3;
  int64_t classes = 0;  // 0 = the config's num_classes
  bool encoded = true;  // images are JPEG bytes if true, uint8 arrays if false
  Labels labels = Labels::class_number;
  std::string label = "label";  // the key of the number
};

// What a source observed about the files of a split; data_notes() turns it into warnings.
struct FileNotes {
  int64_t images = 0;
  int64_t turned = 0;  // images whose EXIF orientation is not 1
  // The number of files of other types, which were ignored, by suffix: ".txt", or "" for names
  // without one.
  std::map<std::string, int64_t> other_types;
  int64_t inner_folders = 0;  // folders inside class folders, which were ignored
  int64_t loose_images = 0;   // images next to the class folders, which were ignored
  // Folders next to those of the splits, whose images were ignored.
  std::vector<std::string> unused_folders;
  std::vector<std::string> remarks;  // anything else, one line each
};

// The members are thread-safe. Files are opened at the first call of a member, never in the
// constructor.
//
// Errors: bad data that is found while opening is Error(Exit::usage) naming the file and the
// offset; bad data that read() finds is Error(Exit::data).
class Source {
 public:
  using Registry = bv::Registry<Source, SourceEnv>;
  static constexpr const char* kKind = "data source";
  // The label of an example that is known to be broken: the example belongs to no class.
  // SourceEnv::keep_broken keeps such examples, and read() fails for them.
  static constexpr int64_t kNoLabel = INT64_MIN;
  virtual ~Source() = default;

  // Returns the names of the splits, such as {"test", "train"}. Other members take an index into
  // this list.
  virtual std::vector<std::string> splits() const = 0;
  // Returns the number of examples of a split.
  virtual int64_t size(size_t split) const = 0;
  // Returns the number of examples in each of a split's files, which add up to its size. Empty if
  // the split is not in several files, or they do not hold its examples one after the other.
  virtual std::vector<int64_t> shard_lengths(size_t split) const { return {}; }
  // Returns the raw example, typically {"image", "label"}. 0 <= index < size(split).
  virtual Example read(size_t split, int64_t index) const = 0;
  // Like read(), but may leave out features that are separate files, such as an image, and skip
  // reading those files. For callers that need only the numbers.
  virtual Example read_values(size_t split, int64_t index) const { return read(split, index); }

  // Returns whether all examples are in memory and have equal shapes, so that read_batch() is fast.
  virtual bool is_array() const { return false; }
  // Returns the examples `indices`, stacked along a new leading dimension.
  virtual Example read_batch(size_t split, std::span<const int64_t> indices) const;

  // Returns the names of the classes in the order of their numbers; empty if not known.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Returns whether class_names() are the columns of a table that `labels` holds, such as the
  // targets of a regression. If such a table lacks a name that another data set has, the column is
  // missing; it is not just a class without examples.
  virtual bool classes_are_columns() const { return false; }
  // Returns the labels of a split, (size,) int64, which may include kNoLabel. Returns an undefined
  // tensor if they are not known without reading the examples.
  virtual at::Tensor labels(size_t split) const;
  // Returns whether the numbers in labels() may be the names of classes, as in a CSV file.
  virtual bool labels_may_be_names() const { return false; }
  // Returns the file that holds the labels of a split; "" if there is none, or there are several.
  virtual std::string labels_file(size_t split) const { return ""; }
  // Returns whether the examples of a split are sorted by class. Slices of such a split are then
  // taken from a fixed permutation of it (Dataset).
  virtual bool sorted_by_class(size_t split) const { return false; }
  // Returns what is noteworthy about the files of a split. Reads no images.
  virtual FileNotes file_notes(size_t split) const;
  // Returns a name of the example for messages: "train/cat/17.jpg" or "train row 17".
  virtual std::string describe(size_t split, int64_t index) const;
  // Returns the beginning of describe(), as far as it is known without reading from the example's
  // file: usually all of it.
  virtual std::string describe_unread(size_t split, int64_t index) const {
    return describe(split, index);
  }
  // Returns the names of the files that are read for the example, such as its image, for messages.
  // Empty if the row that names them cannot be read; nullopt if they are not rows that name files.
  virtual std::optional<std::vector<std::string>> files_of(size_t split, int64_t index) const {
    return std::nullopt;
  }
  // Returns what --synthetic generates in place of this source. Opens no files.
  virtual SyntheticSpec synthetic_spec() const = 0;
};

}  // namespace bv

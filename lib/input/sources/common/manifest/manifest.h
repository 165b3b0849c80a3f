// ManifestSource: base class of sources that read a manifest, a text file with one row for each
// example (csv, jsonl). A row names files, such as the image, and holds labels and other values.
//
// The first use reads the file once and notes where each row is, which the index cache keeps
// (index_cache.h). An example is parsed when it is read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/manifest/manifest_file.h"
#include "lib/input/sources/common/manifest/manifest_index.h"
#include "lib/input/sources/common/manifest/row_text.h"
#include "lib/input/sources/common/shard_files.h"

namespace bv {

// The keys that ManifestSource reads itself.
inline constexpr KeyText kManifestKeys[] = {
    {"split_column", "string", "none",
     "Name of the column or key with the split of each row. Its distinct values are the splits. "
     "Without it, all rows are one split, called train or all.",
     "split", "-"}};

// The usual name of the column or key that holds the splits, in any case. Without split_column, a
// column or key of this name is a feature.
bool is_split_column(std::string_view name);

// A file that a row names.
struct RowFile {
  size_t at = 0;       // the offset of the name in the row
  std::string name;    // as it is written
  std::string path;    // with the folder
  std::string folder;  // "" for the working directory
};

// Returns the file `name` of a row: below `folder`, unless the name begins with '/'. Throws
// RowFault for an empty name, a URL, and a name that leaves the folder by "..".
RowFile row_file(std::string_view name, const std::string& folder, size_t at);

// Reads rows of one file. Thread-safe.
class RowReader {
 public:
  virtual ~RowReader() = default;
  // Returns whether the rows name files.
  virtual bool has_files() const = 0;
  // Returns the files that a row names. Throws RowFault.
  virtual std::vector<RowFile> files(std::string_view row) const = 0;
  // Returns the example of row number `number`, from 0. Throws RowFault, and
  // Error::bare(Exit::data) if a file cannot be read. Without `with_files` no file is read, and the
  // features that hold files are left out.
  virtual Example read(std::string_view row, int64_t number, bool with_files) const = 0;
};

class ManifestSource : public Source {
 public:
  // Without split_column: {"all", "train"}.
  std::vector<std::string> splits() const override;
  int64_t size(size_t split) const override;
  Example read(size_t split, int64_t index) const override;
  Example read_values(size_t split, int64_t index) const override;
  std::vector<std::string> class_names() const override;
  at::Tensor labels(size_t split) const override;
  bool labels_may_be_names() const override { return true; }
  std::string labels_file(size_t) const override { return fname_; }
  FileNotes file_notes(size_t split) const override;
  bool sorted_by_class(size_t split) const override;
  // Returns the file and the line: "data/train.csv:17".
  std::string describe(size_t split, int64_t index) const override;
  std::optional<std::vector<std::string>> files_of(size_t split, int64_t index) const override;

 protected:
  ManifestSource(const Config& config, const SourceEnv& env);

  const std::string& fname() const { return fname_; }
  const std::optional<std::string>& split_column() const { return split_column_; }
  const Place& split_place() const { return split_place_; }  // of that key
  bool keep_broken() const { return keep_broken_; }
  // Returns the folder that holds the manifest, "" for the working directory.
  std::string own_folder() const;

  // Reads the whole file.
  virtual ManifestIndex scan() const = 0;
  // Returns a reader of the rows; nullptr if the layout in `index` is damaged.
  virtual std::unique_ptr<RowReader> reader(const ManifestIndex& index) const = 0;
  // Returns the kind of the index, and all settings on which it depends.
  virtual std::string index_format() const = 0;
  // Returns what to do if the files are elsewhere: "`folder` says where the files are".
  virtual std::string folder_hint() const = 0;

 private:
  struct Opened {
    ManifestIndex index;
    std::unique_ptr<RowReader> reader;
    std::vector<std::vector<uint32_t>> rows;  // of each split; empty if the splits are all rows
    std::vector<at::Tensor> labels;           // of each split; empty if they are not known
  };
  const Opened& opened() const;
  Opened open() const;
  void divide(Opened& opened) const;
  // Throws BrokenFiles if a file that the first or the last row names does not exist. If there are
  // splits, does so for each of them, and adds the problems to index.broken instead.
  void check_files(Opened& opened) const;
  void check_files(const Opened& opened, size_t row, RowProblems& problems) const;
  std::string row_bytes(const ManifestIndex& index, size_t row) const;
  Example read_row(size_t split, int64_t index, bool with_files) const;
  static size_t row_of(const Opened& opened, size_t split, int64_t index);

  std::string fname_;
  std::optional<std::string> split_column_;
  Place split_place_;
  bool keep_broken_;
  ShardFiles file_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Opened> opened_;  // guarded by mutex_; never changes
};

// Collects the rows of an index, and what is wrong with them, while a manifest is read.
class ManifestRows {
 public:
  // `file`: the manifest, for messages.
  ManifestRows(std::string file, bool keep_broken)
      : file_(std::move(file)), keep_broken_(keep_broken) {}

  // Adds a row, and calls check() for it. Returns false if that throws a RowFault: the row is then
  // broken. Throws a fatal fault as Error(Exit::usage).
  bool add(const ManifestRow& row, const std::function<void()>& check);
  // Adds the split of the row that was added last. nullopt: the row is broken so that its split
  // cannot be read. It then belongs to the split of the row before it.
  void add_split(const std::optional<std::string>& name);
  // Takes the value of a column or key in a row, which may be the name of a split. Returns false if
  // the values of this column no longer matter. finish() sets ManifestIndex::unused_split to the
  // name of a column whose values look like names of splits: they differ, and all of them are
  // usual names; one is enough if is_split_column(column). A file whose rows all say `train` is a
  // single split.
  bool see_unused_split(const std::string& column, std::string_view value);
  // Returns the index, so far without labels and layout. Throws Error(Exit::usage) if there are no
  // rows, and BrokenFiles if rows are broken, with a line for each of the first 20, unless
  // `keep_broken`. Rows that are broken but whose splits are known are no error:
  // ManifestIndex::broken has them. `none`: what to say if there are no rows.
  ManifestIndex finish(std::string_view none);

 private:
  // The values of a column that may hold splits.
  struct SplitValues {
    std::string first;
    bool differ = false, any_known = false, all_known = true;
  };

  std::string file_;
  bool keep_broken_;
  ManifestIndex index_;
  std::vector<std::string> split_names_;              // in the order of their first rows
  std::map<std::string, SplitValues> unused_splits_;  // of each column
  size_t broken_ = 0;                                 // rows
  std::optional<Error> last_problem_;                 // of the row that was added last
  RowProblems problems_;                              // of rows whose splits are not known
  std::vector<RowProblems> of_splits_;                // in the order of split_names_
};

}  // namespace bv

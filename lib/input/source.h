// Sources: random access to raw examples, by split. One file a source in sources/, named after
// `data.name`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/registry.h"
#include "lib/input/example.h"

namespace bv {

struct SourceEnv {
  uint64_t seed = 0;         // of the run
  int64_t num_classes = 0;   // 0 = not known
  int64_t least = 0;         // --synthetic: generate at least so many examples a split
  bool keep_broken = false;  // skip_errors: a broken file is an example that fails, not an error
};

// What --synthetic generates in a source's place.
struct SyntheticForm {
  int64_t size = 1024;  // examples of a split, unless split_sizes knows better
  std::map<std::string, int64_t> split_sizes;
  int64_t height = 256, width = 256, channels = 3;
  int64_t classes = 0;  // 0 = the config's num_classes
  bool encoded = true;  // JPEG bytes, else a uint8 array
  std::string label = "label";
};

// All members are thread-safe and const; files open at the first use of any of them. What is wrong
// with the data is Error(Exit::usage) naming file and offset when found while opening, and
// Error(Exit::data) when found by read().
class Source {
 public:
  using Registry = bv::Registry<Source, SourceEnv>;
  static constexpr const char* kKind = "data source";
  virtual ~Source() = default;

  virtual std::vector<std::string> splits() const = 0;  // base names: "train", "test"
  virtual int64_t size(size_t split) const = 0;         // examples in splits()[split]
  // The raw example, e.g. {"image", "label"}. 0 <= index < size(split).
  virtual Example read(size_t split, int64_t index) const = 0;

  // Whether all examples have equal shapes and are in memory already: then read_batch() gives
  // several at once, stacked (leading dimension = indices.size()).
  virtual bool is_array() const { return false; }
  virtual Example read_batch(size_t split, std::span<const int64_t> indices) const;

  virtual std::vector<std::string> class_names() const { return {}; }  // empty = not known
  // (size,) int64: the labels of a split where they are known without reading the examples, else
  // undefined.
  virtual at::Tensor labels(size_t split) const;
  // Files sorted by class: slices are then taken along a fixed seeded permutation.
  virtual bool sorted_by_class() const { return false; }
  // "train/cat/17.jpg" or "train row 17": for messages.
  virtual std::string describe(size_t split, int64_t index) const;
  virtual SyntheticForm synthetic_form() const = 0;  // needs no files
};

// A source with a split expression applied: "train[:99%]", "train[8000:]+test".
class Dataset {
 public:
  // Opens the source (first use). Problems with the split name the known splits.
  Dataset(std::shared_ptr<const Source> source, const std::string& split, const Place& split_place);

  int64_t size() const { return size_; }
  Example read(int64_t index) const;
  bool is_array() const { return source_->is_array(); }
  Example read_batch(std::span<const int64_t> indices) const;
  std::string describe(int64_t index) const;
  const Source& source() const { return *source_; }
  // One warning line where a slice has lost classes, else empty (also where Source::labels() are
  // not known).
  std::string missing_classes() const;
  // {index, label} of an example with the smallest and of one with the largest label; empty where
  // Source::labels() are not known.
  std::vector<std::pair<int64_t, int64_t>> label_bounds() const;

 private:
  struct Piece {
    size_t split;
    int64_t begin, end;  // in file order, or along the permutation
    int64_t split_size;
    bool permuted;
    int64_t at(int64_t position) const;
  };
  std::pair<size_t, int64_t> locate(int64_t index) const;
  std::shared_ptr<const Source> source_;
  std::string split_;  // the expression
  std::vector<Piece> pieces_;
  int64_t size_ = 0;
};

// How `data: {name, split, ...}` sections are opened.
struct DataEnv {
  SourceEnv source;
  bool synthetic = false;  // --synthetic: generated data of the right form for any name
};
// Constructs the source and reads its keys now, touching no file; the returned function opens the
// data set (Error(Exit::usage) if it can't be).
std::function<std::shared_ptr<const Dataset>()> prepare_data(const Config& data,
                                                             const DataEnv& env);

}  // namespace bv

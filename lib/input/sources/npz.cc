// npz: the rows of the arrays of an npz file.
//
// One split, which is called `train` and `all`. Examples have the arrays' dtypes, except that
// one-dimensional integer arrays become int64, and floating-point arrays whose name begins with
// "label" become float32 and must be finite. Class numbers in a column count as one-dimensional.
#include "lib/ckpt/formats/npz.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/folder_entries.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable npz_keys(
    "input.data: npz",
    {"The arrays of a NumPy file (.npz): example i has row i of each array, under the name of the "
     "array. For N images the file has the arrays `image` of shape (N, height, width, channels), "
     "usually of uint8, and `label` of shape (N), of integers. Integers `label` of shape (N, 1) "
     "are read as (N). The file may hold other arrays of integers, floating-point numbers and "
     "booleans. The only split is called train, or all.",
     "name: npz\nfname: data/train.npz"},
    {{"fname", "string", "required",
      "The .npz file, on a local or mounted disk. All used arrays must have the same number of "
      "rows; arrays of strings are left out.",
      "data/train.npz"},
     {"prefix", "string", "\"\"",
      "Uses only arrays whose names begin with this prefix, and removes it: with `train/`, the "
      "array train/image becomes `image`. One file can thus hold several data sets.",
      "train/"}});

constexpr std::string_view kLabels = "label";  // names of labels begin with it

class Npz : public ArraySource {
 public:
  Npz(const Config& config, const SourceEnv& env)
      : fname_(require_path(config, "fname")), prefix_(config.get("prefix", "")) {}

  std::vector<std::string> splits() const override { return {"all", "train"}; }
  std::string labels_file(size_t) const override { return fname_; }
  // A guess: the content is unknown without opening the file.
  SyntheticSpec synthetic_spec() const override {
    return {.height = 32, .width = 32, .encoded = false};
  }

 protected:
  Example load(size_t split) const override {
    Example arrays = read_npz(fname_, prefix_, NpzSize::plausible, [](const NpzEntry& array) {
      const bool column = is_class_column(array.name, array.shape, array.dtype);
      return c10::elementSize(
          loaded_type(array.name, column ? 1 : std::ssize(array.shape), array.dtype));
    });
    if (arrays.empty()) {
      std::vector<std::string> names;
      for (const NpzEntry& entry : list_npz(fname_)) names.push_back(entry.name);
      if (names.size() > 10) {
        names.resize(10);
        names.push_back("...");
      }
      throw Error(Exit::usage, fname_,
                  fmt::format("no array begins with prefix '{}'; there are: {}", prefix_,
                              join(names, ", ")));
    }
    const auto& [first, first_array] = *arrays.begin();
    for (auto& [name, array] : arrays) {
      if (array.dim() == 0) {
        throw Error(
            Exit::usage, fname_,
            fmt::format("array '{}{}' is a single number, not rows of a data set", prefix_, name));
      }
      if (array.size(0) > 0 && array.numel() == 0) {
        throw Error(Exit::usage, fname_,
                    fmt::format("array '{}{}' has no values: its shape is {}", prefix_, name,
                                shape_text(array.sizes())));
      }
      if (array.size(0) != first_array.size(0)) {
        throw Error(Exit::usage, fname_,
                    fmt::format("array '{}{}' has {} rows, but '{}{}' has {}", prefix_, first,
                                first_array.size(0), prefix_, name, array.size(0)));
      }
      if (is_class_column(name, array.sizes(), array.scalar_type())) array = array.squeeze(1);
      array = array.to(loaded_type(name, array.dim(), array.scalar_type()));
      if (name.starts_with(kLabels) && array.scalar_type() == at::kFloat)
        require_finite(array, prefix_ + name);
    }
    return arrays;
  }

 private:
  // Returns the type that load() gives to an array of this type.
  static at::ScalarType loaded_type(const std::string& name, int64_t dim, at::ScalarType type) {
    if (dim == 1 && at::isIntegralType(type, /*includeBool=*/false)) return at::kLong;
    return name.starts_with(kLabels) && at::isFloatingType(type) ? at::kFloat : type;
  }

  // A NaN among soft labels would otherwise look like divergence in the step that uses it.
  // `labels` are float32.
  void require_finite(const at::Tensor& labels, const std::string& name) const {
    const at::Tensor values = labels.contiguous();
    const float* data = values.const_data_ptr<float>();
    const float* bad = std::find_if_not(data, data + values.numel(),
                                        [](float value) { return std::isfinite(value); });
    if (bad == data + values.numel()) return;
    throw Error(Exit::usage, fname_,
                fmt::format("array '{}' is {} in row {}", name, *bad,
                            (bad - data) * values.size(0) / values.numel()));
  }

  std::string fname_, prefix_;
};

// A file, and the prefix of its arrays `image` and `label`.
struct NpzExamples {
  std::string file, prefix;

  // Returns the split that the prefix or else the file name contains: "train", "val", "test", or ""
  // for none.
  std::string split() const {
    const std::string of_prefix = split_of_words(prefix);
    if (!of_prefix.empty()) return of_prefix;
    return split_of_words(std::filesystem::path(file).stem().string());
  }
  DataKeys keys() const {
    DataKeys all = {{"fname", file}};
    if (!prefix.empty()) all.emplace_back("prefix", prefix);
    return all;
  }
  // Returns "images in train/image and labels in train/label of data.npz".
  std::string text() const {
    return fmt::format("images in {0}image and labels in {0}label of {1}", prefix,
                       std::filesystem::path(file).filename().string());
  }
};

std::vector<NpzExamples> find_npz_examples(const std::string& file) {
  const std::vector<NpzEntry> entries = list_npz(file);
  std::vector<NpzExamples> found;
  for (const NpzEntry& image : entries) {
    if (!image.name.ends_with("image") || image.shape.size() < 3) continue;
    const bool channels_first = image.shape.size() == 4 && image.shape[3] > 4 &&
                                (image.shape[1] == 1 || image.shape[1] == 3);
    if (channels_first) {
      throw Error(
          Exit::usage, file,
          fmt::format("'{}' has the shape {}, which looks like (N, channels, height, width): "
                      "store it as (N, height, width, channels), by transpose(0, 2, 3, 1)",
                      image.name, shape_text(image.shape)));
    }
    const std::string prefix = image.name.substr(0, image.name.size() - 5);
    const bool labelled = std::any_of(entries.begin(), entries.end(), [&](const NpzEntry& label) {
      const bool one_each =
          label.shape.size() == 1 || is_class_column("label", label.shape, label.dtype);
      return label.name == prefix + "label" && one_each &&
             at::isIntegralType(label.dtype, /*includeBool=*/false);
    });
    if (labelled) found.push_back({file, prefix});
  }
  return found;
}

// Throws if a file without usable labels has images: then `init` must say what is wrong with the
// labels.
void refuse_unlabelled(const std::string& file) {
  const std::vector<NpzEntry> entries = list_npz(file);
  std::vector<std::string> names;
  const NpzEntry *image = nullptr, *unnamed = nullptr;
  for (const NpzEntry& entry : entries) {
    names.push_back(entry.name);
    const size_t axes = entry.shape.size();
    if (entry.name.ends_with("image") && axes >= 3) image = &entry;
    if (entry.dtype == at::kByte && (axes == 3 || axes == 4)) unnamed = &entry;
  }
  if (image == nullptr) {
    if (unnamed == nullptr) return;
    throw Error(Exit::usage, file,
                fmt::format("'{}' looks like images, but images must be in the array 'image', and "
                            "their classes, integers of shape (N), in 'label'; there are: {}",
                            unnamed->name, short_list(names)));
  }
  const std::string label = image->name.substr(0, image->name.size() - 5) + "label";
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const NpzEntry& entry) { return entry.name == label; });
  const std::string fault =
      found == entries.end()
          ? fmt::format("'{}' needs an array of numbers '{}', but the file has only: {}",
                        image->name, label, short_list(names))
          : fmt::format("'{}' is {} of shape {}", label, dtype_name(found->dtype),
                        shape_text(found->shape));
  throw Error(Exit::usage, file,
              fmt::format("{}; classes must be integers of shape (N); for other targets "
                          "write the config (docs/labels.md)",
                          fault));
}

// Chooses training and validation data by their names. Test data replace missing validation data.
DetectedData divided(const std::string& folder, const std::vector<NpzExamples>& found) {
  std::map<std::string, const NpzExamples*> splits;
  for (const NpzExamples& examples : found) splits[examples.split()] = &examples;
  if (splits.size() < found.size() || splits.contains("") || !splits.contains("train")) {
    throw Error(Exit::usage, folder,
                "holds several npz files or arrays with images and labels, and their names do not "
                "say which are for training: expected train.npz and val.npz or test.npz");
  }
  const std::string validation = splits.contains("val") ? "val" : "test";
  DetectedData data{"npz files", splits["train"]->keys(), splits[validation]->keys()};
  data.notes = {"training: " + splits["train"]->text(),
                "validation: " + splits[validation]->text()};
  if (splits.size() > 2) data.notes.push_back("not used: " + splits["test"]->text());
  return data;
}

std::optional<DetectedData> detect_npz(const std::string& folder) {
  std::vector<std::string> files;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (entry.file && std::filesystem::path(entry.name).extension() == ".npz")
      files.push_back(folder + "/" + entry.name);
  });
  std::sort(files.begin(), files.end());
  std::vector<NpzExamples> found;
  for (const std::string& file : files) {
    for (NpzExamples& examples : find_npz_examples(file)) found.push_back(std::move(examples));
  }
  if (found.empty()) {
    for (const std::string& file : files) refuse_unlabelled(file);
    return std::nullopt;
  }
  if (found.size() > 1) return divided(folder, found);
  DetectedData data{"npz file", found[0].keys()};
  if (files.size() > 1 || !found[0].prefix.empty()) data.notes = {"taken: " + found[0].text()};
  return data;
}

const Register<Source, Npz> registered_npz("npz");
const RegisterDetector npz_detector("npz", "an npz file with the arrays image and label",
                                    detect_npz);

}  // namespace
}  // namespace bv

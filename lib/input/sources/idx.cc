// idx: MNIST, Fashion-MNIST and similar data sets as published, gzipped or not.
//
// Examples: "image" (height, width, channels) uint8, "label" int64.
#include "lib/input/sources/common/idx.h"

#include "lib/config/key_table.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/util/file.h"

namespace bv {
namespace {

const KeyTable idx_keys(
    "input.data: idx",
    {"MNIST, Fashion-MNIST, EMNIST and other data sets in IDX files, gzipped or not. Examples have "
     "`image`, already decoded, and `label`. Give either `data_dir`, or `images` and `labels`.",
     "name: idx\ndata_dir: data/mnist\nsplit: train"},
    {{"data_dir", "string", "none",
      "Folder on a local or mounted disk with the files train-images-idx3-ubyte and "
      "train-labels-idx1-ubyte for the split train, and the same with t10k- or test- for the split "
      "test. Each may end in .gz, and may have a dot in place of the second hyphen: "
      "train-images.idx3-ubyte.",
      "data/mnist"},
     {"images", "string", "none",
      "File with the images, if the files have other names. It requires `labels`; the only split "
      "is train.",
      "data/emnist/emnist-letters-train-images-idx3-ubyte.gz"},
     {"labels", "string", "none",
      "File with the class numbers of `images`, one for each image in the same order.",
      "data/emnist/emnist-letters-train-labels-idx1-ubyte.gz"},
     {"class_names", "list of string", "[]",
      "Class names in the order of their numbers, from 0. Reports show them, and data sets of one "
      "run match their classes by name. A label without a name is an error.",
      "[zero, one, two]"}});

// Returns the file of a split in `dir`, or "" if there is none. `rest`: "images-idx3-ubyte".
std::string find_idx(const std::string& dir, const std::string& split, const std::string& rest) {
  std::string dotted = rest;  // as in MNIST on Kaggle: images.idx3-ubyte
  dotted[dotted.find('-')] = '.';
  const std::vector<std::string> prefixes = split == "test"
                                                ? std::vector<std::string>{"t10k-", "test-"}
                                                : std::vector<std::string>{"train-"};
  for (const std::string& prefix : prefixes) {
    for (const std::string& name : {rest, dotted}) {
      for (const char* suffix : {"", ".gz"}) {
        std::string file = dir + "/" + prefix + name + suffix;
        // Kaggle's archive also has folders of these names.
        if (file_exists(file) && !folder_exists(file)) return file;
      }
    }
  }
  return "";
}

class Idx : public ArraySource {
 public:
  Idx(const Config& config, const SourceEnv& env)
      : class_names_(config.get("class_names", std::vector<std::string>{})) {
    const auto dir = maybe_path(config, "data_dir");
    const auto images = maybe_path(config, "images");
    const auto labels = maybe_path(config, "labels");
    if (dir && (images || labels))
      config.fail("data_dir", "give data_dir or images and labels, not both");
    if (images.has_value() != labels.has_value()) {
      config.fail(images ? "images" : "labels", "images and labels go together");
    }
    if (!dir && !images) config.fail("", "source 'idx' needs data_dir, or images and labels");
    if (dir) {
      dir_ = {*dir, config.place("data_dir")};
    } else {
      images_ = *images;
      labels_ = *labels;
    }
  }

  std::vector<std::string> splits() const override {
    if (dir_.path.empty()) return {"train"};
    dir_.check_exists();
    std::vector<std::string> found;
    for (const char* split : {"test", "train"}) {
      if (!find_idx(dir_.path, split, "images-idx3-ubyte").empty()) found.push_back(split);
    }
    if (found.empty()) {
      throw Error(Exit::usage, dir_.place,
                  fmt::format("no IDX files in '{}': expected train-images-idx3-ubyte[.gz] and "
                              "train-labels-idx1-ubyte[.gz], or the same with t10k-",
                              dir_.path));
    }
    return found;
  }

  std::vector<std::string> class_names() const override { return class_names_; }
  std::string labels_file(size_t split) const override {
    if (dir_.path.empty()) return labels_;
    return find_idx(dir_.path, splits().at(split), "labels-idx1-ubyte");
  }
  SyntheticSpec synthetic_spec() const override {
    return {.size = 10000,
            .height = 28,
            .width = 28,
            .channels = 1,
            .classes = static_cast<int64_t>(class_names_.size()),
            .encoded = false};
  }

 protected:
  Example load(size_t split) const override {
    const std::string labels = labels_file(split);
    std::string images = images_;
    if (!dir_.path.empty()) {
      const std::string name = splits().at(split);
      images = find_idx(dir_.path, name, "images-idx3-ubyte");
      if (labels.empty()) {
        throw Error(Exit::usage, dir_.place,
                    fmt::format("no labels for '{}' in '{}': expected {}-labels-idx1-ubyte[.gz]",
                                images, dir_.path, name == "test" ? "t10k" : "train"));
      }
    }
    Example arrays = {{"image", read_idx_images(images)}, {"label", read_idx_labels(labels)}};
    check_idx_counts(arrays["image"], images, arrays["label"], labels);
    check_labels(arrays["label"], labels);
    return arrays;
  }

 private:
  void check_labels(const at::Tensor& labels, const std::string& file) const {
    if (class_names_.empty()) return;
    const int64_t* values = labels.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < labels.size(0); ++i) {
      if (values[i] >= static_cast<int64_t>(class_names_.size())) {
        throw Error(Exit::usage, file,
                    fmt::format("label {} in row {}, but class_names has {} names", values[i], i,
                                class_names_.size()));
      }
    }
  }

  FolderKey dir_;  // if its path is empty, images_ and labels_ are used
  std::string images_, labels_;
  std::vector<std::string> class_names_;
};

std::optional<DetectedData> detect_idx(const std::string& folder) {
  const bool any = !find_idx(folder, "train", "images-idx3-ubyte").empty() ||
                   !find_idx(folder, "test", "images-idx3-ubyte").empty();
  if (!any) return std::nullopt;
  return DetectedData{"IDX files, as of MNIST", {{"data_dir", folder}}};
}

const Register<Source, Idx> registered_idx("idx");
const RegisterDetector idx_detector("idx",
                                    "IDX files (train-images-idx3-ubyte[.gz] and "
                                    "train-labels-idx1-ubyte[.gz])",
                                    detect_idx);

}  // namespace
}  // namespace bv

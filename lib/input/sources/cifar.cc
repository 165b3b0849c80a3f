// cifar: the binary versions of CIFAR-10 and CIFAR-100, as published.
//
// Splits: train, test. Examples: "image" (32, 32, 3) uint8, "label" int64, for CIFAR-100 also
// "coarse_label" int64, as in TFDS.
//
// A record is the label byte (CIFAR-100: the coarse, then the fine label) and 3072 bytes of a 32x32
// image, channel by channel.
#include <ATen/ops/empty.h>

#include <deque>
#include <optional>

#include "lib/config/key_table.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/mapped_file.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

const KeyTable cifar_keys(
    "input.data: cifar",
    {"CIFAR-10 or CIFAR-100 from the published \"binary version\": colour images of 32x32 pixels "
     "with the splits train and test. Examples have `image` and `label`, those of CIFAR-100 also "
     "`coarse_label`, the number of one of 20 superclasses.",
     "name: cifar\ndata_dir: data/cifar-10-batches-bin\nsplit: train[:98%]"},
    {{"data_dir", "string", "required",
      "Folder on a local or mounted disk with data_batch_1.bin to data_batch_5.bin and "
      "test_batch.bin (CIFAR-10), or train.bin and test.bin (CIFAR-100). It may also be the folder "
      "above cifar-10-batches-bin or cifar-100-binary.",
      "data/cifar-10-batches-bin"},
     {"classes", "'10' | '100' | '0'", "0",
      "Which of the two data sets to read, CIFAR-10 or CIFAR-100, if the folder has both. 0 means "
      "the one that is there."}});

constexpr int64_t kSide = 32;
constexpr int64_t kPlane = kSide * kSide;

struct Variant {
  int64_t classes;
  const char* folder;  // in the published archive
  std::vector<std::string> train, test;
  const char* names;    // file with the class names
  int64_t label_bytes;  // per record; the last one is `label`
};

const Variant kVariants[2] = {
    {10,
     "cifar-10-batches-bin",
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
      "data_batch_5.bin"},
     {"test_batch.bin"},
     "batches.meta.txt",
     1},
    {100, "cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2}};

int64_t record_bytes(const Variant& variant) { return variant.label_bytes + 3 * kPlane; }

// Returns the folder, `dir` or one in it, that holds the files of `variant`; "" if there is none.
std::string folder_of(const Variant& variant, const std::string& dir) {
  for (const std::string& folder : {dir, dir + "/" + variant.folder}) {
    if (file_exists(folder + "/" + variant.train[0])) return folder;
  }
  return "";
}

class Cifar : public ArraySource {
 public:
  Cifar(const Config& config, const SourceEnv& env)
      : classes_(config.get<int64_t>("classes", 0)),
        dir_{require_path(config, "data_dir"), config.place("data_dir")} {
    if (classes_ != 0 && classes_ != 10 && classes_ != 100) {
      config.fail("classes", fmt::format("must be 10 or 100, got {}", classes_));
    }
  }

  std::vector<std::string> splits() const override { return {"test", "train"}; }

  std::vector<std::string> class_names() const override {
    const auto [variant, folder] = find();
    const std::string file = folder + "/" + variant->names;
    if (!file_exists(file)) return {};
    const std::string text = without_bom(read_file(file, limits::kCifarNamesBytes));
    if (!valid_utf8(text)) throw Error(Exit::usage, file, "is not UTF-8 text: save it as UTF-8");
    std::vector<std::string> names;
    for (const std::string& line : bv::split(text, '\n')) {
      if (!trim(line).empty()) names.push_back(trim(line));
    }
    if (static_cast<int64_t>(names.size()) != variant->classes) {
      throw Error(Exit::usage, file,
                  fmt::format("{} class names, expected {}", names.size(), variant->classes));
    }
    return names;
  }

  SyntheticSpec synthetic_spec() const override {
    return {.size = 10000,
            .height = kSide,
            .width = kSide,
            .channels = 3,
            .classes = classes_,
            .encoded = false};
  }

 protected:
  Example load(size_t split) const override {
    const auto [variant, folder] = find();
    std::deque<DataFile> files;  // each is opened once, because it may be replaced at any time
    int64_t rows = 0;
    for (const std::string& name : split == 1 ? variant->train : variant->test)
      rows += count(files.emplace_back(folder + "/" + name), *variant);
    Example arrays = {{"image", at::empty({rows, kSide, kSide, 3}, at::kByte)},
                      {"label", at::empty({rows}, at::kLong)}};
    if (variant->label_bytes == 2) arrays["coarse_label"] = at::empty({rows}, at::kLong);
    int64_t row = 0;
    for (const DataFile& file : files) row += fill(file, *variant, arrays, row);
    return arrays;
  }

 private:
  // Returns the variant and the folder with its files.
  std::pair<const Variant*, std::string> find() const {
    dir_.check_exists();
    std::vector<std::pair<const Variant*, std::string>> found;
    for (const Variant& variant : kVariants) {
      if (classes_ != 0 && classes_ != variant.classes) continue;
      const std::string folder = folder_of(variant, dir_.path);
      if (!folder.empty()) found.emplace_back(&variant, folder);
    }
    if (found.size() > 1) {
      throw Error(
          Exit::usage, dir_.place,
          fmt::format("'{}' holds CIFAR-10 and CIFAR-100: add 'classes: 10' or 'classes: 100'",
                      dir_.path));
    }
    if (found.empty()) {
      throw Error(Exit::usage, dir_.place,
                  fmt::format("no binary CIFAR{} in '{}': expected {}",
                              classes_ ? fmt::format("-{}", classes_) : "", dir_.path,
                              classes_ == 0 ? "data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100)"
                              : classes_ == 10 ? "data_batch_1.bin"
                                               : "train.bin"));
    }
    return found[0];
  }

  struct DataFile {
    explicit DataFile(std::string file) : name(std::move(file)), mapped(name) {}
    std::string name;
    MappedFile mapped;
  };

  // Returns the number of records in a file.
  static int64_t count(const DataFile& file, const Variant& variant) {
    const int64_t record = record_bytes(variant);
    const auto size = static_cast<int64_t>(file.mapped.bytes().size());
    if (size == 0 || size % record != 0) {
      refuse_wrong_file(file.mapped.bytes(), file.name);
      throw Error(
          Exit::usage, file.name,
          fmt::format("{} bytes is not a whole number of {}-byte CIFAR records", size, record));
    }
    return size / record;
  }

  // Reads a file into the rows from `first_row` on. Returns the number of records.
  static int64_t fill(const DataFile& file, const Variant& variant, Example& arrays,
                      int64_t first_row) {
    const int64_t rows = count(file, variant), record = record_bytes(variant);
    int64_t* labels = arrays["label"].mutable_data_ptr<int64_t>() + first_row;
    uint8_t* pixels = arrays["image"].mutable_data_ptr<uint8_t>() + first_row * 3 * kPlane;
    const auto coarse = arrays.find("coarse_label");
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* from = file.mapped.bytes().data() + row * record;
      labels[row] = from[variant.label_bytes - 1];
      if (labels[row] >= variant.classes) {
        throw Error(
            Exit::usage,
            fmt::format("{} @ offset {}", file.name, row * record + variant.label_bytes - 1),
            fmt::format("label {} in CIFAR-{} (is this the other CIFAR?)", labels[row],
                        variant.classes));
      }
      if (coarse != arrays.end()) {
        coarse->second.mutable_data_ptr<int64_t>()[first_row + row] = from[0];
      }
      from += variant.label_bytes;
      for (int64_t i = 0; i < kPlane; ++i) {
        for (int64_t c = 0; c < 3; ++c) *pixels++ = from[c * kPlane + i];
      }
    }
    return rows;
  }

  int64_t classes_;  // 0 = whichever is found
  FolderKey dir_;
};

std::optional<DetectedData> detect_cifar(const std::string& folder) {
  std::vector<std::string> found;
  for (const Variant& variant : kVariants) {
    if (!folder_of(variant, folder).empty()) found.push_back(fmt::format("{}", variant.classes));
  }
  if (found.empty()) return std::nullopt;
  if (found.size() > 1) {
    throw Error(Exit::usage, folder,
                fmt::format("holds CIFAR-10 and CIFAR-100: give '{0}/{1}' or '{0}/{2}'", folder,
                            kVariants[0].folder, kVariants[1].folder));
  }
  return DetectedData{fmt::format("binary files of CIFAR-{}", found[0]), {{"data_dir", folder}}};
}

const Register<Source, Cifar> registered_cifar("cifar");
const RegisterDetector cifar_detector("cifar",
                                      "the binary files of CIFAR (data_batch_1.bin or train.bin)",
                                      detect_cifar);

}  // namespace
}  // namespace bv

// tfds: a data set that TensorFlow Datasets has prepared, read without TensorFlow.
//
// If a name in `data` is not one of our sources, it is the name of such a data set, as in
// big_vision (datasets/tfds.py): `data: {name: imagenet2012, split: "train[:99%]"}`. Examples have
// the data set's features under their names; the image `image` stays encoded, other images are
// decoded.
//
// The examples of a split are in the order of its files, so that slices hold the same examples as
// TFDS's own.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "lib/config/key_table.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/records/record_options.h"
#include "lib/input/sources/common/records/records.h"
#include "lib/input/sources/common/records/tfds_features.h"
#include "lib/input/sources/common/records/tfds_folder.h"
#include "lib/util/file.h"

namespace bv {
namespace {

constexpr KeyText kTfdsKeys[] = {
    {"data_dir", "string", "= $TFDS_DATA_DIR",
     "Folder of all data sets; this one is in <name>/<version>/ or <name>/<config>/<version>/. "
     "Without it and the environment variable, it is ~/tensorflow_datasets. With `name: tfds`, it "
     "is the folder of this data set.",
     "/data/tensorflow_datasets"},
    {"skip_decode", "list of string", "[image]",
     "Image features that stay encoded, for an op such as `decode` or "
     "`decode_jpeg_and_inception_crop`. Other images are decoded when they are read.",
     "[image, segmentation_mask]"},
    verify_key()};
const KeyTable tfds_keys(
    "input.data: tfds",
    {"A data set prepared by TensorFlow Datasets (TFDS), as TFRecord or ArrayRecord files. "
     "TensorFlow is not needed. `name` is the name of the data set, such as imagenet2012, "
     "imagenet_v2/matched-frequency or cifar10:3.0.2; or it is `tfds`, and `data_dir` is the "
     "folder that holds dataset_info.json. Examples have the features of the data set under their "
     "names, nested ones with a slash, such as `objects/bbox`.",
     "name: imagenet2012\ndata_dir: /data/tensorflow_datasets\nsplit: train[:99%]",
     "datasets/tfds.py DataSource"},
    {}, kTfdsKeys);
const KeyTable tfds_alias_keys(
    "input.data: from_data_dir",
    {"The same as tfds, under big_vision's name: `data_dir` is the folder "
     "that holds dataset_info.json.",
     "name: from_data_dir\ndata_dir: /data/flowers/1.0.0", "datasets/tfds.py DataSource"},
    {}, kTfdsKeys);

class Tfds : public Source {
 public:
  Tfds(const Config& config, const SourceEnv& env)
      : name_(config.get<std::string>("name")),
        name_place_(config.place("name")),
        data_dir_(maybe_path(config, "data_dir").value_or("")),
        verify_(read_verify(config)),
        keep_broken_(env.keep_broken) {
    for (const std::string& key : config.get<std::vector<std::string>>("skip_decode", {"image"}))
      encoded_.insert(key);
    if (is_own_name() && data_dir_.empty())
      config.get<std::string>("data_dir");  // required: throws
  }

  std::vector<std::string> splits() const override {
    std::vector<std::string> names;
    for (const TfdsSplit& split : opened().folder.splits) names.push_back(split.name);
    return names;
  }
  int64_t size(size_t split) const override { return opened().folder.splits.at(split).size; }
  std::vector<int64_t> shard_lengths(size_t split) const override {
    return opened().folder.splits.at(split).shard_lengths;
  }
  SyntheticSpec synthetic_spec() const override { return {}; }

  std::vector<std::string> class_names() const override {
    const TfdsFeature* label = opened().features.find("label");
    return label ? label->class_names : std::vector<std::string>{};
  }
  at::Tensor labels(size_t split) const override { return records(split).labels(); }

  FileNotes file_notes(size_t split) const override {
    FileNotes notes;
    notes.remarks = opened().folder.remarks;
    notes.remarks.insert(notes.remarks.end(), opened().features.remarks.begin(),
                         opened().features.remarks.end());
    return notes;
  }

  std::string describe(size_t split, int64_t index) const override {
    return records(split).where(index);
  }

  Example read(size_t split, int64_t index) const override {
    const Records& files = records(split);
    const at::Tensor record = files.read(index);
    try {
      const TfExample parsed(
          {record.const_data_ptr<uint8_t>(), static_cast<size_t>(record.numel())});
      Example example;
      for (const TfdsFeature& feature : opened().features.all)
        example[feature.name] = feature.read(parsed, record);
      return example;
    } catch (const Error& error) {
      throw Error(Exit::data, files.where(index), error.message());
    }
  }

 private:
  struct Opened {
    TfdsFolder folder;
    TfdsFeatures features;
    std::vector<std::unique_ptr<Records>> records;  // of each split, opened on first use
  };

  // Returns whether `name` is the source's own name, not a data set's.
  bool is_own_name() const { return name_ == "tfds" || name_ == "from_data_dir"; }

  Opened& opened() const {
    const std::lock_guard lock(mutex_);
    if (!opened_) {
      Opened fresh;
      fresh.folder = is_own_name() ? open_tfds_folder(data_dir_, name_place_)
                                   : open_tfds(name_, tfds_root(data_dir_), name_place_);
      fresh.features = read_tfds_features(fresh.folder.path, encoded_);
      fresh.records.resize(fresh.folder.splits.size());
      opened_ = std::make_unique<Opened>(std::move(fresh));
    }
    return *opened_;
  }

  const Records& records(size_t split) const {
    Opened& data = opened();
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Records>& records = data.records.at(split);
    if (!records) records = open_split(data, data.folder.splits[split]);
    return *records;
  }

  std::unique_ptr<Records> open_split(const Opened& data, const TfdsSplit& split) const {
    const TfdsFeature* label = data.features.find("label");
    const bool known = label && label->kind == TfdsFeature::Kind::numbers && label->shape.empty() &&
                       !label->sequence && !label->raw && at::isIntegralType(label->dtype, false);
    auto records = open_records(data.folder.file_format, split.files, verify_,
                                known ? label->name : std::string(), keep_broken_);
    for (size_t file = 0; file < split.files.size(); ++file) {
      if (records->records_in(file) == split.shard_lengths[file]) continue;
      throw Error(Exit::usage, split.files[file],
                  fmt::format("holds {} examples, but dataset_info.json says {}",
                              records->records_in(file), split.shard_lengths[file]));
    }
    return records;
  }

  const std::string name_;
  const Place name_place_;
  const std::string data_dir_;
  const VerifyRecords verify_;
  const bool keep_broken_;
  std::set<std::string> encoded_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Opened> opened_;  // guarded by mutex_, like Opened::records
};

std::optional<DetectedData> detect_tfds(const std::string& folder) {
  // Hugging Face's save_to_disk() writes a dataset_info.json, too.
  if (!is_tfds_folder(folder) || file_exists(folder + "/state.json")) return std::nullopt;
  return DetectedData{"prepared TFDS data set", {{"data_dir", folder}}};
}

const Register<Source, Tfds> registered_tfds("tfds");
const Register<Source, Tfds> registered_big_vision_name("from_data_dir");
const RegisterDetector tfds_detector("tfds",
                                     "a data set of TFDS: dataset_info.json and features.json",
                                     detect_tfds);

}  // namespace
}  // namespace bv

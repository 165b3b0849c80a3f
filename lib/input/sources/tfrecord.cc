// tfrecord: TFRecord files of tf.train.Example messages that do not come from TFDS.
//
// The only split is called train, or all. The files are in the order of `files`, and the examples
// in file order.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "lib/config/key_table.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/skip_hint.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/file_list.h"
#include "lib/input/sources/common/records/record_options.h"
#include "lib/input/sources/common/records/records.h"
#include "lib/input/sources/common/records/tf_example.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable tfrecord_keys(
    "input.data: tfrecord",
    {"TFRecord files of tf.train.Example messages. For data sets of TensorFlow Datasets, which "
     "describe their own features, see `tfds`. Bytes become a string, or an encoded image for an "
     "op such as `decode`; one number becomes a scalar, and several become a list of float32 or "
     "int64. Class numbers are used as they are: numbers that begin at 1 need an extra class. The "
     "only split is called train, or all.",
     "name: tfrecord\n"
     "files: data/train-{00000..01023}-of-01024\n"
     "features: {image: image/encoded, label: image/class/label}"},
    {{"files", "string | list of string", "required",
      "The files, on a local or mounted disk. `{000..127}` expands to these numbers, keeping "
      "leading zeros. If no file has exactly this name, `*` and `?` are wildcards. A missing file "
      "is an error.",
      "data/train-*"},
     {"features", "map of string", "= all features of the first example",
      "The features to read, and the name of each in the files. `label` must hold one integer.",
      "{image: image/encoded, label: image/class/label}"},
     verify_key()});

class TfRecord : public Source {
 public:
  TfRecord(const Config& config, const SourceEnv& env)
      : files_(config, "files"), verify_(read_verify(config)), keep_broken_(env.keep_broken) {
    const Config features = config.section("features");
    for (const std::string& name : features.keys()) {
      const auto key = features.maybe<std::string>(name);
      if (key) features_[name] = *key;
    }
  }

  std::vector<std::string> splits() const override { return {"all", "train"}; }
  int64_t size(size_t) const override { return opened().records->size(); }
  std::vector<int64_t> shard_lengths(size_t) const override { return opened().lengths; }
  at::Tensor labels(size_t) const override { return opened().records->labels(); }
  std::string describe(size_t, int64_t index) const override {
    return opened().records->where(index);
  }
  SyntheticSpec synthetic_spec() const override { return {}; }

  Example read(size_t, int64_t index) const override {
    const Opened& data = opened();
    const at::Tensor record = data.records->read(index);
    try {
      return convert(record, data.features, features_.empty());
    } catch (const Error& error) {
      throw Error(Exit::data, data.records->where(index), error.message());
    }
  }

 private:
  using Features = std::map<std::string, std::string>;  // our name -> the name in the files
  struct Opened {
    std::unique_ptr<Records> records;
    std::vector<int64_t> lengths;  // of the files
    Features features;
  };

  static TfExample parse(const at::Tensor& record) {
    return TfExample({record.const_data_ptr<uint8_t>(), static_cast<size_t>(record.numel())});
  }

  // `all`: the config does not say which features to read.
  static Example convert(const at::Tensor& record, const Features& features, bool all) {
    const TfExample parsed = parse(record);
    Example example;
    for (const auto& [name, key] : features) {
      const TfFeature* feature = parsed.find(key);
      if (!feature) {
        std::vector<std::string> known;
        for (const auto& [other, value] : parsed.features()) known.emplace_back(other);
        throw Error::bare(
            Exit::data, fmt::format("no feature '{}'; there are: {}{}", key, join(known, ", "),
                                    all && key != "image" && key != "label" ? kLeaveOutHint : ""));
      }
      try {
        example[name] = tensor_of(*feature, record);
      } catch (const Error& error) {
        throw Error::bare(error.code(), fmt::format("feature '{}' {}", key, error.message()));
      }
    }
    return example;
  }

  static at::Tensor tensor_of(const TfFeature& feature, const at::Tensor& record) {
    if (feature.kind() == TfFeature::Kind::bytes) {
      const auto values = feature.bytes();
      if (values.size() == 1) {
        const int64_t begin = values[0].data() - record.const_data_ptr<uint8_t>();
        return record.slice(0, begin, begin + std::ssize(values[0]));
      }
      return texts_of(values);
    }
    const at::Tensor values =
        feature.kind() == TfFeature::Kind::floats ? feature.floats() : feature.integers();
    return values.numel() == 1 ? values[0] : values;
  }

  const Opened& opened() const {
    const std::lock_guard lock(mutex_);
    if (!opened_) opened_ = std::make_unique<Opened>(open());
    return *opened_;
  }

  Opened open() const {
    Opened data;
    const std::vector<std::string> files = files_.existing();
    const auto label = features_.find("label");
    data.records = open_records("tfrecord", files, verify_,
                                label != features_.end() ? label->second
                                : features_.empty()      ? "label"
                                                         : "",
                                keep_broken_);
    if (data.records->size() == 0)
      throw Error(Exit::usage, files_.place(), "the files hold no examples");
    for (size_t file = 0; file < files.size(); ++file)
      data.lengths.push_back(data.records->records_in(file));
    data.features = features_;
    if (data.features.empty()) {
      for (const std::string& name : names_in_first(*data.records)) data.features[name] = name;
    }
    return data;
  }

  // Returns the names of the features of the first record, or with keep_broken_ of the first one
  // that can be read.
  std::vector<std::string> names_in_first(const Records& records) const {
    std::optional<Error> problem;
    for (int64_t i = 0; i < (keep_broken_ ? records.size() : 1); ++i) {
      try {
        const at::Tensor record = records.read(i);
        const TfExample first = parse(record);
        std::vector<std::string> names;
        for (const auto& [name, feature] : first.features()) names.emplace_back(name);
        return names;
      } catch (const Error& error) {
        if (!problem) problem = Error(Exit::usage, records.where(i), error.message());
      }
    }
    throw *problem;
  }

  FileList files_;
  const VerifyRecords verify_;
  const bool keep_broken_;
  Features features_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Opened> opened_;  // guarded by mutex_
};

const Register<Source, TfRecord> registered_tfrecord("tfrecord");

}  // namespace
}  // namespace bv

// What `bvtrain init` finds in files of records: data sets of TFDS, and tar files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "test/init/data_folders.h"
#include "test/init/findings.h"
#include "test/input/tar_writer.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {
namespace {

// Writes the TFDS data set `d` whose splits have examples with these labels.
void write_tfds_splits(const TempFolder& dir, const std::map<std::string, Counts>& splits) {
  std::string infos;
  for (const auto& [name, labels] : splits) {
    std::string records;
    for (const int64_t label : labels) {
      const std::string image = plain_jpeg(16, 16, 40 + static_cast<int>(20 * label));
      records += tfrecord(tf_example({{"image", bytes_feature(image)},
                                      {"label", label_feature(static_cast<uint64_t>(label))}}));
    }
    dir.write("d-" + name + ".tfrecord-00000-of-00001", records);
    infos += (infos.empty() ? "" : ", ") +
             fmt::format(R"({{"name": "{}", "shardLengths": ["{}"], "filepathTemplate":
                         "{{DATASET}}-{{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}"}})",
                         name, labels.size());
  }
  dir.write(
      "dataset_info.json",
      R"({"name": "d", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [)" + infos + "]}");
  dir.write("features.json", R"({"featuresDict": {"features": {
            "image": {"image": {"shape": {"dimensions": ["-1", "-1", "3"]}}},
            "label": {"classLabel": {"numClasses": "3"}}}}})");
}

}  // namespace

TEST_CASE("a data set of TFDS, with and without labels of its test data") {
  const TempFolder dir;
  const Counts train = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}, three = {0, 1, 2}, secret = {-1, -1};
  const std::string note = "not used: the split 'test', which has labels below 0";
  write_tfds_splits(dir, {{"train", train}, {"validation", three}, {"test", three}});
  DataFindings found = inspect_data(dir.path());
  CHECK(found.data.source == "tfds");
  CHECK(found.train == "train");
  CHECK(found.validation == "validation");
  CHECK(found.test == "test");
  CHECK(counts(found) == Counts{4, 4, 4});
  CHECK(std::count(found.notes.begin(), found.notes.end(), note) == 0);

  write_tfds_splits(dir, {{"train", train}, {"validation", three}, {"test", secret}});
  found = inspect_data(dir.path());
  CHECK(found.validation == "validation");
  CHECK(found.test.empty());
  CHECK(std::count(found.notes.begin(), found.notes.end(), note) == 1);

  write_tfds_splits(dir, {{"train", train}, {"test", secret}});
  found = inspect_data(dir.path());
  CHECK(found.sliced);
  CHECK(found.test.empty());
  CHECK(std::count(found.notes.begin(), found.notes.end(), note) == 1);
}

TEST_CASE("tar files for training and validation may have their number and count in their names") {
  const TempFolder dir;
  for (const std::string split : {"train", "val"}) {
    for (int shard = 0; shard < 2; ++shard) {
      std::string members;
      for (int label = 0; label < 2; ++label) {
        members += tar_member(fmt::format("{}.cls", label), fmt::format("{}", label)) +
                   tar_member(fmt::format("{}.jpg", label), plain_jpeg(16, 16, 20 + 90 * label));
      }
      dir.write(fmt::format("{}-{:05}-of-00002.tar", split, shard), members + kTarEnd);
    }
  }
  const DataFindings found = inspect_data(dir.path());
  CHECK(found.data.train == DataKeys{{"urls", dir / "train-*.tar"}});
  CHECK(found.data.validation == DataKeys{{"urls", dir / "val-*.tar"}});
  CHECK(found.train_examples == 4);
  CHECK(found.validation_examples == 4);
}

}  // namespace bv::test

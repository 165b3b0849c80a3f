// TFRecord files with a broken record: skip_errors, a quarantine list and `bvtrain data check`
// accept it, and other runs report the problem at the start.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "lib/input/check/check_data.h"
#include "lib/input/check/data_sections.h"
#include "lib/input/prepare_data.h"
#include "test/input/lists.h"
#include "test/support/bad_data/image_folders.h"
#include "test/support/bad_data/record_writers.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/stopped.h"

namespace bv::test {
namespace {

const std::string kWrongData = "the checksum of the record's data is wrong";

std::string note_example(uint64_t label) {
  return tf_example({{"label", label_feature(label)}, {"note", bytes_feature("some text")}});
}
std::string note_record(uint64_t label) { return tfrecord(note_example(label)); }

// A record whose frame has a flipped bit: it is no Example any more, and its checksum is wrong.
std::string damaged_record(uint64_t label) { return flipped(note_record(label), 12); }

// A folder with the one-file TFDS data set `d`, and its own index cache.
struct Records : MemoryFolder {
  Records() { setenv("XDG_CACHE_HOME", cache.path().c_str(), 1); }
  ~Records() { unsetenv("XDG_CACHE_HOME"); }

  // Writes the file, with `records` records.
  void file(const std::string& content, int records) const {
    write("dataset_info.json",
          fmt::format(R"({{"name": "d", "version": "1.0.0", "fileFormat": "tfrecord", "splits":
                      [{{"name": "train", "shardLengths": ["{}"], "filepathTemplate":
                      "{{DATASET}}-{{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}"}}]}})",
                      records));
    write("features.json", R"({"featuresDict": {"features": {
          "note": {"text": {}}, "label": {"classLabel": {"numClasses": "10"}}}}})");
    write(kShard, content);
  }
  void age() const {
    std::filesystem::last_write_time(
        *this / kShard, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::string section(const std::string& source) const {
    return source == "tfds" ? "name: tfds, data_dir: " + path()
                            : "name: tfrecord, files: " + (*this / kShard);
  }
  // Opens the file, with its labels.
  std::shared_ptr<const Dataset> open(const std::string& source, bool keep_broken) const {
    DataEnv env;
    env.source.keep_broken = keep_broken;
    env.skip_section = "input";
    auto data = from_yaml("{" + section(source) + "}", [&](const Config& config) {
      return prepare_data(config, env);
    })(std::nullopt);
    data->labels();
    return data;
  }
  std::string problem(const std::string& source) const {
    return local(error_of([&] { open(source, /*keep_broken=*/false); }));
  }
  std::string local(std::string text) const {
    for (size_t at; (at = text.find(path() + "/")) != std::string::npos;)
      text.erase(at, path().size() + 1);
    return text;
  }
  std::ptrdiff_t stored() const {
    return std::distance(std::filesystem::directory_iterator(cache / "bvtrain/index"), {});
  }

  static inline const std::string kShard = "d-train.tfrecord-00000-of-00001";
  MemoryFolder cache;
};

std::string at_second() {
  return fmt::format("{} @ offset {}", Records::kShard, note_record(1).size());
}

// The hint that only the source tfrecord appends: tfds checks its files later.
std::string hint(const std::string& source) {
  return source == "tfds" ? "" : " (input.skip_errors: N skips up to N such examples)";
}

}  // namespace

TEST_CASE("a record that is no Example is an example that fails, without a label", "[formats]") {
  const Records records;
  for (const std::string source : {"tfrecord", "tfds"}) {
    INFO(source);
    records.file(note_record(4) + damaged_record(5) + note_record(6) + note_record(4), 4);
    CHECK(records.problem(source) == at_second() + ": error: " + kWrongData + hint(source));
    const auto data = records.open(source, /*keep_broken=*/true);
    REQUIRE(data->size() == 4);
    CHECK(data->labels() == Labels{4, Source::kNoLabel, 6, 4});
    CHECK(data->label_counts() == std::map<int64_t, int64_t>{{4, 2}, {6, 1}});
    CHECK(records.local(error_of([&] { data->read(1); }, Exit::data)) ==
          at_second() + ": error: " + kWrongData);
    CHECK(records.local(data->describe(1)) == at_second());
    CHECK(data->read(2).at("label").item<int64_t>() == 6);
    // A record whose checksum is right.
    records.file(note_record(4) + tfrecord("text"), 2);
    CHECK(records.problem(source) ==
          at_second() + ": error: the record is not a tf.train.Example" + hint(source));
    const auto text = records.open(source, /*keep_broken=*/true);
    CHECK(text->labels() == Labels{4, Source::kNoLabel});
    CHECK_THAT(records.local(error_of([&] { text->read(1); }, Exit::data)),
               Catch::StartsWith(at_second() + ": error: "));
    // After a wrong length, the start of the next record is unknown.
    records.file(note_record(4) + flipped(note_record(5), 0) + note_record(6), 3);
    CHECK(records.local(error_of([&] { records.open(source, /*keep_broken=*/true); })) ==
          at_second() + ": error: the checksum of a record's length is wrong");
  }
}

TEST_CASE("whichever bit of a record is flipped, only this example is lost", "[formats]") {
  const Records records;
  const std::string good = note_record(5);
  for (const std::string source : {"tfrecord", "tfds"}) {
    for (size_t byte = 12; byte < good.size(); ++byte) {
      const int bit = static_cast<int>(byte) % 8;
      CAPTURE(source, byte, bit);
      records.file(note_record(4) + flipped(good, byte, bit) + note_record(6), 3);
      const auto data = records.open(source, /*keep_broken=*/true);
      REQUIRE(data->labels().size() == 3);
      CHECK(data->labels()[0] == 4);
      CHECK(data->labels()[2] == 6);
      CHECK(records.local(error_of([&] { data->read(1); }, Exit::data)) ==
            at_second() + ": error: " + kWrongData);
      CHECK(data->read(2).size() == 2);
      // Without skip_errors it is detected at the start, or when the example is read.
      const std::string strict = records.problem(source);
      CHECK((strict.empty() || strict == at_second() + ": error: " + kWrongData + hint(source)));
      CHECK(strict.empty() == (data->labels()[1] != Source::kNoLabel));
    }
  }
}

TEST_CASE("tfrecord: the first example that can be read says which features there are",
          "[formats]") {
  const Records records;
  records.file(damaged_record(1) + tfrecord("text") + note_record(3), 3);
  const auto data = records.open("tfrecord", /*keep_broken=*/true);
  CHECK(data->labels() == Labels{Source::kNoLabel, Source::kNoLabel, 3});
  CHECK(data->read(2).contains("note"));
  CHECK(records.problem("tfrecord") ==
        fmt::format("{0} @ offset 0: error: {1}\n{2}: error: the record is not a "
                    "tf.train.Example{3}",
                    Records::kShard, kWrongData, at_second(), hint("tfrecord")));
  records.file(damaged_record(1) + damaged_record(2), 2);
  CHECK(records.local(error_of([&] { records.open("tfrecord", /*keep_broken=*/true); })) ==
        Records::kShard + " @ offset 0: error: " + kWrongData);
}

TEST_CASE("many broken records are counted", "[formats]") {
  const Records records;
  std::string content = note_record(1);
  for (uint64_t i = 0; i < 30; ++i) content += damaged_record(i % 10);
  records.file(content, 31);
  const std::string all = records.problem("tfds");
  CHECK(std::count(all.begin(), all.end(), '\n') == 20);
  CHECK_THAT(all, Catch::EndsWith("\n... and 10 more"));
}

TEST_CASE("a stored index with broken records is of no use to a strict run", "[formats]") {
  const Records records;
  const std::string wrong = at_second() + ": error: " + kWrongData;
  records.file(note_record(4) + damaged_record(5) + note_record(6), 3);
  records.age();
  for (int i = 0; i < 2; ++i) {
    CHECK(records.open("tfds", /*keep_broken=*/true)->labels() == Labels{4, Source::kNoLabel, 6});
    CHECK(records.stored() == 1);
    CHECK(records.problem("tfds") == wrong);
  }
  // One without broken records serves both.
  records.file(note_record(4) + note_record(5) + note_record(6), 3);
  records.age();
  CHECK(records.open("tfds", /*keep_broken=*/false)->labels() == Labels{4, 5, 6});
  const std::ptrdiff_t stored = records.stored();
  CHECK(records.open("tfds", /*keep_broken=*/true)->labels() == Labels{4, 5, 6});
  CHECK(records.stored() == stored);
}

TEST_CASE("a signal ends the scan of a large TFRecord file", "[formats]") {
  const Records records;
  const std::string record = note_record(4);
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += record;
  records.file(content, 100'000);
  CHECK(stops_early([&] { records.open("tfrecord", /*keep_broken=*/false); }));
}

TEST_CASE("data check lists a broken record, and its list leaves it out", "[formats]") {
  const Records records;
  records.file(note_record(4) + damaged_record(5) + note_record(6), 3);
  const std::string list = records / "list.jsonl";
  for (const std::string source : {"tfrecord", "tfds"}) {
    INFO(source);
    const std::string data = "input:\n  data: {" + records.section(source) + "}\n";
    const Config all = parse_config(data, "x.yaml");
    const auto sections = data_sections(all);
    const OpenedData opened = DataOpener(all, sections, {.keep_broken = true}).open(sections[0]);
    std::string lines;
    check_data(opened, 2, {}, [&](const BrokenExample& one) { lines += line_of(one); });
    CHECK(records.local(lines) ==
          fmt::format("{{\"data\": \"input\", \"example\": \"{}\", \"file\": \"{}\", \"offset\": "
                      "{}, \"reason\": \"{}\"}}\n",
                      at_second(), Records::kShard, note_record(1).size(), kWrongData));
    write(list, lines);

    const Config with_list = parse_config(data + "  quarantine: " + list + "\n", "x.yaml");
    const auto listed = data_sections(with_list);
    const auto rest = DataOpener(with_list, listed, {.quarantine = true}).open(listed[0]).data;
    CHECK(rest->labels() == Labels{4, 6});
    CHECK(rest->read(1).at("label").item<int64_t>() == 6);
  }
}

}  // namespace bv::test

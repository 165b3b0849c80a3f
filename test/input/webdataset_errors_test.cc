#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "lib/ckpt/formats/npy.h"
#include "lib/input/dataset.h"
#include "lib/util/rng.h"
#include "test/input/webdataset_shards.h"
#include "test/support/clock.h"
#include "test/support/image_files.h"
#include "test/support/limits.h"
#include "test/support/opens.h"
#include "test/support/stopped.h"

namespace bv::test {

TEST_CASE("samples that cannot be read are named at the start", "[webdataset]") {
  const Shards shards;
  // Returns what is wrong with the second of two samples.
  const auto second = [&](const std::string& members) {
    shards.tar("a.tar", labelled("0", 1) + members);
    const std::string text = shards.problem();
    // With skip_errors it is an example that fails, for the same reason and with the same name.
    const auto source = shards.open("", /*keep_broken=*/true);
    CHECK(source->size(0) == 2);
    CHECK(source->read(0, 0).at("label").item<int64_t>() == 1);
    CHECK(shards.read_problem(*source, 1) == text);
    CHECK(text.starts_with(shards.without_path(source->describe(0, 1)) + ": error: "));
    const std::string where = "a.tar @ offset 2048 (key 1): error: ";
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  CHECK(second(sample("1", {{"jpg", jpeg("")}})) == "has no 'cls', only jpg");
  CHECK(second(sample("1", {{"cls", "1"}, {"txt", ""}})) == "has no image, only cls, txt");
  CHECK(second(sample("1", {{"cls", "1"}, {"jpg", jpeg("")}, {"png", jpeg("")}})) ==
        "has several images: choose one, as in `features: {image: jpg, label: cls}`");
  CHECK(second(sample("1", {{"cls", "1"}, {"jpg", jpeg("")}}) + tar_member("1.JPG", jpeg(""))) ==
        "has 'jpg' twice, again @ offset 4096");
  CHECK(second(sample("1", {{"cls", "one"}, {"jpg", jpeg("")}})) ==
        "the label 'one' is not an integer (`classes` gives the names of classes)");
  CHECK(second(sample("1", {{"cls", "5.5"}, {"jpg", jpeg("")}})) ==
        "the label '5.5' has a fraction, so it is not a class number; store regression targets in "
        "a json member, always with a decimal point (5.0)");
  CHECK_THAT(second(sample("1", {{"cls", ""}, {"jpg", jpeg("")}})),
             Catch::StartsWith("the label '' is not an integer"));
  CHECK_THAT(second(sample("1", {{"cls", "99999999999999999999"}, {"jpg", jpeg("")}})),
             Catch::StartsWith("the label '99999999999999999999' is not an integer"));
  CHECK(second(sample("1", {{"cls", std::string(4097, '1')}, {"jpg", jpeg("")}})) ==
        "'cls' has 4097 bytes, too many for a label");
  CHECK(second(sample("1", {{"cls", "1"}, {"jpg", ""}})) == "'jpg': the file is empty");
  CHECK_THAT(second(sample("1", {{"cls", "1"}, {"jpg", "GIF89a"}})), Catch::StartsWith("'jpg': "));

  // Many of them, in several files.
  std::string bad = labelled("good", 1);
  for (int i = 0; i < 15; ++i) bad += tar_member(fmt::format("{}.jpg", i), jpeg(""));
  shards.tar("a.tar", bad);
  shards.tar("b.tar", bad);
  const std::string all = shards.problem();
  CHECK(std::count(all.begin(), all.end(), '\n') == 20);
  CHECK_THAT(all, Catch::EndsWith("\n... and 10 more"));
}

TEST_CASE("class names are compared only with the unknown labels that are shown", "[webdataset]") {
  const Shards shards;
  std::string members, names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = fmt::format("bird number {:050}", i);
    names += (i > 0 ? ", " : "") + name;
    members += sample(fmt::format("{}", i), {{"cls", "a " + name}, {"jpg", jpeg("")}});
  }
  shards.tar("a.tar", members);
  const double start = cpu_seconds();
  const std::string all = shards.problem("classes: [" + names + "]");
  const double seconds = cpu_seconds() - start;
  CHECK(std::count(all.begin(), all.end(), '?') == 20);  // (did you mean '...'?)
  CHECK_THAT(all, Catch::EndsWith("\n... and 980 more"));
  CHECK(seconds < (kSanitized ? 20 : 2));
}

TEST_CASE("members of a sample that are not next to each other are told as such", "[webdataset]") {
  const Shards shards;
  const std::string advice =
      "; other members with this key are elsewhere in the tar, but those of one sample must follow "
      "each other, as `tar --sort=name` writes them";
  const std::string image = tar_member("0.jpg", jpeg("")), other = tar_member("1.jpg", jpeg(""));
  const std::string label = tar_member("0.cls", "1");
  shards.tar("a.tar", image + other + label);
  CHECK(shards.problem() == "a.tar @ offset 2048 (key 0): error: has no image, only cls" + advice);
  CHECK(shards.problem("features: {image: jpg, label: cls}") ==
        "a.tar @ offset 0 (key 0): error: has no member 'cls', which `features` names for `label`; "
        "it has jpg" +
            advice);
  shards.tar("a.tar", label + other + image);
  CHECK(shards.problem() ==
        "a.tar @ offset 0 (key 0): error: has no image (jpg, jpeg, png, webp), "
        "only cls" +
            advice);
  shards.tar("a.tar", labelled("2", 1) + image + other + label);
  CHECK(
      shards.problem() ==
      "a.tar @ offset 2048 (key 0): error: has no 'cls', only jpg" + advice +
          "\na.tar @ offset 3072 (key 1): error: has no 'cls', only jpg\na.tar @ offset 4096 (key "
          "0): error: has no image, only cls" +
          advice);
}

TEST_CASE("with skip_errors the first sample that can be read determines the features",
          "[webdataset]") {
  const Shards shards;
  // Returns what is wrong with the first of three samples.
  const auto first = [&](const std::string& members, const std::string& rest = "") {
    shards.tar("a.tar", members + labelled("1", 4) + labelled("2", 5));
    CHECK_FALSE(shards.problem(rest).empty());
    for (int i = 0; i < 2; ++i) {  // the second time from the stored index
      const auto source = shards.open(rest, /*keep_broken=*/true);
      CHECK(shard_labels(*source) == Labels{Source::kNoLabel, 4, 5});
      CHECK(keys_of(source->read(0, 2)) == Names{"image", "label"});
      CHECK(source->file_notes(0).remarks.empty());
    }
    return shards.read_problem(*shards.open(rest, /*keep_broken=*/true), 0);
  };
  const std::string where = "a.tar @ offset 0 (key 0): error: ";
  CHECK(first(tar_member("0.txt", "x")) == where + "has no image, only txt");
  CHECK(first(tar_member("0.jpg", jpeg("")), "features: {image: jpg, label: cls}") ==
        where + "has no 'cls', only jpg");
  // If no sample can be read, the first problem is told.
  shards.tar("a.tar", tar_member("0.txt", "x") + tar_member("1.cls", "1"));
  const std::string none = shards.problem();
  CHECK(none.starts_with(where + "has no image (jpg, jpeg, png, webp), only txt"));
  CHECK(shards.without_path(error_of([&] { shards.open("", /*keep_broken=*/true)->size(0); })) ==
        none);

  const auto with_json = [](const std::string& key, const std::string& json) {
    return sample(key, {{"jpg", jpeg("")}, {"json", json}});
  };
  shards.tar("a.tar", with_json("0", R"({"label": 3)") + with_json("1", R"({"label": 4})"));
  const auto source = shards.open("", /*keep_broken=*/true);
  CHECK(shard_labels(*source) == Labels{Source::kNoLabel, 4});
  CHECK(shards.read_problem(*source, 0).starts_with(where + "'json' is not valid JSON"));
}

TEST_CASE("labels that are lost because the first sample has none are told", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", tar_member("0.jpg", jpeg("")) + labelled("1", 4));
  shards.tar("b.tar", labelled("2", 5));
  const auto remarks = [&](const std::string& rest) {
    Names all = shards.open(rest)->file_notes(0).remarks;
    for (std::string& each : all) each = shards.without_path(each);
    return all;
  };
  for (int i = 0; i < 2; ++i) {  // the second time from the stored index
    CHECK(remarks("") ==
          Names{"examples have no `label`, because a.tar @ offset 0 (key 0), which determines the "
                "features, has no 'cls'; 2 of 3 samples have one: correct that sample or remove "
                "it"});
  }
  CHECK(remarks("features: {image: jpg}").empty());
}

TEST_CASE("a sample that cannot be read has no label", "[webdataset]") {
  constexpr int64_t kNo = Source::kNoLabel;
  const Shards shards;
  const std::string unknown = tar_member("u.jpg", jpeg(""));
  shards.tar("a.tar", labelled("0", 4) + unknown + labelled("1", 5));
  shards.tar("b.tar", unknown + labelled("2", 6) + sample("3", {{"cls", "7"}, {"jpg", ""}}));
  for (int i = 0; i < 2; ++i) {  // the second time from the stored index
    const std::shared_ptr<Source> source = shards.open("", /*keep_broken=*/true);
    CHECK(shard_labels(*source) == Labels{4, kNo, 5, kNo, 6, kNo});
    CHECK(Dataset(source, "train", Place{}).label_counts() ==
          std::map<int64_t, int64_t>{{4, 1}, {5, 1}, {6, 1}});
    CHECK_FALSE(shards.index_file().empty());
  }
  // The labels are sorted, whatever is between them.
  shards.tar("b.tar", unknown + labelled("2", 5));
  CHECK(shards.open("", /*keep_broken=*/true)->sorted_by_class(0));
}

TEST_CASE("JSON that does not fit is named at the start", "[webdataset]") {
  const Shards shards;
  const auto second = [&](const std::string& json, const std::string& keys = "") {
    const std::string first = R"({"n": 1, "s": "x", "b": true, "l": [1]})";
    shards.tar("a.tar", sample("0", {{"jpg", jpeg("")}, {"json", first}}) +
                            sample("1", {{"jpg", jpeg("")}, {"json", json}}));
    const std::string text = shards.problem(keys);
    const size_t where = text.find("(key 1): error: ");
    return where == std::string::npos ? text : text.substr(where + 16);
  };
  const std::string hint = "; to leave it out, list the features to read in `features`";
  CHECK(second(R"({"n": 2.5, "s": "", "b": false, "l": [], "more": null})").empty());
  CHECK(second(R"({"s": "", "b": true, "l": []})") == "'json' has no key 'n'" + hint);
  CHECK(second(R"({"n": "2", "s": "", "b": true, "l": []})") ==
        "'json': 'n' is a string, but a number in the first sample" + hint);
  const std::string null = R"({"n": null, "s": "", "b": true, "l": []})";
  CHECK(second(null) == "'json': 'n' is null, but a number in the first sample" + hint);
  CHECK(second(null, "features: {image: jpg, n: json.n}\n") ==
        "'json': 'n' is null, but a number in the first sample");
  CHECK(second(null, "features: {image: jpg, s: json.s}\n").empty());
  CHECK(second(R"({"n": 1, "s": {}, "b": true, "l": []})") ==
        "'json': 's' is an object, but a string in the first sample" + hint);
  CHECK(second(R"({"n": 1, "s": "", "b": true, "l": [1, "a"]})") ==
        "'json': 'l' is a list that holds more than numbers, but a list of numbers in the first "
        "sample" +
            hint);
  CHECK(second(R"({"n": 18446744073709551615, "s": "", "b": true, "l": []})") ==
        "'json': 'n': 18446744073709551615 is larger than 2^63 - 1");
  CHECK(second(R"({"n": 1e39, "s": "", "b": true, "l": []})") ==
        "'json': 'n': 1e+39 is too large for float32");
  CHECK(second(R"({"n": 1e999, "s": "", "b": true, "l": []})") ==
        "'json' holds a number that is too large");
  CHECK(second(R"({"n": NaN})") == "'json' is not valid JSON: see its byte 7");
  CHECK(second(R"({"n": 1)") == "'json' is not valid JSON: see its byte 8");
  CHECK_THAT(second("{\"s\": \"\xFF\"}"), Catch::StartsWith("'json' is not valid JSON: see its"));
  CHECK(second("[1]") == "'json' is not a JSON object {...}");
  CHECK(second("{\"x\": " + std::string(70, '[')) == "'json' is nested more than 64 deep");
  CHECK(second("{\"x\": " + std::string(1'000'000, '{')) == "'json' is nested more than 64 deep");
  // A key that would replace another feature.
  shards.tar("a.tar", sample("0", {{"jpg", jpeg("")}, {"json", R"({"image": 1})"}}));
  CHECK(shards.problem() ==
        "a.tar @ offset 0 (key 0): error: 'image' and json key 'image' would both become `image`: "
        "choose the members in `features`");
}

TEST_CASE("members that cannot be read are errors of their examples", "[webdataset]") {
  const Shards shards;
  const auto problem = [&](const std::string& extension, const std::string& content) {
    shards.tar("a.tar", sample("0", {{"jpg", jpeg("")}, {extension, content}}));
    const std::string text =
        shards.read_problem(*shards.open("features: {image: jpg, x: " + extension + "}"), 0);
    const std::string where = "a.tar @ offset 0 (key 0): error: ";
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  CHECK(problem("txt", "\xFF") == "'txt' is not UTF-8");
  CHECK(problem("cls", "1.5") == "'cls' is '1.5', not an integer");
  CHECK(problem("npy", "x") == "'npy', byte 0: not an npy array");
  CHECK(problem("npy", npy_header("<f4", {2}) + "abc") ==
        "'npy', byte 10: shape (2) and dtype take 8 bytes, but there are 3");
  CHECK(problem("npy", npy_header(">f4", {1}) + "abcd") == "'npy' is a big-endian array");
  CHECK(problem("npy", npy_header("|b1", {1}) + "\x02") ==
        "'npy' has a bool that is neither 0 nor 1");
  CHECK(problem("npy", npy_header("<u4", {1}) + "abcd") ==
        "'npy' is an array of type 'u4', expected float, signed integer, uint8 or bool");
}

TEST_CASE("tars that would lose data are errors", "[webdataset]") {
  const Shards shards;
  const auto problem = [&](const std::string& bytes) {
    shards.write("a.tar", bytes);
    return shards.problem();
  };
  const std::string good = labelled("0", 1);
  CHECK_THAT(problem(std::string("\x1f\x8b\x08", 3)),
             Catch::StartsWith("a.tar: error: is compressed with gzip"));
  const std::string none =
      "a.tar: error: holds no samples: no member of the tar is called <key>.<extension>";
  CHECK(problem(std::string(10'240, '\0')) == none);
  CHECK(problem(tar_member("README", "x") + kTarEnd) == none);
  CHECK(problem(good + tar_header("1.jpg", 0, '1', TarFormat::ustar, "0.jpg") + kTarEnd) ==
        "a.tar @ offset 2048: error: '1.jpg' is only a link to '0.jpg': make the tar with "
        "--dereference --hard-dereference");
  CHECK_THAT(problem(good + tar_header("1.cls", 0, '2', TarFormat::gnu, "0.cls") + kTarEnd),
             Catch::Contains("'1.cls' is only a link to '0.cls'"));
  CHECK(problem(good + tar_header("1.md", 0, '2', TarFormat::gnu, "0.md") + kTarEnd).empty());
  CHECK_THAT(
      problem(good + kTarEnd + good + kTarEnd),
      Catch::StartsWith("a.tar @ offset 3072: error: there is data after the end of the tar"));
  CHECK_THAT(problem(good.substr(0, 1500)),
             Catch::StartsWith("a.tar @ offset 1024: error: the file ends within a header"));
  std::string one_key;
  for (int i = 0; i < 300; ++i) one_key += tar_member(fmt::format("frame.{:03}.jpg", i), jpeg(""));
  CHECK(problem(labelled("0", 1) + one_key + kTarEnd) ==
        "a.tar @ offset 2048 (key frame): error: this sample has more than 256 members: the key of "
        "a sample ends at the first dot of the file's name");
  // Also in a file that is not the first, and with skip_errors: it is unknown how many are lost.
  shards.tar("a.tar", good);
  shards.write("b.tar", labelled("x", 1).substr(0, 1500));
  CHECK_THAT(error_of([&] { shards.open("", /*keep_broken=*/true)->size(0); }),
             Catch::Contains("b.tar @ offset 1024: error: the file ends within a header"));
}

TEST_CASE("tars that may be cut off between two members are warned of", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", labelled("0", 1));
  CHECK(shards.open()->file_notes(0).remarks.empty());
  const auto cut = [&](const std::string& name, const std::string& bytes) {
    shards.write(name, bytes);
    shards.settle(name);
  };
  cut("b.tar", labelled("1", 2));
  const std::string begin =
      " of 3 tar files may be cut off, because the block of zeros at the end "
      "is missing; compare their sizes with those of the originals: ";
  const auto remarks = [&] {
    Names all = shards.open()->file_notes(0).remarks;
    for (std::string& each : all) each = shards.without_path(each);
    return all;
  };
  shards.tar("c.tar", labelled("2", 3));
  for (int i = 0; i < 2; ++i) {  // the second time from the stored index
    CHECK(remarks() == Names{"1" + begin + "b.tar"});
    CHECK_FALSE(shards.index_file().empty());
  }
  cut("c.tar", tar_member("2.cls", "3") + tar_header("2.jpg", 4) + jpeg(""));
  CHECK(remarks() == Names{"2" + begin + "b.tar, c.tar"});
}

TEST_CASE("a tar that changes during a run is an error of its examples", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", labelled("0", 1) + labelled("1", 2));
  const auto source = shards.open();
  CHECK(source->size(0) == 2);
  shards.tar("a.tar", tar_member("new", std::string(2000, 'x')) + labelled("1", 2));
  CHECK(shards.read_problem(*source, 1) ==
        "a.tar @ offset 2048: error: the file has changed since it was opened: there is no member "
        "of 5 bytes @ offset 3072");
  CHECK(shards.without_path(source->describe(0, 1)) == "a.tar @ offset 2048");

  const auto fresh = shards.open("features: {image: jpg}", true);
  CHECK(fresh->size(0) == 1);
  std::filesystem::remove(shards / "a.tar");
  CHECK(shards.read_problem(*fresh, 0) == "a.tar @ offset 2560: error: no such file");
}

TEST_CASE("the index of tars is stored until one of them changes", "[webdataset]") {
  const Shards shards;
  shards.write("a.tar", labelled("0", 1) + kTarEnd);
  CHECK(shard_labels(*shards.open()) == Labels{1});
  CHECK(shards.index_file().empty());  // the file may still change

  const auto jpg = [](const std::string& key, const std::string& label, double number) {
    return sample(key, {{"cls", label},
                        {"jpg", jpeg(key)},
                        {"txt", key},
                        {"json", fmt::format(R"({{"x": {}}})", number)}});
  };
  shards.tar("a.tar", jpg("0", "1", 1) + jpg("1", "2", 1.5) + tar_member("a.md", ""));
  shards.tar("b.tar", jpg("2", "2", 1));
  const auto first = shards.open();
  CHECK(shard_labels(*first) == Labels{1, 2, 2});
  REQUIRE_FALSE(shards.index_file().empty());
  const auto again = shards.open();
  CHECK(shard_labels(*again) == Labels{1, 2, 2});
  CHECK(images_of(*again) == images_of(*first));
  CHECK(again->read(0, 0).at("x").scalar_type() == at::kFloat);
  CHECK(again->file_notes(0).other_types == first->file_notes(0).other_types);
  CHECK(again->file_notes(0).images == 3);

  // The headers are not read again ...
  const auto opens = [&](const std::string& rest) {
    return opens_of(shards / "b.tar", [&] { shards.open(rest)->labels(0); });
  };
  CHECK(opens("") == 0);
  // ... for the same settings, until the file changes, even if size and time are as before.
  CHECK(opens("features: {image: jpg, label: cls}") > 0);
  const auto time = std::filesystem::last_write_time(shards / "b.tar");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // for another change time
  shards.write("b.tar", jpg("2", "9", 1) + kTarEnd);
  std::filesystem::last_write_time(shards / "b.tar", time);
  CHECK(shard_labels(*shards.open()) == Labels{1, 2, 9});
  CHECK(opens("") == 0);
}

TEST_CASE("a stored index of tars that is damaged is made again", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", labelled("0", 1) + labelled("1", 2));
  CHECK(shard_labels(*shards.open()) == Labels{1, 2});
  const std::string file = shards.index_file(), good = read_text(file);
  REQUIRE(good.size() > 100);
  Rng rng(1, Purpose::synthetic, 0);
  for (int i = 0; i < 100; ++i) {
    std::string bad = good;
    bad[static_cast<size_t>(rng.below(std::ssize(bad)))] ^= static_cast<char>(1 + rng.below(255));
    if (i % 4 == 0) bad.resize(static_cast<size_t>(rng.below(std::ssize(bad))));
    // A correct checksum does not make the content correct.
    if (i % 2 && bad.size() > 17)
      bad = fmt::format("{:016x}\n", hash64(std::string_view(bad).substr(17))) + bad.substr(17);
    write(file, bad);
    const auto source = shards.open();
    CHECK((source->size(0) == 2 || i % 2 == 1));
    for (int64_t k = 0; k < source->size(0); ++k) {
      try {
        source->read(0, k);
      } catch (const Error& error) {
        CHECK(error.code() == Exit::data);
      }
    }
  }
}

TEST_CASE("a signal ends the scan of a large tar", "[webdataset]") {
  const Shards shards;
  const std::string two = labelled("0", 1) + labelled("1", 2);
  std::string members;
  for (int i = 0; i < 3000; ++i) members += two;
  shards.tar("a.tar", members);
  CHECK(stops_early([&] { shards.open()->size(0); }));
}

TEST_CASE("a stored index with broken samples is of no use to a strict run", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", labelled("0", 1) + tar_member("1.jpg", jpeg("")));
  CHECK(shards.open("", /*keep_broken=*/true)->size(0) == 2);
  REQUIRE_FALSE(shards.index_file().empty());
  CHECK(shards.read_problem(*shards.open("", true), 1) ==
        "a.tar @ offset 2048 (key 1): error: has no 'cls', only jpg");
  CHECK(shards.problem() == "a.tar @ offset 2048 (key 1): error: has no 'cls', only jpg");
}

}  // namespace bv::test

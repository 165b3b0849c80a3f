#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>

#include "lib/ckpt/formats/npy.h"
#include "lib/input/dataset.h"
#include "lib/input/detect_data.h"
#include "lib/input/sources/common/webdataset/webdataset_plan.h"
#include "lib/util/rng.h"
#include "test/input/webdataset_shards.h"
#include "test/support/image_files.h"

namespace bv::test {

TEST_CASE("samples are in the order of the files and of their members", "[webdataset]") {
  const Shards shards;
  shards.tar("b.tar", labelled("x/1", 3) + labelled("x/0", 4));
  shards.tar("a.tar", tar_header("d/", 0, '5') + tar_member("d/._1.jpg", "hidden") +
                          tar_member("d/1.JPG", jpeg("first")) +
                          tar_member("__MACOSX/d/1.cls", "9") + tar_member("__meta__/x.cls", "9") +
                          tar_member("d/1.cls", " -5 ") + tar_member("README", "text") +
                          labelled("2", 1) + labelled("d/1", 2));
  const auto source = shards.open();
  CHECK(source->splits() == Names{"all", "train"});
  CHECK(source->size(0) == 5);
  CHECK(source->size(1) == 5);
  CHECK_FALSE(source->is_array());
  CHECK(images_of(*source) == Names{"first", "2", "d/1", "x/1", "x/0"});
  CHECK(shard_labels(*source) == Labels{-5, 1, 2, 3, 4});
  for (int64_t i = 0; i < 5; ++i) {
    const Example example = source->read(0, i);
    CHECK(keys_of(example) == Names{"image", "label"});
    CHECK(example.at("label").dim() == 0);
    CHECK(example.at("label").item<int64_t>() == shard_labels(*source)[static_cast<size_t>(i)]);
  }
  CHECK(source->class_names().empty());
  CHECK(shards.without_path(source->describe(0, 0)) == "a.tar @ offset 1536 (key d/1)");
  CHECK(shards.without_path(source->describe(0, 4)) == "b.tar @ offset 2048 (key x/0)");
  CHECK(shards.without_path(source->describe_unread(0, 4)) == "b.tar @ offset 2048");
  CHECK(source->file_notes(0).images == 5);
  CHECK(source->file_notes(0).other_types == std::map<std::string, int64_t>{{"", 1}});
  // The order of a list of files is kept.
  const auto list = from_yaml(
      fmt::format("urls: ['{0}/b.tar', '{0}/a.tar']", shards.path()), [](const Config& config) {
        return Source::Registry::make("webdataset", config, config.place(), SourceEnv{});
      });
  CHECK(shard_labels(*list) == Labels{3, 4, -5, 1, 2});
}

TEST_CASE("names of members are divided at the first dot", "[webdataset]") {
  const auto parts = [](const std::string& name) {
    const std::optional<SampleName> found = sample_name(name);
    return found ? std::string(found->key) + "|" + found->extension : "-";
  };
  CHECK(parts("000.jpg") == "000|jpg");
  CHECK(parts("000.Seg.PNG") == "000|seg.png");
  CHECK(parts("./a.b/000.jpg") == "./a.b/000|jpg");
  CHECK(parts("__a/x.jpg") == "__a/x|jpg");
  for (const char* name : {"", "a", "a.", ".jpg", "d/.jpg", "a.b/c", "__MACOSX/a.jpg",
                           "d/__MACOSX/a.jpg", "__meta__/a.jpg", "__x.jpg__"})
    CHECK(parts(name) == "-");
}

TEST_CASE("what only stands beside the samples is counted", "[webdataset]") {
  const Shards shards;
  const std::string exif = "\xFF\xD8" + jpeg_segment(1, std::string("Exif\0\0", 6) + exif_data(6));
  shards.tar("a.tar", tar_member("README.md", "x") + labelled("0", 1) + tar_member("x.md", "") +
                          sample("1", {{"cls", "2"}, {"jpg", exif}, {"pdf", ""}}));
  const auto source = shards.open();
  CHECK(shard_labels(*source) == Labels{1, 2});
  CHECK(source->file_notes(0).other_types ==
        std::map<std::string, int64_t>{{".md", 2}, {".pdf", 1}});
  CHECK(source->file_notes(0).turned == 1);
  // An image that cannot be decoded is not just an unrelated file.
  shards.tar("a.tar", labelled("0", 1) + tar_member("1.gif", "GIF89a"));
  CHECK(shards.problem() == "a.tar @ offset 2048 (key 1): error: has no image, only gif");
}

TEST_CASE("without `features` the first sample decides", "[webdataset]") {
  const Shards shards;
  const std::vector<float> pose = {1.5F, -2, 3, 4};
  const std::string npy =
      npy_header("<f4", {2, 2}) + std::string(reinterpret_cast<const char*>(pose.data()), 16);
  const auto members = [&](const std::string& image, const std::string& json) {
    return std::map<std::string, std::string>{
        {image, jpeg("x")}, {"txt", "a caf\xC3\xA9"}, {"pose.npy", npy}, {"json", json}};
  };
  shards.tar("a.tar",
             sample("0", members("jpg", R"({"age": 7, "score": 1, "ok": true, "name": "Ann",
                                            "box": [1, 2], "none": null, "deep": {"a": 1},
                                            "label": 4})")) +
                 sample("1", members("PNG", R"({"age": -8, "score": 0.5, "ok": false, "name": "",
                                               "box": [3, 4.5, 6], "label": 5})")));
  const auto source = shards.open();
  CHECK(shard_labels(*source) == Labels{4, 5});
  const Example first = source->read(0, 0), second = source->read(0, 1);
  CHECK(keys_of(first) ==
        Names{"age", "box", "image", "label", "name", "ok", "pose", "score", "text"});
  CHECK(keys_of(second) == keys_of(first));
  CHECK(first.at("age").scalar_type() == at::kLong);
  CHECK(second.at("age").item<int64_t>() == -8);
  // One number with a fraction makes them all float32.
  CHECK(first.at("score").scalar_type() == at::kFloat);
  CHECK(first.at("score").item<float>() == 1);
  CHECK(second.at("score").item<float>() == 0.5F);
  CHECK(first.at("ok").scalar_type() == at::kBool);
  CHECK(first.at("ok").item<bool>());
  CHECK(text_in(first.at("name")) == "Ann");
  CHECK(second.at("name").numel() == 0);
  CHECK(first.at("box").scalar_type() == at::kFloat);
  CHECK(first.at("box").numel() == 2);
  CHECK(second.at("box").const_data_ptr<float>()[1] == 4.5F);
  CHECK(text_in(first.at("text")) == "a caf\xC3\xA9");
  CHECK(first.at("pose").dim() == 2);
  CHECK(std::memcmp(first.at("pose").const_data_ptr(), pose.data(), 16) == 0);
}

TEST_CASE("`features` chooses members", "[webdataset]") {
  const Shards shards;
  shards.tar("a.tar", sample("0", {{"left.jpg", jpeg("l")},
                                   {"right.jpg", jpeg("r")},
                                   {"cls", "1"},
                                   {"cls2", "17"},
                                   {"meta.json", R"({"a.b": 3, "label": "x"})"}}));
  CHECK(shards.problem() ==
        "a.tar @ offset 0 (key 0): error: has several images (left.jpg, right.jpg): choose one, as "
        "in `features: {image: left.jpg, label: cls}`");
  const auto source = shards.open(
      "features: {image: right.jpg, label: cls, fine: cls2, age: meta.json.a.b, "
      "raw: META.json}");
  const Example example = source->read(0, 0);
  CHECK(keys_of(example) == Names{"age", "fine", "image", "label", "raw"});
  CHECK(text_in(example.at("image")) == jpeg("r"));
  CHECK(example.at("label").item<int64_t>() == 1);
  CHECK(example.at("fine").item<int64_t>() == 17);
  CHECK(example.at("age").item<int64_t>() == 3);
  CHECK(text_in(example.at("raw")) == R"({"a.b": 3, "label": "x"})");
  CHECK(source->file_notes(0).other_types == std::map<std::string, int64_t>{{".jpg", 1}});
  // Without a label, classes are unknown.
  const auto unlabelled = shards.open("features: {image: left.jpg}");
  CHECK_FALSE(unlabelled->labels(0).defined());
  CHECK_FALSE(unlabelled->sorted_by_class(0));

  CHECK(shards.problem("features: {image: lfet.jpg}") ==
        "a.tar @ offset 0 (key 0): error: has no member 'lfet.jpg', which `features` names for "
        "`image` (did you mean 'left.jpg'?); it has cls, cls2, left.jpg, meta.json, right.jpg");
  CHECK(shards.problem("features: {age: meta.json.c.b}") ==
        "a.tar @ offset 0 (key 0): error: 'meta.json' has no key 'c.b' (did you mean 'a.b'?)");
  CHECK(shards.problem("features: {label: cls}") ==
        "a.tar @ offset 0 (key 0): error: `features` has only the label");
  CHECK_THAT(shards.problem("features: {image: tiff}"),
             Catch::StartsWith("t.yaml:2:19: error: ") &&
                 Catch::Contains("'tiff' is not an extension that can be read; known: jpg, jpeg"));
  CHECK_THAT(shards.problem("features: {image: .jpg}"),
             Catch::Contains("'.jpg' is not an extension such as jpg, left.jpg, cls or json.age"));
}

TEST_CASE("names of classes", "[webdataset]") {
  const Shards shards;
  const auto label = [](const std::string& key, const std::string& cls) {
    return sample(key, {{"cls", cls}, {"jpg", jpeg("")}});
  };
  shards.tar("a.tar", label("0", " ship\r\n") + label("1", "cat") + label("2", "dog"));
  const std::string file = shards.write("names.txt", "cat\r\ndog\r\nship\r\n\r\n");
  for (const std::string& classes : {std::string("[cat, dog, ship]"), file}) {
    const auto source = shards.open("classes: " + classes);
    CHECK(shard_labels(*source) == Labels{2, 0, 1});
    CHECK(source->class_names() == Names{"cat", "dog", "ship"});
  }
  CHECK(shards.open("classes: [cat, dog, ship]")->synthetic_spec().classes == 3);
  shards.write("names.txt",
               "\xEF\xBB\xBF"
               "cat\ndog\nship\n");
  CHECK(shards.open("classes: " + file)->class_names() == Names{"cat", "dog", "ship"});
  CHECK(shards.problem() ==
        "a.tar @ offset 0 (key 0): error: the label 'ship' is not an integer (`classes` gives the "
        "names of classes)\n"
        "a.tar @ offset 2048 (key 1): error: the label 'cat' is not an integer (`classes` gives "
        "the names of classes)\n"
        "a.tar @ offset 4096 (key 2): error: the label 'dog' is not an integer (`classes` gives "
        "the names of classes)");
  CHECK(shards.problem("classes: [cat, dogs, ship]") ==
        "a.tar @ offset 4096 (key 2): error: the label 'dog' is none of the 3 names in `classes` "
        "(did you mean 'dogs'?)");
  shards.tar("a.tar", label("0", "3"));
  CHECK(shards.problem("classes: [cat, dog, ship]") ==
        "a.tar @ offset 0 (key 0): error: the label is 3, but `classes` has 3 names");
  shards.tar("a.tar", label("0", "0") + label("1", "dog") + label("2", "cat"));
  CHECK(shards.problem("classes: [cat, dog, ship]") ==
        "a.tar @ offset 0 (key 0): error: the label '0' is a number, but a.tar @ offset 2048 (key "
        "1) has the label 'dog'");
  shards.tar("b.tar", label("0", "0") + label("1", "2"));
  CHECK(
      shards.problem("classes: [cat, dog, ship]") ==
      "a.tar @ offset 2048 (key 1): error: the label 'dog' is a name, but a.tar @ offset 0 (key 0) "
      "has the label '0'");
  std::filesystem::remove(shards / "b.tar");
  shards.tar("a.tar", label("0", "1990"));  // a name that looks like a number
  CHECK(shard_labels(*shards.open("classes: ['1980', '1990']")) == Labels{1});
  // The label 1 is both a name and its number, so it agrees with other numbers.
  shards.tar("a.tar", label("0", "0") + label("1", "1") + label("2", "2"));
  CHECK(shard_labels(*shards.open("classes: [background, '1', '2']")) == Labels{0, 1, 2});

  CHECK_THAT(shards.problem("classes: [a, b, a]"),
             Catch::StartsWith("t.yaml:2:10: error: ") &&
                 Catch::Contains("the class name 'a' appears twice"));
  CHECK_THAT(shards.problem("classes: ['1', '0']"),
             Catch::Contains("the class name '1' is also the number of another class; its own is "
                             "0"));
  CHECK_THAT(shards.problem("classes: []"), Catch::Contains("holds no names"));
  shards.write("names.txt", "cat\n\ndog\n");
  CHECK(shards.problem("classes: " + file) ==
        "names.txt:2: error: this line has no name of a class");
  shards.write("names.txt", "cat\n\xFF\n");
  CHECK(shards.problem("classes: " + file) == "names.txt:2: error: this line is not UTF-8");
  shards.write("names.txt", "cat\ncat\n");
  CHECK(shards.problem("classes: " + file) ==
        "names.txt: error: the class name 'cat' appears twice");
  shards.write("names.txt", "");
  CHECK(shards.problem("classes: " + file) == "names.txt: error: holds no names of classes");
}

TEST_CASE("urls", "[webdataset]") {
  const Shards shards;
  for (int i = 0; i < 12; ++i) shards.tar(fmt::format("t-{:02}.tar", i), labelled("0", i));
  shards.tar("[x]-1.tar", labelled("0", 77));
  const auto labels = [&](const std::string& urls) {
    return shard_labels(*shards.open("", false, urls));
  };
  CHECK(labels("t-{08..11}.tar") == Labels{8, 9, 10, 11});
  CHECK(labels("t-{11,03}.tar") == Labels{11, 3});
  CHECK(labels("t-0?.tar") == Labels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(labels("t-{1*,00}.tar") == Labels{10, 11, 0});
  CHECK(labels("[x]-?.tar") == Labels{77});

  CHECK(shards.problem("", "t-{11..12}.tar") == "t.yaml:1:7: error: no such file: 't-12.tar'");
  CHECK(shards.problem("", "t-{11..99}.tar") ==
        "t.yaml:1:7: error: no such file: 't-12.tar'; 87 more of the 89 files are missing too");
  CHECK(shards.problem("", "v-*.tar") == "t.yaml:1:7: error: no file matches 'v-*.tar'");
  CHECK(shards.problem("", "t-{01..03}.tar/x") ==
        "t.yaml:1:7: error: no such file: 't-01.tar/x'; 2 more of the 3 files are missing too");
  CHECK(shards.problem("", "{t-01,t-0?}.tar") ==
        "t-01.tar: error: is listed twice, so its examples would count twice");
  CHECK_THAT(shards.problem("", "t-{00-11}.tar"),
             Catch::StartsWith("t.yaml:1:7: error: ") &&
                 Catch::Contains("'{00-11}' is neither a range such as {000..127}"));
  shards.make("t-d.tar");
  CHECK(shards.problem("", "t-d.tar") == "t-d.tar: error: is a folder");

  const auto urls_error = [](const std::string& yaml) {
    return error_of([&] {
      from_yaml(yaml, [](const Config& config) {
        return Source::Registry::make("webdataset", config, config.place(), SourceEnv{});
      });
    });
  };
  CHECK_THAT(
      urls_error("urls: 'pipe:curl -s http://x/a.tar'"),
      Catch::Contains(
          "would run a command: run it yourself, and give the path of the file that it makes"));
  for (const char* scheme : {"gs", "s3", "https"}) {
    CHECK_THAT(urls_error(fmt::format("urls: ['a.tar', '{}://x/a.tar']", scheme)),
               Catch::StartsWith("t.yaml:1:7: error: ") &&
                   Catch::Contains(fmt::format("{0}:// is not supported ('{0}://x/a.tar'): copy "
                                               "the data to a local disk",
                                               scheme)));
  }
  CHECK_THAT(urls_error("urls: 'file:/x/a.tar'"),
             Catch::Contains("write the path without 'file:'"));
  CHECK_THAT(urls_error("urls: []"), Catch::Contains("lists no files"));
  CHECK_THAT(urls_error("classes: [a]"), Catch::Contains("urls: missing"));
}

TEST_CASE("samples of any size come back bit by bit", "[webdataset]") {
  const Shards shards;
  Rng rng(3, Purpose::synthetic, 0);
  Names images;
  Labels labels;
  for (int shard = 0; shard < 8; ++shard) {
    std::string bytes;
    for (int64_t i = 0, count = rng.below(20); i <= count; ++i) {
      std::string image(static_cast<size_t>(rng.below(3000)), '\0');
      for (char& c : image) c = static_cast<char>(rng.below(256));
      const std::string key =
          fmt::format("{}{}", std::string(static_cast<size_t>(rng.below(200)), 'k'), i);
      const int64_t label = rng.below(1000) - 10;
      const std::string cls = fmt::format("{}", label);
      const bool first = rng.below(2) == 0;
      if (first) bytes += gnu_long_member(key + ".cls", cls);
      bytes += gnu_long_member(key + ".jpg", jpeg(image));
      if (!first) bytes += gnu_long_member(key + ".cls", cls);
      images.push_back(image);
      labels.push_back(label);
    }
    shards.tar(fmt::format("{}.tar", shard), bytes);
  }
  for (int round = 0; round < 2; ++round) {  // from the tars, and from the stored index
    const auto source = shards.open();
    CHECK(images_of(*source) == images);
    CHECK(shard_labels(*source) == labels);
  }
}

TEST_CASE("samples sorted by class are known as such", "[webdataset]") {
  const Shards shards;
  const auto sorted = [&](const Labels& labels) {
    std::string bytes;
    for (size_t i = 0; i < labels.size(); ++i) bytes += labelled(fmt::format("{}", i), labels[i]);
    shards.tar("a.tar", bytes);
    return shards.open()->sorted_by_class(0);
  };
  CHECK(sorted({0, 0, 1, 1}));
  CHECK_FALSE(sorted({0, 1, 0, 1}));
  CHECK_FALSE(sorted({0, 0, 0}));
  CHECK_FALSE(sorted({0, 1, 2}));
}

TEST_CASE("slices in shards take whole tars, unless the samples are sorted by class",
          "[webdataset]") {
  const Shards shards;
  const auto images = [&](const std::string& split) {
    const Dataset data(shards.open(), split, Place{"x.yaml", 5, 12});
    Names keys;
    for (int64_t i = 0; i < data.size(); ++i)
      keys.push_back(text_in(data.read(i).at("image")).substr(4));
    return keys;
  };
  shards.tar("a.tar", labelled("a0", 1) + labelled("a1", 2));
  shards.tar("b.tar", labelled("b0", 1));
  shards.tar("c.tar", labelled("c0", 2) + labelled("c1", 3));
  for (int round = 0; round < 2; ++round) {  // from the tars, and from the stored index
    CHECK(images("train[:2shard]") == Names{"a0", "a1", "b0"});
    CHECK(images("train[-1shard:]") == Names{"c0", "c1"});
  }
  shards.tar("b.tar", labelled("b0", 2));
  CHECK(error_of([&] { images("train[:2shard]"); }) ==
        "x.yaml:5:12: error: split 'train[:2shard]': 'train' is sorted by class, so its slices are "
        "cut from a fixed random order and cannot be given in shards");
}

TEST_CASE("bvtrain init knows a folder of tars", "[webdataset]") {
  const Shards shards;
  const auto found = [&]() -> std::string {
    for (const DetectedData& data : detect_data(shards.path())) {
      if (data.source != "webdataset") continue;
      std::string text = shards.without_path(data.train.at(0).second);
      for (const auto& [key, value] : data.validation) text += " " + shards.without_path(value);
      return text;
    }
    return "-";
  };
  CHECK(found() == "-");
  shards.tar("data-0.tar", labelled("0", 0));
  CHECK(found() == "data-0.tar");
  shards.tar("data-1.tar", labelled("0", 1));
  CHECK(found() == "data-*.tar");
  shards.tar("more.tar", labelled("0", 1));
  CHECK(found() == "*.tar");
  for (const char* name : {"data-0.tar", "data-1.tar", "more.tar"})
    std::filesystem::remove(shards / name);
  for (const char* name : {"x-train-000.tar", "x-train-001.tar", "x-val-000.tar"})
    shards.tar(name, labelled("0", 1));
  CHECK(found() == "x-train-*.tar x-val-000.tar");
  shards.tar("other.tar", labelled("0", 1));
  CHECK_THAT(error_of(found), Catch::Contains("holds several kinds of tar files"));
  std::filesystem::remove(shards / "other.tar");
  // Without a class, training is impossible; a tar of something else is not for this source.
  shards.tar("x-train-000.tar", tar_member("0.jpg", jpeg("")));
  CHECK(found() == "-");
  shards.write("x-train-000.tar", "no tar");
  CHECK_THAT(error_of(found), Catch::Contains("is not a tar file"));
  shards.make("cat");
  CHECK(found() == "-");
}

TEST_CASE("bvtrain init refuses tars in a folder whose name is a pattern", "[webdataset]") {
  const Shards shards;
  const std::string tar = labelled("0", 0) + kTarEnd;
  for (const char* name : {"st*r", "br{a}", "wh?t"}) {
    shards.write(std::string(name) + "/t-0.tar", tar);
    const std::string folder = shards / name;
    CHECK(error_of([&] { detect_data(folder); }) ==
          folder +
              ": error: holds tar files, but its path has *, ?, { or } in it, which `urls` would "
              "expand: rename that folder");
  }
  shards.write("[x] a,b/t-0.tar", tar);
  CHECK(detect_data(shards / "[x] a,b").size() == 1);
}

}  // namespace bv::test

// What must hold for every registered source, and prepare_data().
#include "lib/input/prepare_data.h"

#include <ATen/ATen.h>
#include <ATen/ops/cat.h>

#include <catch2/catch.hpp>
#include <thread>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/path.h"
#include "test/init/data_folders.h"
#include "test/input/open_data.h"
#include "test/support/compare.h"
#include "test/support/digits_40.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Writes minimal data for the source, and returns its config section.
std::string smallest_config(const std::string& name, const TempFolder& temp) {
  if (name == "digits") return "{name: digits}";
  if (name == "synthetic") return "{name: synthetic, size: 12, image_size: 8, encoded: none}";
  if (name == "idx") {
    temp.write("train-images-idx3-ubyte", idx_file({2, 1, 3}, "abcdef"));
    temp.write("train-labels-idx1-ubyte", idx_file({2}, "\1\2"));
    return "{name: idx, data_dir: " + temp.path() + "}";
  }
  if (name == "cifar") {
    for (int i = 1; i <= 5; ++i) {
      temp.write(fmt::format("data_batch_{}.bin", i), std::string(1, i) + std::string(3072, 'x'));
    }
    temp.write("test_batch.bin", std::string(3073, 1));
    return "{name: cifar, data_dir: " + temp.path() + "}";
  }
  if (name == "npz") {
    write_npz(temp / "a.npz",
              {{"train/image", at::ones({3, 2, 2, 1}, at::kByte)}, {"train/label", at::arange(3)}});
    return "{name: npz, fname: " + (temp / "a.npz") + ", prefix: train/}";
  }
  if (name == "image_folder") {
    const at::Tensor bytes = encode_jpeg(at::full({4, 4, 3}, 7, at::kByte), 90);
    const std::string jpeg(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                           bytes.numel());
    for (const char* file : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) temp.write(file, jpeg);
    return "{name: image_folder, data_dir: " + temp.path() + "}";
  }
  if (name == "csv" || name == "jsonl" || name == "bv:jsonl") {
    const at::Tensor bytes = encode_jpeg(at::full({4, 4, 3}, 7, at::kByte), 90);
    temp.write("a.jpg", std::string(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                                    bytes.numel()));
    if (name == "csv") {
      temp.write("t.csv", "image,label\na.jpg,cat\na.jpg,dog\n");
      return "{name: csv, fname: " + (temp / "t.csv") + "}";
    }
    temp.write("t.jsonl",
               "{\"image\": \"a.jpg\", \"label\": 0}\n{\"image\": \"a.jpg\", \"label\": 1}\n");
    return "{name: '" + name + "', fname: " + (temp / "t.jsonl") + ", fopen_keys: [image]}";
  }
  const std::string formats = digits_40();
  if (name == "tfds" || name == "from_data_dir")
    return "{name: " + name + ", data_dir: " + formats + "/tfds/digits_40}";
  if (name == "webdataset")
    return "{name: webdataset, urls: '" + formats + "/wds/train-{000..001}.tar'}";
  if (name == "tfrecord") {
    return "{name: tfrecord, files: '" + formats +
           "/tfrecord/train-*', features: {image: image/encoded, label: image/class/label}}";
  }
  FAIL("no smallest config for source '" + name + "': add one here");
  return "";
}

}  // namespace

TEST_CASE("the registered sources", "[source]") {
  CHECK(Source::Registry::names() ==
        std::vector<std::string>{"bv:jsonl", "cifar", "csv", "digits", "from_data_dir", "idx",
                                 "image_folder", "jsonl", "npz", "synthetic", "tfds", "tfrecord",
                                 "webdataset"});
}

TEST_CASE("contract of a source", "[source]") {
  const TempFolder cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  for (const std::string& name : Source::Registry::names()) {
    INFO(name);
    const TempFolder temp;
    const auto data = open_data(smallest_config(name, temp));
    REQUIRE(data->size() >= 2);
    const Example first = data->read(0);
    CHECK(first.at("image").scalar_type() == at::kByte);
    CHECK(first.at("label").dim() == 0);
    CHECK(first.at("label").scalar_type() == at::kLong);
    CHECK(first.at("image").dim() == (data->is_array() ? 3 : 1));
    CHECK_FALSE(data->describe(0).empty());
    CHECK(data->missing_classes().empty());

    // The caller owns an example: writing to it does not affect the next reader.
    Example scribbled = data->read(0);
    scribbled.at("image").fill_(99);
    scribbled.at("label").fill_(99);
    CHECK(same_bits(data->read(0), first));

    // Stacked examples are bit-identical, in any order and with repeats.
    const std::vector<int64_t> indices = {1, 0, 1};
    if (data->is_array()) {
      const Example batch = data->read_batch(indices);
      for (size_t i = 0; i < indices.size(); ++i) {
        for (const auto& [key, value] : data->read(indices[i])) {
          CHECK(batch.at(key)[static_cast<int64_t>(i)].equal(value));
        }
      }
    }

    // Several threads may be the first to use it.
    const auto fresh = open_data(smallest_config(name, temp));
    std::vector<Example> seen(4);
    {
      std::vector<std::jthread> threads;
      for (Example& example : seen) threads.emplace_back([&] { example = fresh->read(1); });
    }
    for (const Example& example : seen) CHECK(same_bits(example, data->read(1)));

    // --synthetic gives examples of the same form without any file.
    const std::string elsewhere =
        replace_all(smallest_config(name, temp), temp.path(), "/nonexistent");
    const auto stand_in = open_data(elsewhere, {{.seed = 3, .num_classes = 7}, true});
    const Example generated = stand_in->read(0);
    CHECK(stand_in->is_array() == data->is_array());
    CHECK(generated.at("image").dim() == first.at("image").dim());
    if (data->is_array() && name != "idx" && name != "npz") {
      CHECK(generated.at("image").sizes() == first.at("image").sizes());
    }
    CHECK(generated.at("label").scalar_type() == at::kLong);
  }
  unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("missing files are errors that name the place or the file", "[source]") {
  CHECK(open_error("name: idx\ndata_dir: /nonexistent/mnist") ==
        "t.yaml:2:11: error: no such folder: '/nonexistent/mnist'");
  CHECK(open_error("name: cifar\ndata_dir: /nonexistent/c") ==
        "t.yaml:2:11: error: no such folder: '/nonexistent/c'");
  CHECK(open_error("name: image_folder\ndata_dir: /nonexistent/i") ==
        "t.yaml:2:11: error: no such folder: '/nonexistent/i'");
  const FolderKey moved{"/nonexistent/m", {"manifest.json", 0, 0, "evals.val.data.data_dir"}};
  CHECK(error_of([&] { moved.check_exists(); }) ==
        "manifest.json: evals.val.data.data_dir: error: no such folder: '/nonexistent/m'; --set "
        "evals.val.data.data_dir=... sets another");
  CHECK(open_error("name: idx\nimages: /nonexistent/a\nlabels: /nonexistent/b") ==
        "/nonexistent/a: error: no such file");
  CHECK(open_error("name: npz\nfname: /nonexistent.npz") ==
        "/nonexistent.npz: error: no such file");
  CHECK_THAT(
      open_error("name: image_folder\ndata_dir: gs://bucket/x"),
      Catch::Contains("t.yaml:2:11: error: ") &&
          Catch::Contains("gs:// is not supported ('gs://bucket/x'): copy the data to a local "
                          "disk, or mount it, and give that path"));
}

TEST_CASE("prepare_data() reads keys at once and opens later", "[source]") {
  // It reads no file until it is opened.
  const Config config = parse_config("{name: idx, data_dir: /nonexistent}", "t.yaml");
  CHECK_NOTHROW(prepare_data(config, {}));
  CHECK(open_error("{}") == "t.yaml: error: name: missing: a string is required");
  CHECK(open_data("{name: digits}")->size() == 1437);  // train is the default
  CHECK(open_data("{name: digits, split: test}")->size() == 360);
  CHECK(open_data("{name: digits, split: 'train[:10%]+test'}")->size() == 144 + 360);
  CHECK_THAT(open_error("{name: digits, splt: test}"),
             Catch::Contains("'splt'") && Catch::Contains("'split'"));
  CHECK_THAT(open_error("{name: digits, split: tset}"),
             Catch::StartsWith("t.yaml:1:23: error: unknown split 'tset'") &&
                 Catch::Contains("known: test, train"));
  CHECK_THAT(open_error("{name: digit}"),
             Catch::StartsWith("t.yaml:1:8: error: unknown data source 'digit'") &&
                 Catch::Contains("known: digits, from_data_dir, bv:jsonl, cifar, "));
  CHECK_THAT(
      open_error("{name: imagenet2012, split: train}"),
      Catch::EndsWith("('imagenet2012' is TFDS's name: data_dir says where TFDS has prepared "
                      "it; its published files are read by 'name: image_folder')"));
  CHECK_THAT(open_error("{name: idx, data_dir: a, images: b}"), Catch::Contains("not both"));
  CHECK_THAT(open_error("{name: idx}"), Catch::Contains("needs data_dir, or images and labels"));
  CHECK_THAT(open_error("{name: cifar, data_dir: a, classes: 20}"),
             Catch::Contains("must be 10 or 100, got 20"));
}

TEST_CASE("sections with the same keys share a source while it is open", "[source]") {
  const TempFolder folder;
  const at::Tensor jpeg = encode_jpeg(at::full({4, 4, 3}, 7, at::kByte), 90);
  folder.write("a.jpg", std::string(reinterpret_cast<const char*>(jpeg.const_data_ptr<uint8_t>()),
                                    jpeg.numel()));
  const auto write = [&](int rows) {
    std::string text = "image,label,other\n";
    for (int i = 0; i < rows; ++i) text += fmt::format("a.jpg,class {},{}\n", i, i);
    folder.write("t.csv", text);
  };
  DataEnv env;
  env.open_sources = std::make_shared<OpenSources>();
  const auto open = [&](const std::string& keys) {
    const std::string config = fmt::format("{{name: csv, fname: {}, {}}}", folder / "t.csv", keys);
    return prepare_data(parse_config(config, "t.yaml"), env)(std::nullopt);
  };
  write(2);
  auto all = open("split: train");
  write(9);
  CHECK(open("split: train")->size() == 2);
  CHECK(open("split: 'train[1:]', unknown_classes: skip")->size() == 1);
  CHECK(open("split: train, label: other")->size() == 9);
  env.source.keep_broken = true;
  CHECK(open("split: train")->size() == 9);
  env.source.keep_broken = false;
  all.reset();
  CHECK(open("split: train")->size() == 9);
  CHECK_THROWS(open("split: 'train[10:]'"));  // what a section that fails has read is not kept
  write(11);
  CHECK(open("split: 'train[10:]'")->size() == 1);
}

TEST_CASE("generated sections for other numbers of classes share no source", "[source]") {
  DataEnv env;
  env.open_sources = std::make_shared<OpenSources>();
  const auto open = [&](int64_t classes) {
    env.source.num_classes = classes;
    const Config config = parse_config("{name: synthetic, size: 20, image_size: 8}", "t.yaml");
    return prepare_data(config, env)(std::nullopt);
  };
  const auto label = [](const Dataset& data) { return data.read(7).at("label").item<int64_t>(); };
  const auto four = open(4), unknown = open(0);
  CHECK(label(*four) == 3);
  CHECK(label(*unknown) == 7);
}

TEST_CASE("--synthetic replaces any source", "[source]") {
  const DataEnv env{{.seed = 1, .num_classes = 1000}, true};
  // For a name that only TFDS has: encoded 256x256 colour images, as many as published.
  const auto imagenet = open_data("{name: imagenet2012, split: 'train[51200:]', data_dir: x}", env);
  CHECK(imagenet->size() == 1281167 - 51200);
  CHECK(open_data("{name: anything, split: 'train[51200:]'}", env)->size() == 1024);
  CHECK(decode_jpeg({imagenet->read(3).at("image").const_data_ptr<uint8_t>(),
                     static_cast<size_t>(imagenet->read(3).at("image").numel())},
                    3, true)
            .sizes() == at::IntArrayRef({256, 256, 3}));
  CHECK(open_data("{name: imagenet2012, split: 'minival[:99%]'}", env)->size() == 1014);
  CHECK(open_data("{name: cifar, split: 'train[:45000]', data_dir: x}", env)->size() == 45000);
  CHECK(open_data("{name: cifar, split: 'train[45000:]', data_dir: x}", env)->size() == 10000);
  DataEnv large = env;
  large.source.min_split_size = 4096;
  for (const char* split : {"train[:99%]", "train[:10%]", "train[:0.1%]", "train[even 2/30]",
                            "train[fold 2/30]", "train[100000:]", "train[:10%]+val[:10%]"}) {
    INFO(split);
    CHECK(open_data(fmt::format("{{name: anything, split: '{}'}}", split), large)->size() >= 4096);
  }
  // More examples do not help.
  CHECK(open_data("{name: anything, split: 'train[:100]'}", large)->size() == 100);
  CHECK(open_data("{name: cifar10, split: 'train[:5%]', data_dir: x}", large)->size() == 2500);
  CHECK(open_data("{name: imagenet2012_real, split: validation}", env)
            ->read(7)
            .contains("real_label"));
  // Examples have the feature from which pp makes the labels.
  DataEnv fine = env;
  fine.labels_from = "fine_label";
  CHECK(open_data("{name: anything}", fine)->read(7).contains("fine_label"));
  CHECK(open_data("{name: imagenet2012_real, split: validation}", fine)
            ->read(7)
            .contains("real_label"));
  // If pp makes no labels, examples have those of several classes too, or targets.
  DataEnv own{{.seed = 1, .num_classes = 3}, true};
  own.labels_from = "labels";
  const Example several = open_data("{name: npz, fname: x.npz}", own)->read(7);
  CHECK(several.at("label").item<int64_t>() == 1);
  CHECK(several.at("labels").equal(at::tensor({0.0F, 1.0F, 0.0F})));
  own.labels_are_numbers = true;
  const auto targets = open_data("{name: npz, fname: x.npz}", own);
  CHECK(targets->read(7).at("label").scalar_type() == at::kFloat);
  CHECK(targets->read(7).at("labels").equal(at::full({3}, 7.0F)));
  CHECK(targets->read(8).at("labels").equal(at::full({3}, 8.0F)));
  // The keys are read as usual.
  CHECK_THAT(open_error("{name: cifar, data_dir: x, clases: 10}", env),
             Catch::Contains("'clases'"));
  CHECK_THAT(open_error("{name: cifar, data_dir: x, split: 'train['}", env),
             Catch::Contains("bad split"));
}

TEST_CASE("synthetic images are repeatable and belong to their class", "[source]") {
  const std::string config =
      "{name: synthetic, size: 100, height: 12, width: 16, channels: 3, classes: 5, encoded: none}";
  const auto data = open_data(config, {{.seed = 1}});
  const auto again = open_data(config, {{.seed = 1}});
  const auto other = open_data(config, {{.seed = 2}});
  const auto image = [](const std::shared_ptr<const Dataset>& set, int64_t i) {
    return set->read(i).at("image");
  };
  CHECK(image(data, 7).sizes() == at::IntArrayRef({12, 16, 3}));
  CHECK(image(data, 7).equal(image(again, 7)));
  CHECK_FALSE(image(data, 7).equal(image(other, 7)));
  CHECK(data->read(7).at("label").item<int64_t>() == 2);
  // The nearest of the first five images is the one of the same class, also across splits.
  auto test = open_data(
      "{name: synthetic, split: test, size: 100, height: 12, width: 16, "
      "classes: 5, encoded: none}",
      {{.seed = 1}});
  CHECK_FALSE(image(data, 7).equal(image(test, 7)));
  for (int64_t i = 5; i < 100; ++i) {
    std::vector<at::Tensor> distances;
    for (int64_t k = 0; k < 5; ++k) {
      distances.push_back((image(test, i).to(at::kFloat) - image(data, k).to(at::kFloat)).norm());
    }
    CHECK(at::stack(distances).argmin().item<int64_t>() == i % 5);
  }
  CHECK_THAT(open_error("{name: synthetic, channels: 4}"),
             Catch::Contains("must be 1 or 3, got 4"));
  CHECK_THAT(open_error("{name: synthetic, size: 0}"),
             Catch::Contains("must be within 1 .. 1099511627776, got 0"));
}

TEST_CASE("npz: arrays under a prefix become features", "[source]") {
  const TempFolder temp;
  const at::Tensor image = at::arange(24, at::kFloat).reshape({3, 2, 2, 2});
  write_npz(temp / "a.npz", {{"train/image", image},
                             {"train/label", at::tensor({4, 5, 6}, at::kInt)},
                             {"train/weights", at::tensor({0.5, 1.5, 2.5}, at::kFloat)},
                             {"val/image", image.slice(0, 0, 2)},
                             {"val/label", at::tensor({1, 2, 3}, at::kInt)},
                             {"step", at::full({}, 3, at::kLong)}});
  const std::string section = "{name: npz, fname: " + (temp / "a.npz");
  const auto data = open_data(section + ", prefix: train/}");
  CHECK(data->size() == 3);
  const Example row = data->read(1);
  CHECK(row.size() == 3);
  CHECK(row.at("image").equal(image[1]));
  CHECK(row.at("label").scalar_type() == at::kLong);
  CHECK(row.at("label").item<int64_t>() == 5);
  CHECK(row.at("weights").item<float>() == 1.5F);
  CHECK(open_data(section + ", prefix: train/, split: 'train[1:]'}")->size() == 2);
  CHECK(open_data(section + ", prefix: train/, split: all}")->size() == 3);
  CHECK(open_error(section + ", prefix: val/}") ==
        (temp / "a.npz") + ": error: array 'val/image' has 2 rows, but 'val/label' has 3");
  CHECK(open_error(section + ", prefix: st}") ==
        (temp / "a.npz") + ": error: array 'step' is a single number, not rows of a data set");
  CHECK(open_error(section + ", prefix: test/}") ==
        (temp / "a.npz") +
            ": error: no array begins with prefix 'test/'; there are: step, "
            "train/image, train/label, train/weights, val/image, val/label");
}

TEST_CASE("npz: class numbers in a column are one class for each example", "[source]") {
  const TempFolder temp;
  const at::Tensor image = at::zeros({6, 2, 2, 1}, at::kByte);
  const at::Tensor classes = at::tensor({0, 0, 1, 1, 2, 2}, at::kByte).view({6, 1});
  const std::string section = "{name: npz, fname: " + (temp / "a.npz");
  write_npz(temp / "a.npz", {{"image", image}, {"label", classes}, {"other", classes}});
  const auto data = open_data(section + "}");
  CHECK(data->labels() == std::vector<int64_t>{0, 0, 1, 1, 2, 2});
  CHECK(data->source().sorted_by_class(0));
  const Example last = data->read(5);
  CHECK(last.at("label").dim() == 0);
  CHECK(last.at("label").scalar_type() == at::kLong);
  CHECK(last.at("label").item<int64_t>() == 2);
  CHECK(last.at("other").sizes() == at::IntArrayRef({1}));
  // Targets keep their shape.
  write_npz(temp / "b.npz", {{"image", image}, {"label", classes.to(at::kFloat)}});
  const auto targets = open_data("{name: npz, fname: " + (temp / "b.npz") + "}");
  CHECK(targets->labels().empty());
  CHECK(targets->read(5).at("label").sizes() == at::IntArrayRef({1}));
}

}  // namespace bv::test

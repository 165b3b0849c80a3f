// What `bvtrain data` reports about data sets: broken examples, and statistics of the others.
#include "lib/input/check/check_data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/input/check/data_stats.h"
#include "lib/input/check/image_alpha.h"
#include "lib/input/image/decode.h"
#include "lib/input/label_error.h"
#include "test/init/data_folders.h"
#include "test/input/fake_source.h"
#include "test/input/manifest_support.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/opens.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

OpenedData opened(std::shared_ptr<const Source> source, const std::string& pp = "") {
  return {"input", "", dataset(std::move(source)), pipeline(pp)};
}

std::vector<BrokenExample> check_all(const OpenedData& data, bool pp = false, int threads = 3) {
  std::vector<BrokenExample> found;
  const int64_t count = check_data(data, threads, {.pp = pp},
                                   [&](const BrokenExample& one) { found.push_back(one); });
  CHECK(count == std::ssize(found));
  return found;
}

std::vector<std::string> lines(const std::vector<BrokenExample>& found) {
  std::vector<std::string> texts;
  for (const BrokenExample& one : found) texts.push_back(one.example + ": " + one.reason);
  return texts;
}

at::Tensor tensor_of(const std::string& file) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(file.size())}, at::kByte);
  std::copy(file.begin(), file.end(), bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

// A source whose images are these files.
std::shared_ptr<FakeSource> files(const std::vector<std::string>& all) {
  auto source = std::make_shared<FakeSource>(std::ssize(all));
  source->transform = [all](int64_t i, Example& example) {
    example["image"] = tensor_of(all[i]);
    example["label"] = at::scalar_tensor(i % 3, at::kLong);
  };
  return source;
}

constexpr double kExact = 1e-12;

}  // namespace

TEST_CASE("broken examples are listed in the order of the data, with any number of threads") {
  std::vector<std::string> all;
  for (int i = 0; i < 60; ++i) all.push_back(i % 7 == 3 ? "oops" : plain_jpeg(9, 8, i));
  const std::string whole = plain_jpeg(64, 64, 3);
  all[20] = whole.substr(0, whole.size() / 2);
  std::vector<std::string> first;
  for (const int threads : {1, 2, 8}) {
    const auto found = lines(check_all(opened(files(all)), false, threads));
    REQUIRE(found.size() == 10);
    CHECK(found[0] == "train/3.png: not a JPEG, PNG or WebP image: it begins with 6F 6F 70 73");
    CHECK(found[3].starts_with("train/20.png: truncated JPEG"));
    if (first.empty()) first = found;
    CHECK(found == first);
  }
}

TEST_CASE("every image of an example is decoded, and values must be finite") {
  const auto source = std::make_shared<FakeSource>(4);
  source->transform = [](int64_t i, Example& example) {
    if (i == 0) example["mask"] = tensor_of(plain_jpeg(64, 64, 3).substr(0, 400));
    if (i == 1) example["text"] = tensor_of("not an image");
    if (i == 2) example["image"] = at::full({4, 4, 3}, std::numeric_limits<float>::infinity());
  };
  const auto found = lines(check_all(opened(source)));
  REQUIRE(found.size() == 2);
  CHECK(found[0].starts_with("train/0.png: truncated JPEG"));
  CHECK(found[1] == "train/2.png: 'image' has a value that is not finite");
  // Vectors of bytes in arrays are flat images, not files.
  const auto arrays = std::make_shared<FakeSource>(2, /*array=*/true);
  arrays->transform = [](int64_t, Example& example) {
    example["image"] = at::full({49}, 7, at::kByte);
  };
  CHECK(check_all(opened(arrays)).empty());
}

TEST_CASE("with pp, labels and shapes of all examples must fit; wrong ops end the check") {
  const auto source = files({plain_jpeg(8, 8, 1), plain_jpeg(8, 9, 2), plain_jpeg(8, 8, 3)});
  CHECK(check_all(opened(source, "decode")).empty());
  CHECK(lines(check_all(opened(source, "decode|onehot(2, key=\"label\")"), true)) ==
        std::vector<std::string>{
            "train/1.png: after pp 'image' is (8, 9, 3) Byte, but (8, 8, 3) Byte for train/0.png",
            "train/2.png: onehot: 'label' is 2, must be within 0 .. 1"});
  CHECK(error_of([&] { check_all(opened(source, "decode|onehot(2, key=\"none\")"), true); }) ==
        "pp: error: onehot: no key 'none' in the example; it has: image, label");
}

TEST_CASE("a line of the list names the file and the offset, if they are known") {
  const TempFolder temp;
  temp.write("a/x.jpg", "");
  temp.write("s.tar", "");
  BrokenExample one{"input", "a/x.jpg", "", std::nullopt, "truncated JPEG at byte 40 of 50"};
  find_file(one, "", temp.path());
  CHECK(one.file == temp / "a/x.jpg");
  CHECK(one.offset == 40);
  BrokenExample in_tar{"evals.val", (temp / "s.tar") + " @ offset 512 (key 7)", "", std::nullopt,
                       "truncated JPEG at byte 40"};
  find_file(in_tar, "", temp.path());
  CHECK(in_tar.file == temp / "s.tar");
  CHECK(in_tar.offset == 512);
  BrokenExample row{"input", (temp / "s.tar") + ":17", "", std::nullopt, "no 'image'"};
  find_file(row, "", "");
  CHECK(row.file == temp / "s.tar");
  CHECK_FALSE(row.offset);
  BrokenExample unknown{"input", "train row 3", "", std::nullopt, "a \"bad\" \xFF one"};
  find_file(unknown, "train", "");
  CHECK(line_of(unknown) ==
        "{\"data\": \"input\", \"example\": \"train row 3\", \"file\": null, \"offset\": null, "
        "\"reason\": \"a \\\"bad\\\" \\ufffd one\"}\n");
  CHECK(nlohmann::json::parse(line_of(in_tar)).at("offset") == 512);
}

// Lists the broken examples of a data section: `file`, `offset`, `files` and the reason.
std::vector<std::string> broken_files(const ManifestFolder& folder, const std::string& data) {
  const Config config = parse_config("input: {data: {" + data + "}}", "x.yaml");
  const std::vector<DataSection> all = data_sections(config);
  const OpenedData opened = DataOpener(config, all, {.keep_broken = true}).open(all.at(0));
  std::vector<std::string> found;
  check_data(opened, 2, {}, [&](const BrokenExample& one) {
    const nlohmann::json line = nlohmann::json::parse(line_of(one));
    found.push_back(
        folder.local(fmt::format("{} {} {} {}", line.at("file").dump(), line.at("offset").dump(),
                                 line.at("files").dump(), line.at("reason").get<std::string>())));
  });
  return found;
}

TEST_CASE("a broken image of a row is named, with the offset in it; a broken row names its file") {
  const ManifestFolder dir;
  const std::string whole = plain_jpeg(64, 64, 3);
  dir.write("images/cut.jpg", whole.substr(0, whole.size() / 2));
  dir.write("images/text.jpg", "text");
  const std::string csv = dir.write("t.csv",
                                    "image,label\nimages/a.jpg,0\nimages/cut.jpg,1\n"
                                    "images/none.jpg,1\nimages/b.jpg\nimages/text.jpg,0\n"
                                    "images/c.jpg,1\n");
  const auto found = broken_files(dir, "name: csv, fname: " + csv);
  REQUIRE(found.size() == 4);
  const std::string at = std::to_string(whole.size() / 2);
  CHECK(
      found[0].starts_with("\"images/cut.jpg\" " + at + " [\"images/cut.jpg\"] images/cut.jpg: "));
  CHECK(contains(found[0], "truncated JPEG at byte " + at));
  CHECK(found[1].starts_with("\"images/none.jpg\" null [\"images/none.jpg\"] can't read "));
  CHECK(found[2].starts_with("\"t.csv\" null [] "));
  CHECK(found[3].starts_with("\"images/text.jpg\" null [\"images/text.jpg\"] "));

  dir.write("s.csv", "file,label\na.jpg,0\ntext.jpg,1\nb.jpg,1\n");
  const auto elsewhere = broken_files(
      dir,
      fmt::format("name: csv, fname: {}, path: file, folder: {}", dir / "s.csv", dir / "images"));
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere[0].starts_with("\"images/text.jpg\" null [\"text.jpg\"] "));

  // Files of the same name in two folders.
  dir.write("masks/a.jpg", "no mask");
  dir.write("masks/b.jpg", whole.substr(0, whole.size() / 2));
  dir.write("t.jsonl",
            "{\"mask\": \"c.jpg\", \"image\": \"c.jpg\", \"label\": 0}\n"
            "{\"mask\": \"b.jpg\", \"image\": \"b.jpg\", \"label\": 0}\n"
            "{\"mask\": \"a.jpg\", \"image\": \"a.jpg\", \"label\": 0}\n");
  const auto pairs =
      broken_files(dir, fmt::format("name: jsonl, fname: {}, fopen_keys: {{mask: {}, image: {}}}",
                                    dir / "t.jsonl", dir / "masks", dir / "images"));
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].starts_with("\"masks/c.jpg\" null [\"c.jpg\",\"c.jpg\"] can't read "));
  CHECK(pairs[1].starts_with("\"masks/b.jpg\" " + at + " [\"b.jpg\",\"b.jpg\"] "));
}

TEST_CASE("moments are those of all values, whatever the images that they come from") {
  const at::Tensor bytes = at::randint(0, 256, {40, 30, 3}, at::kByte);
  const at::Tensor values = bytes.to(at::kDouble) / 255;
  std::vector<PixelMoments> rows(3);
  for (const at::Tensor& part : {bytes.slice(0, 0, 7), bytes.slice(0, 7, 8), bytes.slice(0, 8)}) {
    const auto own = pixel_moments(part);
    for (size_t c = 0; c < 3; ++c) rows[c].merge(own[c]);
  }
  for (int64_t c = 0; c < 3; ++c) {
    const at::Tensor channel = values.select(2, c);
    CHECK(rows[c].count == 1200);
    CHECK(std::abs(rows[c].mean - channel.mean().item<double>()) < kExact);
    CHECK(std::abs(rows[c].deviation() - channel.std(/*unbiased=*/false).item<double>()) < kExact);
  }
  const at::Tensor floats = at::rand({5, 4});
  const auto grey = pixel_moments(floats);
  REQUIRE(grey.size() == 1);
  CHECK(std::abs(grey[0].mean - floats.to(at::kDouble).mean().item<double>()) < kExact);
  CHECK(PixelMoments{}.deviation() == 0);
}

TEST_CASE("alpha is seen in PNG and WebP files") {
  const auto png = [](uint8_t type, size_t channels) {
    return encode_png(std::vector<uint8_t>(4 * 4 * channels, 9), 4, 4, type, 8);
  };
  const std::string whole = png(SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 4);
  CHECK(has_alpha(bytes_of(whole)));
  CHECK(has_alpha(bytes_of(png(SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 2))));
  CHECK_FALSE(has_alpha(bytes_of(png(SPNG_COLOR_TYPE_GRAYSCALE, 1))));
  CHECK_FALSE(has_alpha(bytes_of(png_of(at::full({4, 4, 3}, 9, at::kByte)))));
  CHECK(has_alpha(bytes_of(webp_of(at::full({4, 4, 4}, 9, at::kByte), true))));
  CHECK_FALSE(has_alpha(bytes_of(webp_of(at::full({4, 4, 3}, 9, at::kByte), true))));
  CHECK_FALSE(has_alpha(bytes_of(flat_jpeg(3))));
  // A transparent colour precedes the pixels, whose chunk begins after the header's.
  const std::string opaque = png_of(at::full({4, 4, 3}, 9, at::kByte));
  const std::string colour = number_text(6, 4, false) + "tRNS" + std::string(6 + 4, '\0');
  CHECK(has_alpha(bytes_of(opaque.substr(0, 33) + colour + opaque.substr(33))));
  CHECK_FALSE(has_alpha(bytes_of(opaque + colour)));
  for (size_t n = 0; n < 40; ++n) has_alpha(bytes_of(whole.substr(0, n)));  // never reads on
}

TEST_CASE("stats count classes, sizes and pixels of the sound examples") {
  struct Named : FakeSource {
    using FakeSource::FakeSource;
    std::vector<std::string> class_names() const override { return {"cat", "dog", "bird", "none"}; }
  };
  const auto source = std::make_shared<Named>(1001);
  const std::string colour = plain_jpeg(4, 6, 10),
                    grey = text_of(encode_jpeg(at::full({5, 3, 1}, 200, at::kByte), 95));
  source->transform = [=](int64_t i, Example& example) {
    example["image"] = tensor_of(i == 0 ? grey : i == 1 ? "broken" : colour);
    example["label"] = at::scalar_tensor(i == 5 ? 2 : i % 2, at::kLong);
  };
  const DataStats stats = measure_data(opened(source), 3, 0);
  CHECK(stats.examples == 1001);
  CHECK(stats.broken == 1);
  CHECK(stats.images == 1000);
  CHECK(stats.grey == 1);
  CHECK(stats.alpha == 0);
  CHECK(stats.bytes == std::ssize(grey) + 999 * std::ssize(colour));
  CHECK(stats.widths.least() == 3);
  CHECK(stats.widths.median() == 6);
  CHECK(stats.heights.most() == 5);
  REQUIRE(stats.classes.size() == 4);
  CHECK(stats.classes[0].examples == 501);
  CHECK(stats.classes[1].examples == 498);
  CHECK(stats.nearly_empty() == std::vector<std::string>{"bird"});
  CHECK(stats.empty() == std::vector<std::string>{"none"});
  REQUIRE(stats.pixels.size() == 1);
  REQUIRE(stats.pixels.at(3).size() == 3);
  CHECK(stats.pixels.at(3)[1].count == 15 + 999 * 24);
  CHECK(contains(stats.text(), "input: 1,001 examples, 1 of them broken and not counted below\n"));
  CHECK(contains(stats.text(), "  bird             1    0.10 %\n"));
  CHECK(contains(stats.text(), "pixels: width 3 to 6, median 6; height 4 to 5, median 4\n"));
  CHECK(stats.json().at("width").at("median") == 6);
  DataStats odd = stats;
  odd.classes[0].name = "a\nb";
  CHECK(contains(odd.text(), "\n  a\\nb "));
  CHECK(measure_data(opened(source), 1, 0).json() == stats.json());  // bit for bit
}

TEST_CASE("stats count num_classes only if the data does not name its classes") {
  struct Named : FakeSource {
    using FakeSource::FakeSource;
    std::vector<std::string> class_names() const override { return {"cat", "dog", "ship"}; }
  };
  const auto classes = [](std::shared_ptr<FakeSource> source) {
    source->transform = [](int64_t i, Example& example) {
      example["label"] = at::scalar_tensor(i % 3, at::kLong);
    };
    return measure_data(opened(std::move(source)), 1, /*num_classes=*/10).classes.size();
  };
  CHECK(classes(std::make_shared<Named>(6)) == 3);
  CHECK(classes(std::make_shared<FakeSource>(6)) == 10);
}

TEST_CASE("stats count examples with the label -1 apart from the classes") {
  const auto source = std::make_shared<FakeSource>(6);
  source->transform = [](int64_t i, Example& example) {
    example["label"] = at::scalar_tensor(i < 2 ? -1 : i % 2, at::kLong);
  };
  const DataStats stats = measure_data(opened(source), 1, 0);
  REQUIRE(stats.classes.size() == 2);
  CHECK(stats.classes[1].examples == 2);
  CHECK(stats.without_class == 2);
  CHECK(contains(stats.text(), "\nwithout a class: 2\n"));
  CHECK(stats.json().at("without_class") == 2);
  source->transform = [](int64_t i, Example& example) {  // numbers to predict
    example["label"] = at::scalar_tensor(i - 4, at::kLong);
  };
  const DataStats numbers = measure_data(opened(source), 1, 0);
  CHECK(numbers.classes.empty());
  CHECK(numbers.without_class == 0);
}

TEST_CASE("stats measure the pixels that the pp string decodes") {
  const ManifestFolder dir;
  const at::Tensor noise =
      at::randint(0, 256, {40, 40, 3}, at::detail::createCPUGenerator(3), at::kByte);
  const std::string jpeg = text_of(encode_jpeg(noise, 90));
  dir.write("images/noise.jpg", jpeg);
  const std::string csv = dir.write("t.csv", "image,label\nimages/noise.jpg,0\n");
  const auto mean = [&](const std::string& pp) {
    const Config config =
        parse_config(fmt::format("input: {{data: {{name: csv, fname: {}}}{}}}", csv, pp), "x.yaml");
    const std::vector<DataSection> all = data_sections(config);
    const OpenedData opened = DataOpener(config, all, {.keep_broken = true}).open(all.at(0));
    return measure_data(opened, 1, 0).pixels.at(3).at(0).mean;
  };
  const auto decoded = [&](bool precise) {
    return pixel_moments(decode_image(bytes_of(jpeg), 0, precise)).at(0).mean;
  };
  REQUIRE(decoded(true) != decoded(false));
  CHECK(mean(", pp: 'decode(precise=True)|resize(8)|onehot(num_classes)'") == decoded(true));
  CHECK(mean(", pp: 'decode|resize(8)'") == decoded(false));
  CHECK(mean(", pp: 'decode(precise=Maybe)'") == decoded(false));
  CHECK(mean("") == decoded(false));
}

TEST_CASE("stats count no classes where labels are shares or numbers to predict") {
  struct Named : FakeSource {
    using FakeSource::FakeSource;
    std::vector<std::string> class_names() const override { return {"a", "b"}; }
  };
  const auto source = std::make_shared<Named>(3);
  const auto classes = [&](float value) {
    source->transform = [=](int64_t i, Example& example) {
      example["image"] = tensor_of(plain_jpeg(4, 6, 10));
      example["labels"] = at::tensor({1.F, i == 2 ? value : 0.F});
    };
    return measure_data(opened(source), 2, 0).classes.size();
  };
  CHECK(classes(1) == 2);
  CHECK(classes(0.25) == 0);
  CHECK(classes(7) == 0);
}

TEST_CASE("the classes of a mixture are those of its first data set with class names") {
  const ManifestFolder dir;
  for (const char* name : {"bee", "cat", "dog"})
    dir.write("classes/" + std::string(name) + "/1.jpg", flat_jpeg(90));
  const std::string csv = dir.write("t.csv", "image,label\nimages/a.jpg,0\nimages/b.jpg,1\n");
  const Config config = parse_config(fmt::format(R"(
num_classes: auto
input:
  data: {{a: 1, b: 1}}
  a: {{data: {{name: csv, fname: {}}}, pp: decode}}
  b: {{data: {{name: image_folder, data_dir: {}}}, pp: decode}}
)",
                                                 csv, dir / "classes"),
                                     "x.yaml");
  const std::vector<DataSection> all = data_sections(config);
  DataOpener(config, all, {.pp = true}).open(all.at(0));
  CHECK(config.get<int64_t>("num_classes") == 3);
}

// A config that trains on the data sections `a` and `b`.
Config mixture_of(const std::string& a, const std::string& b,
                  const std::string& num_classes = "auto") {
  return parse_config(fmt::format("num_classes: {}\ninput:\n  data: {{a: 1, b: 1}}\n"
                                  "  a: {{data: {{{}}}, pp: decode}}\n"
                                  "  b: {{data: {{{}}}, pp: decode}}\n",
                                  num_classes, a, b),
                      "x.yaml");
}

TEST_CASE("all data sets of a mixture are numbered by its classes, as in a run") {
  const ManifestFolder dir;
  for (const char* file : {"a/bee", "a/cat", "a/dog", "b/cat", "b/dog", "c/ant", "c/bee"})
    dir.write(std::string(file) + "/1.jpg", flat_jpeg(90));
  const auto second = [&](const std::string& folder) {
    const Config config = mixture_of("name: image_folder, data_dir: " + (dir / "a"),
                                     "name: image_folder, data_dir: " + (dir / folder));
    const std::vector<DataSection> all = data_sections(config);
    return DataOpener(config, all, {.pp = true}).open(all.at(1)).data;
  };
  CHECK(second("b")->read(0).at("label").item<int64_t>() == 1);
  CHECK(second("b")->read(1).at("label").item<int64_t>() == 2);
  CHECK_THAT(error_of([&] { second("c"); }),
             Catch::Contains("input.b.data: has examples of ant, but the classes of the training "
                             "data are bee, cat, dog; "));
}

TEST_CASE("classes are counted only if every data set of a mixture knows its labels") {
  const ManifestFolder dir;
  const std::string known =
                        "name: jsonl, fname: " +
                        dir.write("known.jsonl", "{\"image\": \"images/a.jpg\", \"label\": 4}\n"),
                    unknown = "name: jsonl, fname: " +
                              dir.write("unknown.jsonl", "{\"image\": \"images/a.jpg\"}\n");
  const auto count = [](const std::string& a, const std::string& b) {
    const Config config = mixture_of(a, b);
    const std::vector<DataSection> all = data_sections(config);
    DataOpener(config, all, {.pp = true}).open(all.at(0));
    return config.get<int64_t>("num_classes");
  };
  CHECK(count(known, known) == 5);
  for (const auto& [a, b] : {std::pair(known, unknown), std::pair(unknown, known)}) {
    CHECK(error_of([&] { count(a, b); }) ==
          "x.yaml:1:14: error: num_classes: 'auto' needs training data that names its classes, or "
          "whose labels are known before its examples are read; give a number");
  }
}

TEST_CASE("counting classes reads no file twice, and no file that cannot change the classes") {
  const ManifestFolder dir;
  const std::string named = dir.write("named.csv", "image,label\nimages/a.jpg,cat\n"),
                    numbered = dir.write("numbered.csv", "image,label\nimages/a.jpg,0\n");
  const auto opens = [&](const std::string& file, const std::string& other, size_t section,
                         bool pp) {
    const Config config =
        mixture_of("name: csv, fname: " + file, "name: csv, fname: " + other, "2");
    const std::vector<DataSection> all = data_sections(config);
    DataOpener opener(config, all, {.pp = pp});
    return opens_of(section == 0 ? file : other, [&] { opener.open(all.at(section)); });
  };
  for (const std::string& file : {named, numbered}) {
    const int once = opens(file, dir / "none.csv", 0, /*pp=*/false);
    CHECK(once > 0);
    CHECK(opens(file, named, 0, /*pp=*/true) == once);
  }
  CHECK(opens(numbered, named, 1, /*pp=*/true) == opens(numbered, named, 1, /*pp=*/false));
  const Config config =
      mixture_of("name: csv, fname: " + named, "name: csv, fname: " + (dir / "none.csv"), "2");
  const std::vector<DataSection> all = data_sections(config);
  CHECK(DataOpener(config, all, {.pp = true}).open(all.at(0)).data->size() == 1);
}

TEST_CASE("what a source remarks about its files is a warning") {
  const ManifestFolder dir;
  const std::string csv = dir.write("t.csv", "image,label,\nimages/a.jpg,0,\n");
  const Config config = parse_config("input: {data: {name: csv, fname: " + csv + "}}", "x.yaml");
  const std::vector<DataSection> all = data_sections(config);
  DataOpener(config, all, {}).open(all.at(0));
  const std::vector<std::string> found = warnings(config);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], Catch::EndsWith("warning: input.data: train: " + csv +
                                       ": column 3 has no name and is left out"));
}

TEST_CASE("the data sets of a config are found with their names") {
  const Config config = parse_config(R"(
input: {data: {a: 0.5, b: 0.5, c: 0}, a: {data: {name: digits}}, b: {data: {name: digits}}}
evals:
  val: {data: {name: digits, split: test}}
  near: {type: knn, data: {name: digits}, train: {name: digits}}
  few: {type: fewshot_lsr, datasets: {d: [digits, train, test], e: {train: {name: digits}, test: {name: digits}}}}
  off: null
)",
                                     "x.yaml");
  std::vector<std::string> names;
  const std::vector<DataSection> all = data_sections(config);
  for (const DataSection& section : all) names.push_back(section.name);
  CHECK(names == std::vector<std::string>{"input.a", "input.b", "evals.val", "evals.near",
                                          "evals.near.train", "evals.few.d.train",
                                          "evals.few.d.test", "evals.few.e.train",
                                          "evals.few.e.test"});
  CHECK(choose_sections(all, {"input", "evals.few.d"}).size() == 4);
  CHECK(error_of([&] { choose_sections(all, {"evals.vall"}); })
            .starts_with("--only evals.vall: error: unknown data set 'evals.vall' (did you mean "
                         "'evals.val'?); known: "));
  DataOpener opener(config, all, {});
  for (const DataSection& section : all) CHECK(opener.open(section).data->size() > 0);
  CHECK(error_of([] { data_sections(parse_config("lr: 1", "y.yaml")); }) ==
        "y.yaml: error: names no data: neither input.data nor an evaluator with data");
}

}  // namespace bv::test

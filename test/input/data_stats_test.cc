// The statistics of data sets (`bvtrain data stats`): classes, image sizes and pixel values. Broken
// examples do not count.
#include "lib/input/check/data_stats.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/input/check/image_alpha.h"
#include "lib/input/image/decode.h"
#include "test/init/data_folders.h"
#include "test/input/fake_source.h"
#include "test/input/manifest_support.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/opens.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

constexpr double kExact = 1e-12;

}  // namespace

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

TEST_CASE("stats give the share of the examples that have a class, also if they have several") {
  const auto source = std::make_shared<FakeSource>(8);
  source->transform = [](int64_t i, Example& example) {
    const auto flag = [](bool has) { return has ? 1.0F : 0.0F; };
    example["labels"] = at::tensor({flag(i == 0), flag(i < 6), flag(i == 1)});
  };
  const DataStats stats = measure_data(opened(source), 1, /*num_classes=*/3);
  CHECK(contains(stats.text(),
                 "classes: 3; an example may have several\n"
                 "  0             1   12.50 %\n"
                 "  1             6   75.00 %\n"
                 "  2             1   12.50 %\n"));
  CHECK(contains(stats.text(), "\nwithout a class: 2\n"));
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

TEST_CASE("an evaluator's classes are matched by name only if its pp uses them, as in a run") {
  const ManifestFolder dir;
  const auto csv = [&](const std::string& name, const std::string& label) {
    return "{name: csv, fname: " +
           dir.write(name,
                     "image,label,kind\nimages/a.jpg,cat,x\n"
                     "images/b.jpg," +
                         label + ",yy\n") +
           "}";
  };
  const std::string train = csv("train.csv", "dog"), val = csv("val.csv", "ship");
  const std::string kinds = dir.write("kinds.txt", "x\nyy\n");
  const auto examples = [&](const std::string& label_ops, const std::string& more = "") {
    const Config config = parse_config("num_classes: 2\ninput: {data: " + train +
                                           ", pp: decode}\nevals:\n  v:\n    data: " + val +
                                           "\n    pp_fn: decode|" + label_ops + more + "\n",
                                       "x.yaml");
    const std::vector<DataSection> all = data_sections(config);
    return DataOpener(config, all, {.pp = true}).open(all.at(1)).data->size();
  };
  const std::string lookup = "lookup('" + kinds +
                             "', inkey='kind', outkey='k')|"
                             "onehot(2, key='k', key_result='labels')",
                    refused =
                        "has examples of ship, but the classes of the training data are cat, "
                        "dog; ";
  CHECK(examples(lookup) == 2);
  CHECK_THAT(error_of([&] { examples(lookup, "\n    label_key: label"); }),
             Catch::Contains(refused));
  CHECK_THAT(error_of([&] { examples("onehot(2, key='label', key_result='labels')"); }),
             Catch::Contains(refused));
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
    CHECK(
        error_of([&] { count(a, b); }) ==
        "x.yaml:1:14: error: num_classes: 'auto' counts the classes in the feature 'label', but " +
            dir / "unknown.jsonl" + " has none; give a number");
  }
  const std::string real =
      dir.write("real.csv", "image,label\nimages/a.jpg,0.0\nimages/b.jpg,1.0\n");
  CHECK(error_of([&] { count(known, "name: csv, fname: " + real); }) ==
        "x.yaml:1:14: error: num_classes: 'auto' counts classes, but the labels of " + real +
            " have a decimal point, as regression targets do: for classes write 0 and not 0.0; for "
            "targets use task: regress and give their number");
  write_npz(dir / "t.npz", {{"image", at::zeros({2, 4, 4, 3}, at::kByte)}},
            {{"label", std::vector<std::string>(2, "cat")}});
  CHECK(error_of([&] { count(known, "name: npz, fname: " + dir / "t.npz"); }) ==
        "x.yaml:1:14: error: num_classes: 'auto' counts the classes in the feature 'label', but " +
            dir / "t.npz" + " has none (an array of strings is left out); give a number");
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

}  // namespace bv::test

// What `bvtrain data check` reports: broken examples, and the data sets of a config.
#include "lib/input/check/check_data.h"

#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/input/image/decode.h"
#include "lib/input/label_error.h"
#include "test/init/data_folders.h"
#include "test/input/fake_source.h"
#include "test/input/manifest_support.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

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

// A source whose images are these files.
std::shared_ptr<FakeSource> files(const std::vector<std::string>& all) {
  auto source = std::make_shared<FakeSource>(std::ssize(all));
  source->transform = [all](int64_t i, Example& example) {
    example["image"] = tensor_of(all[i]);
    example["label"] = at::scalar_tensor(i % 3, at::kLong);
  };
  return source;
}

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

TEST_CASE("in a class folder the suffix of another format is a fault, as at the start of a run") {
  const TempFolder temp;
  temp.write("a/x.GIF", plain_jpeg(8, 8, 1));
  temp.write("b/y.jpg", plain_jpeg(8, 8, 2));
  const Config config =
      parse_config("input: {data: {name: image_folder, data_dir: " + temp.path() + "}}", "x.yaml");
  const std::vector<DataSection> all = data_sections(config);
  const auto found = check_all(DataOpener(config, all, {.keep_broken = true}).open(all.at(0)));
  const std::string why = "this JPEG, PNG or WebP has the suffix of another format: rename it";
  CHECK(lines(found) == std::vector<std::string>{"a/x.GIF: " + why});
  CHECK(found.at(0).file == temp / "a/x.GIF");
  CHECK(contains(error_of([&] { DataOpener(config, all, {}).open(all.at(0)); }), why));
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

TEST_CASE("files of an image folder that are ignored are a warning, as at the start of a run") {
  const TempFolder temp;
  temp.write("a/x.jpg", jpeg_with_exif(plain_jpeg(8, 8, 1), exif_data(6)));
  temp.write("b/y.jpg", plain_jpeg(8, 8, 2));
  for (const char* other : {"a/x.heic", "a/y.heic", "b/z.jfif", "b/inner/z.jpg"})
    temp.write(other, "x");
  const auto notes = [&](const std::string& pp) {
    const Config config = parse_config(
        "input: {data: {name: image_folder, data_dir: " + temp.path() + "}" + pp + "}", "x.yaml");
    const std::vector<DataSection> all = data_sections(config);
    DataOpener(config, all, {.keep_broken = true}).open(all.at(0));
    std::vector<std::string> found = warnings(config);
    for (std::string& each : found) each.erase(0, each.find("train: "));
    return found;
  };
  const std::vector<std::string> ignored = {
      "train: 3 files of other types were ignored (2 .heic, 1 .jfif)",
      "train: 1 folder inside class folders was ignored"};
  CHECK(notes("") == ignored);
  std::vector<std::string> turned = ignored;
  turned.insert(turned.begin(),
                "train: the EXIF orientation of 1 of 2 images is ignored; decode(exif=True) turns "
                "them upright");
  CHECK(notes(", pp: 'decode|resize(8)'") == turned);
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

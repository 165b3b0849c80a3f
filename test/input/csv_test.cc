#include <ATen/ops/tensor.h>

#include "lib/input/detect_data.h"
#include "test/input/csv_support.h"
#include "test/support/compare.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using std::string_literals::operator""s;

}  // namespace

TEST_CASE("csv: which columns are taken", "[csv]") {
  const CsvFolder folder;
  const std::string rows = "images/a.jpg,3,x\n";
  CHECK(folder.problem("img,label,c\n" + rows) ==
        "t.csv:1:1: error: no column is called image, path, file, filename, file_name, filepath, "
        "image_path: "
        "set `path` to the column with the image files; columns: img, label, c");
  CHECK(folder.problem("img,label,c\n" + rows, "path: imgs\n") ==
        "t.csv:1:1: error: no column 'imgs' for `path` (did you mean 'img'?); columns: img, label, "
        "c");
  CHECK(folder.data("img,lbl,c\n" + rows, "path: img\nlabel: lbl\n")->read(0).size() == 3);
  // Features that would hide others are left out with a note.
  CHECK(folder.remarks("file,label,image\n" + rows, "path: file\n") ==
        Names{"t.csv: the column 'image' is left out, because other columns "
              "make the feature 'image'"});
  CHECK(folder.remarks("image,label,class\n" + rows, "label: class\n") ==
        Names{"t.csv: the column 'label' is left out, because other "
              "columns "
              "make the feature 'label'"});
  CHECK(folder.remarks(",image,label\n0,images/a.jpg,1\n") ==
        Names{"t.csv: column 1 has no name and is left out"});
  CHECK(folder.remarks("image;label\nimages/a.jpg;1\n") ==
        Names{"t.csv: cells are separated by ';', detected from the header"});
  CHECK(folder.remarks("image\tlabel\nimages/a.jpg\t1\n", "delimiter: tab\n").empty());
  CHECK(folder.problem("image,label\nimages/a.jpg,1\n", "delimiter: ','\nfolder: /proc/none\n") ==
        "t.yaml:4:9: error: no such folder: '/proc/none'");
  CHECK(folder.problem("image,label\n", "delimiter: ab\n") ==
        "t.yaml:3:12: error: delimiter: must be one character, not a quote, or the word tab");
  CHECK(folder.problem("image,label\n", "classes: [a, b, a]\n") ==
        "t.yaml:3:10: error: classes: has 'a' twice");
}

TEST_CASE("csv: broken files", "[csv]") {
  const CsvFolder folder;
  const std::string head = "image,label\n";
  const auto of = [&](const std::string& rest) { return folder.problem(head + rest); };
  CHECK(folder.problem("") == "t.csv: error: the file is empty");
  CHECK(folder.problem("\n\n") ==
        "t.csv: error: has no header: expected a line such as image,label");
  CHECK(of("") == "t.csv: error: has a header, but no rows");
  CHECK(of("\n\r\n") == "t.csv: error: has a header, but no rows");
  CHECK(folder.problem("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n") ==
        "t.csv: error: this is a git-LFS pointer, not the data itself: run 'git lfs pull' where it "
        "came from");
  CHECK(folder.problem("<!DOCTYPE html><html>") ==
        "t.csv: error: this is an HTML page, probably an error message of a web server: download "
        "it again");
  CHECK(folder.problem("\xFF\xFEi\0"s) == "t.csv: error: is UTF-16 text: save the file as UTF-8");
  CHECK(folder.problem("\x1F\x8B\x08") == "t.csv: error: is compressed: unpack it with gunzip");
  CHECK(folder.problem("PK\x03\x04x") ==
        "t.csv: error: is a zip archive or a spreadsheet: save it as a text file");
  CHECK(folder.problem("images/a.jpg,cat\nimages/b.jpg,dog\n") ==
        "t.csv:1:1: error: the first line names the file 'images/a.jpg', so it is not a header: "
        "begin with a line such as 'image,label'");
  CHECK(folder.problem("image,label, image \nimages/a.jpg,1,2\n") ==
        "t.csv:1:13: error: the column 'image' appears twice");
  CHECK(of("images/a.jpg,\"1\nimages/b.jpg,2\n") ==
        "t.csv:2:14: error: the quote that opens here is never closed");
  CHECK(of("images/a.jpg,5\" pipe\n") ==
        "t.csv:2:15: error: a quote in a cell that does not begin with one: quote the whole cell, "
        "and write the quote twice");
  CHECK(of("images/a.jpg,\"cat\"s\n") ==
        "t.csv:2:19: error: expected ',' or the end of the line after the closing quote");
  CHECK(of("images/a.jpg,a\rb\n") ==
        "t.csv:2:15: error: a carriage return in the middle of a line: end lines with LF or CR LF, "
        "and quote cells that contain one");
  CHECK(of("images/a.jpg,cat,dog\n") ==
        "t.csv:2:18: error: the row has 3 cells, but the header has 2: quote cells that hold ','");
  CHECK(of("\"images/a.jpg\",1\nimages/ü.jpg\n") ==
        "t.csv:3:13: error: the row has 1 cell, but the header has 2");
  CHECK(of("images/a.jpg,\n") == "t.csv:2:14: error: the label is empty");
  CHECK(of(",1\n") == "t.csv:2:1: error: the name of the file is empty");
  CHECK(of("images/a.jpg,caf\xE9\n") ==
        "t.csv:2:17: error: is not UTF-8 text (byte 0xE9): save the file as UTF-8");
  CHECK(of("images/a.jpg,a\0b\n"s) == "t.csv:2:15: error: a NUL byte: the file must be UTF-8 text");
  CHECK(of("../x.jpg,1\n") == "t.csv:2:1: error: '../x.jpg' points outside the folder '" +
                                  folder.path() +
                                  "': only an absolute path, which begins with /, may do that");
  CHECK(of("images/../../x.jpg,1\n").find("points outside the folder") != std::string::npos);
  CHECK(of("https://x.org/a.jpg,1\n") ==
        "t.csv:2:1: error: 'https://x.org/a.jpg' is a URL: download the files first, and give the "
        "paths of the copies");
  std::string wide = "image";
  for (int i = 0; i < 10'000; ++i) wide += ",c";
  CHECK(folder.problem(wide + "\n") == "t.csv:1:20005: error: more than 10000 columns");
  // The last line, without a newline.
  CHECK(of("images/a.jpg,1\nimages/b.jp") ==
        "t.csv:3:12: error: the row has 1 cell, but the header has 2 (the file ends without a "
        "newline here: was it cut off?)");
  // All problems together.
  std::string many;
  for (int i = 0; i < 30; ++i) many += "images/a.jpg\n";
  const std::string all = of(many);
  CHECK(std::count(all.begin(), all.end(), '\n') == 20);
  CHECK_THAT(all, Catch::EndsWith("\n... and 10 more"));
  CHECK(error_of([] { ManifestFolder::open_file("/nonexistent.csv", ""); }) ==
        "/nonexistent.csv: error: no such file");
}

TEST_CASE("csv: a row of more than 16 MiB", "[csv]") {
  const CsvFolder folder;
  const std::string start = "image,label\nimages/a.jpg,";
  CHECK(folder.problem(start + std::string(17 << 20, 'x') + "\n") ==
        "t.csv:2: error: the row is longer than 16 MiB");
  CHECK(folder.problem(start + "\"" + std::string(17 << 20, '\n')) ==
        "t.csv:2:14: error: the quote that opens here is never closed");
}

TEST_CASE("csv: images that do not exist", "[csv]") {
  const CsvFolder folder;
  const auto of = [&](const std::string& rows) { return folder.problem("image,label\n" + rows); };
  const std::string hint = "; paths are relative to `folder`";
  CHECK(of("a.jpg,1\nimages/b.jpg,2\n") == "t.csv:2:1: error: no file 'a.jpg'" + hint);
  CHECK(of("images/a,1\nimages\\b.jpg,2\n") ==
        "t.csv:2:1: error: no file 'images/a' (did you mean 'images/a.jpg'?)" + hint +
            "\nt.csv:3:1: error: no file 'images\\b.jpg' (write / in place of \\)" + hint);
  // Between the first and the last row they are detected when they are read.
  const auto data = folder.data("image,label\nimages/a.jpg,1\nimages/x.jpg,2\nimages/b.jpg,3\n");
  CHECK(folder.local(error_of([&] { data->read(1); }, Exit::data)) ==
        "t.csv:3: error: can't read 'images/x.jpg': no such file");
  CHECK(folder.local(data->describe(1)) == "t.csv:3");
  // Absolute paths and another folder.
  const std::string absolute = "image,label\n" + (folder / "images/a.jpg") + ",1\n";
  CHECK(text_of(folder.data(absolute)->read(0).at("image")) == flat_jpeg(50));
  const auto other = folder.data("image,label\nb.jpg,1\n", "folder: " + (folder / "images") + "\n");
  CHECK(text_of(other->read(0).at("image")) == flat_jpeg(100));
}

TEST_CASE("csv: skip_errors keeps broken rows as examples that fail", "[csv]") {
  const CsvFolder folder;
  const std::string text =
      "image,label\nimages/a.jpg,\nimages/b.jpg,dog\nimages/c.jpg,cat,x\nimages/x.jpg,cat\n";
  const auto data = folder.data(text, "", tolerant());
  REQUIRE(data->size() == 4);
  CHECK(data->class_names() == Names{"cat", "dog"});
  CHECK(labels_of(*data) == std::vector<int64_t>{Source::kNoLabel, 1, Source::kNoLabel, 0});
  CHECK(data->label_counts() == std::map<int64_t, int64_t>{{0, 1}, {1, 1}});
  CHECK(data->read(1).at("label").item<int64_t>() == 1);
  const auto failure = [&](int64_t i) {
    return folder.local(error_of([&] { data->read(i); }, Exit::data));
  };
  CHECK(failure(0) == "t.csv:2: error: the label is empty (column 14)");
  CHECK(failure(2) ==
        "t.csv:4: error: the row has 3 cells, but the header has 2: quote cells that hold ',' "
        "(column 18)");
  CHECK(failure(3) == "t.csv:5: error: can't read 'images/x.jpg': no such file");
  CHECK(data->files_of(0) == Names{"images/a.jpg"});
  CHECK(data->files_of(2) == Names{});  // not nullopt: the list of skipped examples shows it
  // A quote that is never closed swallows rows: that is always an error.
  CHECK(folder.local(error_of([&] {
    folder.data("image,label\nimages/a.jpg,1\nimages/b.jpg,\"2\n", "", tolerant());
  })) == "t.csv:3:14: error: the quote that opens here is never closed");
  CHECK_THAT(folder.problem("image,label\nimages/a.jpg,\n"), Catch::EndsWith("is empty"));
}

TEST_CASE("csv: splits", "[csv]") {
  const CsvFolder folder;
  const std::string text =
      "image,label,part\nimages/a.jpg,cat,val\nimages/b.jpg,dog,train\nimages/c.jpg,ant,val\n";
  const auto val = folder.data(text, "split_column: part\nsplit: val\n");
  CHECK(val->source().splits() == Names{"train", "val"});
  CHECK(val->size() == 2);
  CHECK(folder.local(val->describe(1)) == "t.csv:4");
  CHECK(val->class_names() == Names{"ant", "cat", "dog"});
  CHECK(val->read(1).at("label").item<int64_t>() == 0);
  CHECK(val->read(1).size() == 2);  // the split is not a feature
  CHECK(val->source().labels(1).equal(at::tensor({1, 0}, at::kLong)));
  CHECK(folder.data(text)->read(0).contains("part"));
  CHECK(folder.data(text, "split: 'all[1:]'\n")->size() == 2);
  CHECK(folder.problem("image,label,part\nimages/a.jpg,1,\n", "split_column: part\n") ==
        "t.csv:2:16: error: the split is empty");
  CHECK(folder.problem(text, "split_column: prt\n") ==
        "t.csv:1:1: error: no column 'prt' for `split_column` (did you mean 'part'?); columns: "
        "image, label, part");
}

TEST_CASE("csv: the usual names of columns count in any case", "[csv]") {
  const CsvFolder folder;
  CHECK(labels_of(*folder.data("Image,LABEL\nimages/a.jpg,4\n")) == std::vector<int64_t>{4});
  // A column with the very name comes first.
  CHECK(labels_of(*folder.data("image,Label,label\nimages/a.jpg,4,5\n")) ==
        std::vector<int64_t>{5});
}

TEST_CASE("csv: a warning says that the rows of all splits are used", "[csv]") {
  const CsvFolder folder;
  const auto remarks = [&](const std::string& text, const std::string& rest = "") {
    Names all;
    for (const auto& [split, notes] : folder.data(text, rest)->file_notes())
      for (const std::string& remark : notes.remarks) all.push_back(folder.local(remark));
    return all;
  };
  const std::string text =
      "image,label,split\nimages/a.jpg,1,train\nimages/b.jpg,1,Train\nimages/c.jpg,1,val\n";
  const Names expected = {
      "t.csv: 'split' names the split of each row, but all rows are used; add `split_column: "
      "split` to use the rows of one split, or write `split: all` to use all rows"};
  CHECK(remarks(text) == expected);
  CHECK(remarks(text, "split: train[:2]\n") == expected);
  CHECK(remarks(text, "split: all\n").empty());
  CHECK(remarks(text, "split_column: split\n").empty());
  // The same from the stored index.
  const std::string file = folder.write("t.csv", text);
  folder.age_file(file);
  folder.open_file(file, "");
  REQUIRE_FALSE(std::filesystem::is_empty(folder.cache.path()));
  CHECK(folder.local(folder.open_file(file, "")->source().file_notes(1).remarks.at(0)) ==
        expected[0]);
  // A column of another name, all of whose values are usual names.
  const std::string subset = "image,label,Subset\nimages/a.jpg,1,train\nimages/b.jpg,1,test\n";
  CHECK(remarks(subset).at(0).starts_with("t.csv: 'Subset' names the split of each row"));
  CHECK(remarks(subset + "images/c.jpg,1,other\n").empty());
  // A file for each split, and a column with another meaning.
  CHECK(remarks("image,label,split\nimages/a.jpg,1,train\nimages/b.jpg,1,train\n").empty());
  CHECK(remarks("image,label,split\nimages/a.jpg,1,x\nimages/b.jpg,1,y\n").empty());
  CHECK(remarks("image,split\nimages/a.jpg,train\nimages/b.jpg,val\n", "label: split\n").empty());
}

TEST_CASE("csv: slices of a sorted file mix the classes", "[csv]") {
  const CsvFolder folder;
  std::string text = "image,label\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("images/a.jpg,{}\n", i / 10);
  CHECK(folder.data(text)->source().sorted_by_class(0));
  CHECK(folder.data(text, "split: 'train[:50%]'\n")->missing_classes().empty());
  CHECK_FALSE(folder.data(text + "images/a.jpg,0\n")->source().sorted_by_class(0));
}

TEST_CASE("csv: slices and folds do not depend on the numbers of the classes", "[csv]") {
  const CsvFolder folder;
  std::string text = "image,label\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("images/a.jpg,{}\n", i < 40 ? "dog" : "cat");
  for (const char* split : {"train[:50%]", "train[fold 2/5]"}) {
    const auto rows = [&](const std::string& classes) {
      const auto data = folder.data(text, fmt::format("split: '{}'\n{}", split, classes));
      std::vector<std::string> all;
      for (int64_t i = 0; i < data->size(); ++i) all.push_back(data->describe(i));
      CHECK(data->label_counts().size() == 2);
      return all;
    };
    CHECK(rows("classes: [dog, cat]\n") == rows("classes: [cat, dog]\n"));
    CHECK(rows("classes: [bee, dog, cat]\n") == rows(""));
  }
}

TEST_CASE("csv: the stored index gives the same data set", "[csv]") {
  const CsvFolder folder;
  const std::string file = folder.write(
      "t.csv",
      "\xEF\xBB\xBFimage;label;v;part;\r\nimages/a.jpg;dog;\"1\";x;\r\n\r\n\"images/b.jpg\";"
      "cat;2.5;y;\r\nimages/c.jpg;dog;3;x;");
  const std::string rest = "split_column: part\nsplit: x\n";
  const auto first = folder.open_file(file, rest);
  CHECK(std::filesystem::is_empty(folder.cache.path()));  // it has just changed
  CHECK(first->read(1).at("v").item<float>() == 3);
  folder.age_file(file);
  const Names remarks = folder.remarks_of(file, rest);
  CHECK(remarks.size() == 2);
  REQUIRE_FALSE(std::filesystem::is_empty(folder.cache.path()));
  CHECK(folder.remarks_of(file, rest) == remarks);
  const auto again = folder.open_file(file, rest);
  REQUIRE(again->size() == first->size());
  CHECK(again->class_names() == first->class_names());
  CHECK(again->fingerprint() == first->fingerprint());
  for (int64_t i = 0; i < again->size(); ++i) {
    CHECK(same_bits(again->read(i), first->read(i)));
    CHECK(again->describe(i) == first->describe(i));
  }
  // Other settings have a separate index.
  CHECK(folder.open_file(file, "classes: [dog, cat]\n")->class_names() == Names{"dog", "cat"});
  // The first and the last image are checked again.
  std::filesystem::remove(folder / "images/c.jpg");
  CHECK(folder.local(error_of([&] { folder.open_file(file, rest); })) ==
        "t.csv:5:1: error: no file 'images/c.jpg'; paths are relative to `folder`");
}

TEST_CASE("csv, jsonl and image_folder give equal examples", "[csv][jsonl]") {
  const ManifestFolder folder;
  std::string csv = "image,label\n", jsonl;
  int shade = 40;
  for (const char* name : {"ant/1.jpg", "ant/2.jpg", "bee/1.jpg"}) {
    folder.write(std::string("classes/") + name, flat_jpeg(shade += 30));
    const std::string label(name, 3);
    csv += fmt::format("classes/{},{}\n", name, label);
    jsonl +=
        fmt::format("{{\"image\": \"classes/{}\", \"label\": {}}}\n", name, label == "bee" ? 1 : 0);
  }
  const auto images =
      from_yaml("name: image_folder\ndata_dir: " + (folder / "classes"),
                [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
  const auto of_csv = folder.open_file(folder.write("t.csv", csv), "");
  const auto of_jsonl = folder.open_file(folder.write("t.jsonl", jsonl), "fopen_keys: [image]\n");
  CHECK(of_csv->fingerprint() == images->fingerprint());
  REQUIRE(of_csv->size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(same_bits(of_csv->read(i), images->read(i)));
    Example row = of_jsonl->read(i);
    CHECK(text_at(row, "id") == std::to_string(i));
    row.erase("id");
    CHECK(same_bits(row, images->read(i)));
  }
}

TEST_CASE("csv: bvtrain init finds CSV files that name images", "[csv]") {
  const CsvFolder folder;
  const std::string good = "image,label\nimages/a.jpg,cat\nimages/b.jpg,dog\n";
  const auto found = [&]() -> std::optional<DetectedData> {
    for (DetectedData& data : detect_data(folder.path())) {
      if (data.source == "csv") return data;
    }
    return std::nullopt;
  };
  CHECK_FALSE(found());
  folder.write("notes.csv", "a,b\n1,2\n");
  CHECK_FALSE(found());
  folder.write("labels.csv", good);
  REQUIRE(found());
  CHECK(found()->train == DataKeys{{"fname", folder / "labels.csv"}});
  CHECK(found()->notes == Names{"taken: labels.csv"});
  folder.write("more.csv", good);
  CHECK(error_of(found) ==
        folder.path() +
            ": error: holds several .csv files that name images: labels.csv, more.csv; expected "
            "train.csv and val.csv or test.csv: rename these files, or move the others elsewhere");
  std::filesystem::rename(folder / "labels.csv", folder / "my_train.csv");
  CHECK(error_of(found) ==
        folder.path() +
            ": error: holds several .csv files that name images: more.csv, my_train.csv; expected "
            "train.csv and val.csv or test.csv: rename these files, or move more.csv elsewhere");
  std::filesystem::rename(folder / "more.csv", folder / "test.csv");
  CHECK(found()->train == DataKeys{{"fname", folder / "my_train.csv"}});
  CHECK(found()->validation == DataKeys{{"fname", folder / "test.csv"}});
  // A list of the content of class folders is left to image_folder.
  std::filesystem::remove(folder / "my_train.csv");
  folder.write("test.csv", "image,label\nimages/a.jpg,images\n");
  CHECK_FALSE(found());
  folder.write("test.csv", "image,label\nimages/a.jpg,0.5\n");
  CHECK(error_of(found) == (folder / "test.csv") +
                               ": error: has labels such as 0.5, which are regression targets: "
                               "`bvtrain init " +
                               folder.path() + " --task regress` writes a config for them");
  folder.write("test.csv", "image,label,split\nimages/a.jpg,cat,train\n");
  CHECK(error_of(found) ==
        (folder / "test.csv") +
            ": error: has a column `split`, so some rows may not be for training: "
            "write the config yourself, with `name: csv` and `split_column: "
            "split`");
  folder.write("test.csv", "image,label,set\nimages/a.jpg,cat,train\nimages/b.jpg,cat,Test\n");
  CHECK(contains(error_of(found), "has a column `set`, so some rows may not be for training"));
  folder.write("test.csv", "image,label,set\nimages/a.jpg,cat,train\nimages/b.jpg,cat,bus\n");
  CHECK(found());
  folder.write("test.csv", "image,label\nimages/a.jpg,\"['cat', 'dog']\"\n");
  CHECK(contains(error_of(found), "has several labels in a cell, such as '['cat', 'dog']'"));
  folder.write("test.csv", "image,label\nimages/a.jpg,cat\nimages/a.jpg,cat;dog\n");
  CHECK(error_of(found) ==
        (folder / "test.csv") +
            ": error: has several labels in a cell, such as 'cat;dog': `bvtrain init " +
            folder.path() + " --task multilabel` writes a config for them");
}

TEST_CASE("csv: bvtrain init finds suffixes in upper case, and .tsv", "[csv]") {
  for (const char* name : {"TRAIN.CSV", "train.tsv"}) {
    const CsvFolder folder;
    folder.write(name, "image\tlabel\nimages/a.jpg\tcat\nimages/b.jpg\tdog\n");
    const std::vector<DetectedData> found = detect_data(folder.path());
    REQUIRE(found.size() == 1);
    CHECK(found[0].source == "csv");
    CHECK(found[0].train == DataKeys{{"fname", folder / name}});
  }
}

}  // namespace bv::test

// Broken CSV and JSON Lines files, and images that they name.
#pragma once

#include "test/support/bad_data/image_folders.h"

namespace bv::test {

class CsvTable {
 public:
  BadDataTable make() {
    files();
    rows();
    paths();
    return std::move(table_);
  }

  GoodData good() const {
    return {kSection, changed(images_, "d.csv", "image,label\na.jpg,0\na.jpg,1\n"), 2};
  }

 private:
  static inline const std::string kSection = "name: csv\nfname: DIR/d.csv\n";

  void add(const std::string& name, const std::string& csv, const std::string& text,
           Exit code = Exit::usage) {
    table_.push_back(
        {"csv: " + name, kSection, changed(images_, "d.csv", csv), code, "d.csv" + text});
  }

  void files() {
    add("an empty file", "", ": error: the file is empty");
    add("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    add("a file that is compressed", "\x1F\x8B\x08xx", ": error: is compressed: unpack it");
    add("a spreadsheet", "PK\3\4xxxx", ": error: is a zip archive or a spreadsheet");
    add("UTF-16", std::string("\xFF\xFEi\0m\0", 6),
        ": error: is UTF-16 text: save the file as UTF-8");
    add("a header alone", "image,label\n", ": error: has a header, but no rows");
    add("a file of line feeds", "\n\n\n", ": error: has no header: expected a line such as");
    add("a header without images", "a,b\n1,2\n", ":1:1: error: no column is called image, path");
    add("a column twice", "image,label,label\na.jpg,1,1\n",
        ":1:13: error: the column 'label' appears twice");
    add("10,001 columns", "image,label" + std::string(9999, ',') + "\na.jpg,1\n",
        ":1:10011: error: more than 10000 columns");
    table_.push_back(
        {"csv: a pipe", kSection, images_, Exit::usage, "d.csv: error: is a pipe, not a file",
         [](const std::string& folder) { ::mkfifo((folder + "/d.csv").c_str(), 0600); }});
  }

  void rows() {
    const std::string head = "image,label\na.jpg,0\n";
    add("a row that is too short", head + "a.jpg\na.jpg,1\n",
        ":3:6: error: the row has 1 cell, but the header has 2");
    add("a row that is too long", head + "a.jpg,1,2\n",
        ":3:9: error: the row has 3 cells, but the header has 2: quote cells that hold ','");
    add("a file that is cut off", head + "a.jp",
        ":3:5: error: the row has 1 cell, but the header has 2 (the file ends without a newline");
    add("a quote that is never closed", head + "\"a.jpg,1\n",
        ":3:1: error: the quote that opens here is never closed");
    add("a quote inside of a cell", head + "a\"b.jpg,1\n",
        ":3:2: error: a quote in a cell that does not begin with one");
    add("a NUL byte", head + std::string("a.jpg,\0\n", 8),
        ":3:7: error: a NUL byte: the file must be UTF-8 text");
    add("bytes that are not UTF-8", head + "\xE4.jpg,1\n",
        ":3:1: error: is not UTF-8 text (byte 0xE4): save the file as UTF-8");
    add("a label that is empty", head + "a.jpg,\n", ":3:7: error: the label is empty");
    add("a label of 2^63", head + "a.jpg,9223372036854775808\n",
        ":3:7: error: the label is a number that is too large");
    add("a label that is missing", head + "a.jpg,NaN\n",
        ":3:7: error: the label 'NaN' means that the value is missing");
    add("a carriage return alone", head + "a.jpg,1\rb.jpg,1\n",
        ":3:8: error: a carriage return in the middle of a line");
    add("a row of 17 MiB", head + std::string(size_t{17} << 20, 'x') + ",1\n",
        ":3: error: the row is longer than 16 MiB");
  }

  void paths() {
    add("a path that leaves the folder", "image,label\n../../etc/passwd,0\na.jpg,1\n",
        ":2:1: error: '../../etc/passwd' points outside the folder 'DIR'");
    add("a path that leaves the folder in the middle", "image,label\na/../../b.jpg,0\na.jpg,1\n",
        ":2:1: error: 'a/../../b.jpg' points outside the folder 'DIR'");
    add("a URL", "image,label\nhttps://x.org/a.jpg,0\n",
        ":2:1: error: 'https://x.org/a.jpg' is a URL: download the files first");
    add("an image that does not exist", "image,label\nno.jpg,0\na.jpg,1\n",
        ":2:1: error: no file 'no.jpg'; paths are relative to `folder`");
    add("a device in place of an image", "image,label\n/dev/zero,0\na.jpg,1\n",
        ":2:1: error: no file '/dev/zero'");
    add("an image in the middle that does not exist", "image,label\na.jpg,0\nno.jpg,1\na.jpg,0\n",
        ":3: error: can't read 'no.jpg': no such file", Exit::data);
    add("a device in the middle", "image,label\na.jpg,0\n/dev/zero,1\na.jpg,0\n",
        ":3: error: can't read '/dev/zero': is a device, not a file", Exit::data);
    add("an image that is empty", "image,label\na.jpg,0\nempty.jpg,1\n", ":3: the file is empty",
        Exit::data);
  }

  const Files images_ = {{"a.jpg", good_jpeg()}, {"empty.jpg", ""}};
  BadDataTable table_;
};

class JsonlTable {
 public:
  BadDataTable make() {
    files();
    rows();
    values();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, changed(images_, "d.jsonl", kGood + kGood), 2}; }

 private:
  static inline const std::string kSection =
      "name: jsonl\nfname: DIR/d.jsonl\nfopen_keys: [image]\n";
  static inline const std::string kGood = "{\"image\": \"a.jpg\", \"label\": 0}\n";

  void add(const std::string& name, const std::string& jsonl, const std::string& text,
           Exit code = Exit::usage) {
    table_.push_back(
        {"jsonl: " + name, kSection, changed(images_, "d.jsonl", jsonl), code, "d.jsonl" + text});
  }
  // Adds a row whose second line is `line`.
  void add_line(const std::string& name, const std::string& line, const std::string& text) {
    add(name, kGood + line + "\n", ":2:" + text);
  }

  void files() {
    add("an empty file", "", ": error: the file is empty");
    add("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add("a file that is compressed", "\x1F\x8B\x08xx", ": error: is compressed: unpack it");
    add("a file of blanks", "   \n", ": error: has no rows");
    add("an empty line", kGood + "\n" + kGood, ":2: error: an empty line");
    add("a row of 17 MiB", kGood + "{\"x\": \"" + std::string(size_t{17} << 20, 'x') + "\"}\n",
        ":2: error: the row is longer than 16 MiB");
  }

  void rows() {
    add_line("a list", "[1]", "1: error: expected an object: {\"key\": value, ...}");
    add_line("an object without values", "{}", "1: error: an object without values");
    add("a row that is cut off", kGood + "{\"image\": \"a.jpg\", \"label\": ",
        ":2:29: error: bad JSON: expected a value, but the line ends here (the file ends without a "
        "newline here: was it cut off?)");
    add_line("a text that is cut off", "{\"image\": \"a.jp",
             "11: error: bad JSON: the quote that opens here is never closed");
    add_line("something behind the object", "{\"image\": \"a.jpg\", \"label\": 0} x",
             "32: error: expected the end of the line after the object");
    add_line("a key twice", "{\"image\": \"a.jpg\", \"label\": 0, \"label\": 1}",
             "41: error: the key 'label' appears twice");
    add_line("another key", "{\"image\": \"a.jpg\", \"lable\": 0}",
             "1: error: no key 'label', which line 1 has");
    add_line("bytes that are not UTF-8", "{\"image\": \"\xFF\"}",
             "12: error: is not UTF-8 text (byte 0xFF)");
    add_line("a NUL byte", std::string("{\"a\0\": 1}", 9), "4: error: a NUL byte");
    std::string deep = "{\"a\": 1}";
    for (int i = 0; i < 70; ++i) deep = "{\"a\": " + deep + "}";
    add_line("70 objects in each other", deep, "385: error: objects nested more than 64 deep");
    add_line("100,000 lists in each other", "{\"image\": " + std::string(100'000, '['),
             "12: error: a list in a list is not supported");
  }

  void values() {
    const auto with = [](const std::string& image, const std::string& label) {
      return "{\"image\": " + image + ", \"label\": " + label + "}";
    };
    add_line("null", with("\"a.jpg\"", "null"), "29: error: null has no type");
    add_line("NaN", with("\"a.jpg\"", "NaN"), "29: error: NaN is not a finite number");
    add_line("a number of 2^63", with("\"a.jpg\"", "9223372036854775808"),
             "29: error: the number 9223372036854775808 is too large for 64 bits");
    add_line("a number with a leading zero", with("\"a.jpg\"", "007"),
             "29: error: bad JSON: '007' is not a number");
    add_line("a label that is a text", with("\"a.jpg\"", "\"cat\""),
             "29: error: 'label' is a string, but an integer in line 1");
    add_line("half of a surrogate pair", with("\"\\uD800\"", "0"),
             "12: error: bad JSON: half of a surrogate pair");
    add_line("a path that leaves the folder", with("\"../x.jpg\"", "0"),
             "11: error: '../x.jpg' points outside the folder 'DIR'");
    add_line("a file name that is a number", with("5", "0"), "11: error: 'image' is an integer");
    add("an image that does not exist", kGood + with("\"no.jpg\"", "0") + "\n" + kGood,
        ":2: error: can't read 'no.jpg': no such file", Exit::data);
  }

  const Files images_ = {{"a.jpg", good_jpeg()}};
  BadDataTable table_;
};

}  // namespace bv::test

// A catalogue of broken data sets. Each is generated from a good one, and has its expected error.
// The tables are in the other headers of this folder; test/input/bad_data_test.cc reads them all,
// test/e2e/bad_files_test.cc some of them with the real binary.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/util/error.h"
#include "test/support/image_files.h"

namespace bv::test {

using Files = std::map<std::string, std::string>;  // content by name

struct BadData {
  std::string name;     // of the source, and what is broken
  std::string section;  // of the config; DIR stands for the folder of the data
  Files files;
  // Exit::usage: opening the data set throws. Exit::data: reading an example, or decoding its
  // image, does.
  Exit code = Exit::usage;
  // How the message begins, without "DIR/" before the names of files. The text of an example's
  // error begins with the name of the example.
  std::string text;
  std::function<void(const std::string& folder)> also = nullptr;  // makes links and pipes
};
// The data from which a table's rows are made.
struct GoodData {
  std::string section;
  Files files;
  int64_t examples = 0;
};
using BadDataTable = std::vector<BadData>;

// Returns `text` with `bytes` written over the bytes from `at` on.
inline std::string patched(std::string text, size_t at, const std::string& bytes) {
  return text.replace(at, bytes.size(), bytes);
}
// Returns `text` with one bit of byte `at` flipped.
inline std::string flipped(std::string text, size_t at, int bit = 0) {
  text.at(at) = static_cast<char>(text.at(at) ^ (1 << bit));
  return text;
}
// Returns `files` with `content` in the file `name`.
inline Files changed(Files files, const std::string& name, const std::string& content) {
  files[name] = content;
  return files;
}
inline Files without(Files files, const std::string& name) {
  files.erase(name);
  return files;
}

inline std::string little(uint64_t value, int bytes) { return number_text(value, bytes, true); }
inline std::string big(uint64_t value, int bytes) { return number_text(value, bytes, false); }

inline const std::string kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
inline const std::string kHtmlPage = "<!DOCTYPE html><html><body>404 Not Found</body></html>\n";
inline const std::string kLfsText =
    "this is a git-LFS pointer, not the data itself: run 'git lfs pull' where it came from";
inline const std::string kHtmlText =
    "this is an HTML page, probably an error message of a web server: download it again";

}  // namespace bv::test

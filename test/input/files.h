// Files for tests: temporary folders, shared data, and the text of an error.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/util/error.h"
#include "test/shared.h"

namespace bv {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "bvtrain-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, in folders made as needed; returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::string file = *this / name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }
  void make(const std::string& name) const { std::filesystem::create_directories(*this / name); }
  // Gives all folders a modification time in the past.
  void age() const {
    const auto past = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    std::filesystem::last_write_time(path_, past);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_directory()) std::filesystem::last_write_time(entry.path(), past);
    }
  }

 private:
  std::string path_;
};

// The text of the Error(code) that `run` throws.
template <class Run>
std::string error_of(Exit code, Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

inline std::string slurp(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace bv

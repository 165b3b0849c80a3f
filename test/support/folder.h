// Temporary folders, and small files in them.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace bv::test {

// Writes a file and creates the folders above it.
inline void write(const std::string& file, std::string_view content) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

// Returns the content of a file, "" if it cannot be read.
inline std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool exists(const std::string& path) { return std::filesystem::exists(path); }

// Creates an empty file with a new name in the system's folder for temporary files.
inline std::string new_temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "bvtrain-test-XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0) throw std::runtime_error("cannot create " + name);
  ::close(fd);
  return name;
}

// A new empty folder; the destructor removes it with everything in it.
class TempFolder {
 public:
  TempFolder() : TempFolder(std::filesystem::temp_directory_path()) {}
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file in this folder and returns its path.
  std::string write(const std::string& name, std::string_view content) const {
    test::write(*this / name, content);
    return *this / name;
  }
  void make(const std::string& name) const { std::filesystem::create_directories(*this / name); }
  // Sets the modification time of this folder and of all folders in it to an hour ago.
  void age() const {
    const auto past = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    std::filesystem::last_write_time(path_, past);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_directory()) std::filesystem::last_write_time(entry.path(), past);
    }
  }

 protected:
  explicit TempFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "bvtrain-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }

 private:
  std::string path_;
};

// A temporary folder in memory (/dev/shm) where possible. For tests that sync hundreds of files to
// disk, which takes minutes on a busy disk.
class MemoryFolder : public TempFolder {
 public:
  MemoryFolder()
      : TempFolder(::access("/dev/shm", W_OK | X_OK) == 0
                       ? "/dev/shm"
                       : std::filesystem::temp_directory_path()) {}
};

}  // namespace bv::test

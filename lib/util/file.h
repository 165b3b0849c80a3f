// Files: reading with limits, atomic replacement, mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace bv {

bool file_exists(const std::string& file);
// Whole file as bytes. Throws Error(`usage`) "<file>: error: no such file" / "is a folder" /
// "larger than N bytes" (limit 0 = none).
std::string read_file(const std::string& file, size_t limit = 0);
// Temporary in the same folder, write, fsync, rename, fsync of the folder. Throws
// Error(Exit::storage) and leaves the old content.
void write_file_atomically(const std::string& file, std::string_view content, bool sync = true);
void fsync_path(const std::string& path);    // a file or folder; Error(Exit::storage)
void make_folders(const std::string& path);  // mkdir -p; Error(Exit::storage)
std::string cache_home();                    // $XDG_CACHE_HOME/bvtrain or ~/.cache/bvtrain

// A read-only mapping of a file.
class MappedFile {
 public:
  explicit MappedFile(const std::string& file);  // Error(Exit::usage)
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace bv

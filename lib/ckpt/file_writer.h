// Writing large files from beginning to end, with checksums and fsync.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Whether what is written is also kept in the system's page cache.
enum class PageCache {
  keep,
  // For files that are not read again soon. Copying into the page cache takes more CPU time than
  // the rest of a save, and evicts training data from memory. This is a hint: it has an effect on
  // ext4 and XFS only, and not on files smaller than a chunk.
  bypass
};

// Buffers a file in chunks of 1 MiB and computes the checksum (XXH3) of each chunk from memory, so
// that a disk error is detected when the file is read. All members throw Error(Exit::storage).
class FileWriter {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  // Creates the file or empties it.
  explicit FileWriter(std::string file, PageCache cache = PageCache::keep);
  ~FileWriter();  // without finish(), the file stays incomplete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Gives the file the permissions of the file that it is going to replace (keep_permissions() in
  // lib/util/file.h).
  void keep_permissions_of(const std::string& replaced);
  void write(std::string_view bytes);
  void write(const void* data, size_t bytes) { write({static_cast<const char*>(data), bytes}); }
  void finish();  // writes what is buffered, syncs and closes the file

  const std::string& file() const { return file_; }
  uint64_t bytes() const { return bytes_; }                              // passed to write() so far
  const std::vector<uint64_t>& checksums() const { return checksums_; }  // complete after finish()

 private:
  void flush();
  void bypass_cache(bool on);
  [[noreturn]] void fail(const char* what) const;

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  std::string file_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  bool bypasses_ = false;  // the page cache, by O_DIRECT
  // Of kChunkBytes, aligned for O_DIRECT. The first buffered_ bytes are not written yet.
  std::unique_ptr<char[], Free> buffer_;
  size_t buffered_ = 0;
  std::vector<uint64_t> checksums_;
};

// Calls `write` to fill a temporary file next to `file`, which then replaces `file`. If anything
// throws, the temporary file is deleted and `file` stays as it was. Errors name `file`. If `file`
// is a symbolic link, the link stays, and the file to which it leads is replaced. The permissions
// of an old file stay (keep_permissions()).
void replace_file(const std::string& file, const std::function<void(FileWriter&)>& write);

// Renames a file or folder. Throws Error(Exit::storage).
void rename_file(const std::string& from, const std::string& to);

// Renames a file or folder and syncs the folder that holds `to`. Throws Error(Exit::storage).
void rename_durably(const std::string& from, const std::string& to);

}  // namespace bv

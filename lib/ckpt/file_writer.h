// Writing large files from beginning to end, with checksums and fsync.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Buffers a file in chunks of 1 MiB and computes the checksum (XXH3) of each chunk from memory, so
// that an error of the disk shows up when the file is read. All members throw Error(Exit::storage).
class FileWriter {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  explicit FileWriter(std::string file);  // creates the file or empties it
  ~FileWriter();                          // without finish(), the file stays incomplete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  void write(const void* data, size_t bytes) { write({static_cast<const char*>(data), bytes}); }
  void finish();  // writes what is buffered, syncs and closes the file

  const std::string& file() const { return file_; }
  uint64_t bytes() const { return bytes_; }                              // passed to write() so far
  const std::vector<uint64_t>& checksums() const { return checksums_; }  // complete after finish()

 private:
  void flush();
  void write_chunk(std::string_view chunk);
  [[noreturn]] void fail(const char* what) const;

  std::string file_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  std::string buffer_;
  std::vector<uint64_t> checksums_;
};

// Calls `write` to fill a temporary file beside `file`, which then replaces `file`. If anything
// throws, the temporary file is deleted and `file` stays as it was.
void replace_file(const std::string& file, const std::function<void(FileWriter&)>& write);

// Renames a file or folder. Throws Error(Exit::storage).
void rename_file(const std::string& from, const std::string& to);

// Renames a file or folder and syncs the folder that holds `to`. Throws Error(Exit::storage).
void rename_durably(const std::string& from, const std::string& to);

}  // namespace bv

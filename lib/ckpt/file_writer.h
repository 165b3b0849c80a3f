// A file written once from begin to end: buffered in chunks of 1 MiB, with a checksum (XXH3) of
// each chunk of what was meant to be written, and synced at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

class FileWriter {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  // Creates `file` or empties it. All members throw Error(Exit::storage).
  explicit FileWriter(std::string file);
  ~FileWriter();  // without finish() the file is left incomplete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();  // writes the rest, fsync, close

  const std::string& file() const { return file_; }
  uint64_t bytes() const { return bytes_; }                              // written so far
  const std::vector<uint64_t>& checksums() const { return checksums_; }  // after finish()

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string file_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  std::string buffer_;
  std::vector<uint64_t> checksums_;
};

// `write` fills a temporary file beside `file`, which then takes its place; where anything throws,
// nothing is left of it.
void write_through(const std::string& file, const std::function<void(FileWriter&)>& write);

// rename(2) and fsync of the folder that holds `to`. Throws Error(Exit::storage).
void rename_durably(const std::string& from, const std::string& to);

}  // namespace bv

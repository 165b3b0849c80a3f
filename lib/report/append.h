// Appending to a file that others may read at the same time.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace bv {

// Opens `file` for appending. If it does not exist it is created, and the folder is synced: a crash
// would otherwise lose the file with all that was synced in it. Throws Error(Exit::storage).
int open_append(const std::string& file);

// Writes all of `bytes` to the end of the file, without a buffer in between. Throws
// Error(Exit::storage) naming `file`, also if the file was deleted meanwhile: the bytes would be
// lost.
void append(int fd, const std::string& file, std::string_view bytes);

// A file to append to that may refuse a write for a while, for example because the disk is full.
// What it has refused is kept and written later: each byte is in the file once, in order.
class AppendFile {
 public:
  explicit AppendFile(std::string file);  // as open_append()
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Writes what waits. Throws Error(Exit::storage) if a part is refused; that part still waits.
  void flush();
  void reopen();  // after another file has taken the name
  const std::string& name() const { return file_; }

 private:
  const std::string file_;
  std::string waiting_;
  int fd_;
};

}  // namespace bv

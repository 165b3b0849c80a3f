#pragma once

#include <string>
#include <string_view>

namespace bv {

// A file to append to, which others may read at the same time and which may refuse a write for a
// while, for example because the disk is full. What it has refused is kept and written later: each
// byte is in the file once, in order.
class AppendFile {
 public:
  // Creates the file if it does not exist, and then syncs its folder: a crash would otherwise lose
  // the file with all that was synced in it. Throws Error(Exit::storage).
  explicit AppendFile(std::string file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Writes what waits. Throws Error(Exit::storage) if a part is refused; that part still waits. It
  // is also an error if the file was deleted meanwhile: the bytes would be lost.
  void flush();
  void reopen();  // after another file has taken the name
  const std::string& name() const { return file_; }

 private:
  const std::string file_;
  std::string waiting_;
  int fd_;
};

}  // namespace bv

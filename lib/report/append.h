#pragma once

#include <string>
#include <string_view>

namespace bv {

// A file to append to. Other programs may read it at the same time. If a write fails, for example
// because the disk is full, the bytes are kept in memory and written later. Each byte is written
// once, and in order.
class AppendFile {
 public:
  // Creates the file if it does not exist, and then syncs its folder. Without that, a crash could
  // lose the file although its content was synced. Throws Error(Exit::storage).
  explicit AppendFile(std::string file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Writes the pending bytes. Throws Error(Exit::storage) if a write fails; what was not written
  // stays pending. Also throws if the file has been deleted, because the bytes would be lost.
  void flush();
  void reopen();  // after another file has taken the name
  const std::string& name() const { return file_; }

 private:
  const std::string file_;
  std::string waiting_;
  int fd_;
};

}  // namespace bv

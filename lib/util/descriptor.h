// An owned POSIX file descriptor, and the error texts of file operations. To read a file, use
// RegularFile (lib/util/regular_file.h), read_file() or MappedFile.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "lib/util/error.h"

namespace bv {

// Makes a system call, and repeats it as long as a signal interrupts it.
template <class Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// An open file, which the destructor closes. It converts to false, with errno set, if the file
// could not be opened.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0)
      : fd_(retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); })) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Returns false, with errno set, if closing failed: some network file systems report a failed
  // write only then.
  bool close();

 private:
  int fd_;
};

// Returns the properties of `file`, which `fd` has opened. Throws Error(Exit::usage) if it could
// not be opened.
struct stat stat_of(const Descriptor& fd, const std::string& file);

// Says why bvtrain does not read this kind of file (st_mode): "is a folder", "is a pipe, not a
// file".
std::string kind_text(mode_t mode);

// The text for an errno value: "no such file", "is a folder", otherwise the system's own.
std::string file_error_text(int error);

// No file can be opened: this process or the host already has too many open. The file is not at
// fault. Code that treats unreadable files as broken must therefore pass this error on.
struct TooManyOpenFiles : Error {
  using Error::Error;
};

// Throws Error(`code`) "<path>: error: <what><text of the errno value>". For EIO, ESTALE and
// ETIMEDOUT throws Exit::storage in place of Exit::usage, because the user made no mistake; for
// EMFILE and ENFILE throws TooManyOpenFiles in place of Error.
[[noreturn]] void throw_file_error(Exit code, const std::string& path, std::string_view what,
                                   int error);

}  // namespace bv

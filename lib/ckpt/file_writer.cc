#include "lib/ckpt/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"
#include "lib/util/temporary_file.h"

namespace bv {

FileWriter::FileWriter(std::string file) : file_(std::move(file)) {
  fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot create");
  buffer_.reserve(kChunkBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::fail(const char* what) const {
  const int reason = errno;
  throw Error(Exit::storage, file_, fmt::format("{}: {}", what, std::strerror(reason)));
}

void FileWriter::write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (buffer_.empty() && bytes.size() >= kChunkBytes) {
      write_chunk(bytes.substr(0, kChunkBytes));
      bytes.remove_prefix(kChunkBytes);
      continue;
    }
    const size_t part = std::min(bytes.size(), kChunkBytes - buffer_.size());
    buffer_.append(bytes.substr(0, part));
    bytes.remove_prefix(part);
    if (buffer_.size() == kChunkBytes) flush();
  }
}

void FileWriter::write_chunk(std::string_view chunk) {
  checksums_.push_back(hash64(chunk));
  if (write_all(fd_, chunk) != 0) fail("cannot write");
}

void FileWriter::flush() {
  write_chunk(buffer_);
  buffer_.clear();
}

void FileWriter::finish() {
  if (!buffer_.empty()) flush();
  if (retry_interrupted([&] { return ::fsync(fd_); }) != 0) fail("cannot sync");
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot close");
}

void replace_file(const std::string& file, const std::function<void(FileWriter&)>& write) {
  const std::string temporary = temporary_name(file);
  const DeletedOnSignal guard(temporary);
  try {
    FileWriter out(temporary);
    write(out);
    out.finish();
    rename_durably(temporary, file);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const int reason = errno;
  throw Error(Exit::storage, from,
              fmt::format("cannot rename to {}: {}", to, std::strerror(reason)));
}

void rename_durably(const std::string& from, const std::string& to) {
  rename_file(from, to);
  const std::string folder = std::filesystem::path(to).parent_path().string();
  fsync_path(folder.empty() ? "." : folder);
}

}  // namespace bv

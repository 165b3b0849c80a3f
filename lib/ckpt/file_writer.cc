#include "lib/ckpt/file_writer.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"
#include "lib/util/temporary_file.h"

namespace bv {

namespace {

// Direct I/O requires multiples of this, in memory and in the file.
constexpr size_t kBlockBytes = 4096;

// Whether direct I/O is fast. Network file systems wait for the server after each write.
bool is_local_disk(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 &&
         (info.f_type == EXT4_SUPER_MAGIC || info.f_type == XFS_SUPER_MAGIC);
}

}  // namespace

FileWriter::FileWriter(std::string file, PageCache cache)
    : file_(std::move(file)),
      buffer_(static_cast<char*>(std::aligned_alloc(kBlockBytes, kChunkBytes))) {
  if (!buffer_) throw std::bad_alloc();
  fd_ = retry_interrupted(
      [&] { return ::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (fd_ < 0) fail("cannot create");
  if (cache == PageCache::bypass && is_local_disk(fd_)) bypass_cache(true);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::keep_permissions_of(const std::string& replaced) {
  keep_permissions(fd_, replaced);
}

void FileWriter::fail(const char* what) const {
  const int reason = errno;
  throw Error(Exit::storage, file_, fmt::format("{}: {}", what, std::strerror(reason)));
}

void FileWriter::bypass_cache(bool on) {
  const int flags = ::fcntl(fd_, F_GETFL);
  const bool done =
      flags >= 0 && ::fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  if (!done && !on) fail("cannot write");
  bypasses_ = done && on;
}

void FileWriter::write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kChunkBytes - buffered_);
    std::memcpy(buffer_.get() + buffered_, bytes.data(), part);
    buffered_ += part;
    bytes.remove_prefix(part);
    if (buffered_ == kChunkBytes) flush();
  }
}

void FileWriter::flush() {
  std::string_view rest(buffer_.get(), std::exchange(buffered_, 0));
  checksums_.push_back(hash64(rest));
  while (!rest.empty()) {
    // The end of the file, or the rest of a short write, is not a whole number of blocks.
    if (bypasses_ && rest.size() % kBlockBytes != 0) bypass_cache(false);
    const ssize_t n = retry_interrupted([&] { return ::write(fd_, rest.data(), rest.size()); });
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (bypasses_ && errno == EINVAL) {
      bypass_cache(false);  // this disk has larger blocks
    } else {
      fail("cannot write");
    }
  }
}

void FileWriter::finish() {
  if (buffered_ > 0) flush();
  if (retry_interrupted([&] { return ::fsync(fd_); }) != 0) fail("cannot sync");
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot close");
}

void replace_file(const std::string& file, const std::function<void(FileWriter&)>& write) {
  const std::string target = link_target(file);
  const std::string temporary = temporary_name(target);
  const DeletedOnSignal guard(temporary);
  try {
    FileWriter out(temporary);
    out.keep_permissions_of(target);
    write(out);
    out.finish();
    rename_durably(temporary, target);
  } catch (const Error& error) {
    ::unlink(temporary.c_str());
    if (error.where() != temporary) throw;
    throw Error(error.code(), file, error.message());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void rename_file(const std::string& from, const std::string& to) {
  if (retry_interrupted([&] { return ::rename(from.c_str(), to.c_str()); }) == 0) return;
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

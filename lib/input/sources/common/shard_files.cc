#include "lib/input/sources/common/shard_files.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"

namespace bv {
namespace {

[[noreturn]] void fail_shard(const std::string& file, uint64_t offset, std::string_view why) {
  throw Error(Exit::data, fmt::format("{} @ offset {}", file, offset), why);
}

size_t allowed_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return ShardFiles::kMaxOpen;
  return std::clamp<size_t>(limit.rlim_cur / 16, 1, ShardFiles::kMaxOpen);
}

}  // namespace

ShardFiles::ShardFiles(std::vector<std::string> files)
    : files_(std::move(files)), max_open_(allowed_open()) {}

std::shared_ptr<const RegularFile> ShardFiles::open(size_t file) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(file); found != open_.end()) {
    used_.splice(used_.begin(), used_, found->second.place);
    return found->second.file;
  }
  std::shared_ptr<const RegularFile> opened;
  while (!opened) {
    try {
      opened = std::make_shared<const RegularFile>(files_.at(file));
    } catch (const TooManyOpenFiles&) {
      if (open_.empty()) throw;
      close_oldest();
    }
  }
  if (open_.size() == max_open_) close_oldest();
  used_.push_front(file);
  open_[file] = {opened, used_.begin()};
  return opened;
}

// The caller holds the mutex. open_ is not empty.
void ShardFiles::close_oldest() const {
  open_.erase(used_.back());
  used_.pop_back();
}

void ShardFiles::read(size_t file, uint64_t offset, uint64_t size, uint8_t* out) const {
  try {
    const size_t got = open(file)->read(out, size, offset);
    if (got == size) return;
    fail_shard(name(file), offset, fmt::format("the file ends after {} of {} bytes", got, size));
  } catch (const TooManyOpenFiles&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Exit::data) throw;
    fail_shard(name(file), offset, error.message());
  }
}

at::Tensor ShardFiles::read(size_t file, uint64_t offset, uint64_t size) const {
  at::Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
  read(file, offset, size, bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

}  // namespace bv

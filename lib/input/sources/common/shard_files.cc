#include "lib/input/sources/common/shard_files.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lib/util/error.h"

namespace bv {
namespace {

[[noreturn]] void fail_shard(const std::string& file, uint64_t offset, std::string_view why) {
  throw Error(Exit::data, fmt::format("{} @ offset {}", file, offset), why);
}

}  // namespace

std::shared_ptr<const RegularFile> ShardFiles::open(size_t file) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(file); found != open_.end()) {
    used_.splice(used_.begin(), used_, found->second.place);
    return found->second.file;
  }
  auto opened = std::make_shared<const RegularFile>(files_.at(file));
  if (open_.size() == kMaxOpen) {
    open_.erase(used_.back());
    used_.pop_back();
  }
  used_.push_front(file);
  open_[file] = {opened, used_.begin()};
  return opened;
}

void ShardFiles::read(size_t file, uint64_t offset, uint64_t size, uint8_t* out) const {
  try {
    const size_t got = open(file)->read(out, size, offset);
    if (got == size) return;
    fail_shard(name(file), offset, fmt::format("the file ends after {} of {} bytes", got, size));
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

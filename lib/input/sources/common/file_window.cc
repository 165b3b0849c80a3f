#include "lib/input/sources/common/file_window.h"

#include <algorithm>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr size_t kSmallest = 512;

}  // namespace

std::span<const uint8_t> FileWindow::at(uint64_t offset, size_t size) {
  check(size <= kLargest, "a part of {} bytes", size);
  const uint64_t end = std::min<uint64_t>(offset + size, file_.size());
  if (offset >= end) return {};
  const uint64_t window_end = begin_ + window_.size();
  if (offset < begin_ || end > window_end) {
    // Small parts that are close together are read in large windows, and parts that are far apart
    // in small ones.
    const bool close = offset >= begin_ && offset < window_end + next_size_;
    next_size_ = close ? std::min(2 * next_size_, kLargest) : std::max(next_size_ / 2, kSmallest);
    window_.resize(std::max(next_size_, size));
    begin_ = offset;
    window_.resize(file_.read(window_.data(), window_.size(), offset));
  }
  return std::span<const uint8_t>(window_).subspan(
      offset - begin_, std::min<uint64_t>(end - offset, begin_ + window_.size() - offset));
}

}  // namespace bv

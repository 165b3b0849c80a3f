#include "lib/ckpt/chunk_reader.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "lib/ckpt/file_writer.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int64_t kChunkBytes = FileWriter::kChunkBytes;
constexpr int64_t kChunksPerTask = 16;

// Copies what the sorted `ranges` take from the bytes of the file that begin at `offset`.
void copy_out(std::span<const ChunkReader::Range> ranges, uint64_t offset,
              std::string_view content) {
  const uint64_t end = offset + content.size();
  auto range = std::partition_point(ranges.begin(), ranges.end(),
                                    [&](const auto& r) { return r.end <= offset; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    const uint64_t from = std::max(range->begin, offset), to = std::min(range->end, end);
    std::memcpy(static_cast<char*>(range->to) + (from - range->begin),
                content.data() + (from - offset), to - from);
  }
}

// Returns the numbers of the chunks that the sorted `ranges` touch, ascending.
std::vector<int64_t> chunks_of(std::span<const ChunkReader::Range> ranges) {
  std::vector<int64_t> chunks;
  for (const ChunkReader::Range& range : ranges) {
    const auto last = static_cast<int64_t>((range.end - 1) / kChunkBytes);
    auto chunk = static_cast<int64_t>(range.begin / kChunkBytes);
    if (!chunks.empty()) chunk = std::max(chunk, chunks.back() + 1);
    for (; chunk <= last; ++chunk) chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace

ChunkReader::ChunkReader(std::string file, std::span<const uint64_t> checksums)
    : file_(std::move(file)), fd_(file_, O_RDONLY), checksums_(checksums) {
  const struct stat info = stat_for_reading(fd_, file_);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file_, "not a regular file");
  bytes_ = static_cast<uint64_t>(info.st_size);
}

// Returns what is wrong with the chunk; "" if nothing is.
std::string ChunkReader::read_chunk(int64_t chunk, std::vector<char>& content) const {
  const int64_t offset = chunk * kChunkBytes;
  content.resize(std::min<uint64_t>(kChunkBytes, bytes_ - static_cast<uint64_t>(offset)));
  for (size_t filled = 0; filled < content.size();) {
    const auto at = offset + static_cast<int64_t>(filled);
    const ssize_t n = retry_interrupted(
        [&] { return ::pread(fd_.get(), content.data() + filled, content.size() - filled, at); });
    if (n < 0) return fmt::format("cannot read at offset {}: {}", at, file_error_text(errno));
    if (n == 0) return fmt::format("ended at offset {} while it was read", at);
    filled += static_cast<size_t>(n);
  }
  if (checksums_.empty() ||
      hash64({content.data(), content.size()}) == checksums_[static_cast<size_t>(chunk)]) {
    return "";
  }
  return fmt::format("checksum of chunk {} (offset {}) differs", chunk, offset);
}

void ChunkReader::read(std::vector<Range> ranges, Chunks which) const {
  std::erase_if(ranges, [](const Range& range) { return range.begin == range.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  if (which == Chunks::all && bytes_ > 0) {
    // If the file is not in memory yet, reading ahead keeps the disk busy between two chunks.
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_WILLNEED);
  }
  const std::vector<int64_t> chunks =
      chunks_of(which == Chunks::all && bytes_ > 0 ? std::vector<Range>{{0, bytes_}} : ranges);
  std::mutex mutex;
  std::map<int64_t, std::string> faults;  // by chunk: the first one is reported
  at::parallel_for(0, std::ssize(chunks), kChunksPerTask, [&](int64_t begin, int64_t end) {
    std::vector<char> content;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = chunks[static_cast<size_t>(i)];
      if (std::string fault = read_chunk(chunk, content); !fault.empty()) {
        const std::lock_guard lock(mutex);
        faults.emplace(chunk, std::move(fault));
        return;
      }
      copy_out(ranges, static_cast<uint64_t>(chunk * kChunkBytes),
               {content.data(), content.size()});
    }
  });
  if (!faults.empty()) throw Error(Exit::usage, file_, faults.begin()->second);
}

}  // namespace bv

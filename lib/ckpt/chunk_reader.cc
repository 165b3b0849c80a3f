#include "lib/ckpt/chunk_reader.h"

#include <ATen/Parallel.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "lib/ckpt/file_writer.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr int64_t kChunkBytes = FileWriter::kChunkBytes;
constexpr int64_t kChunksPerTask = 16;

// Copies the parts of the sorted `ranges` that are in the file bytes that begin at `offset`.
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

// Returns the numbers of the chunks that the sorted `ranges` overlap, ascending.
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
    : file_(std::move(file)), opened_(file_), checksums_(checksums) {}

// Returns what is wrong with the chunk; nullopt if nothing is.
std::optional<Error> ChunkReader::read_chunk(int64_t chunk, std::vector<char>& content) const {
  const uint64_t offset = static_cast<uint64_t>(chunk) * kChunkBytes;
  content.resize(std::min<uint64_t>(kChunkBytes, bytes() - offset));
  try {
    const size_t read = opened_.read(content.data(), content.size(), offset);
    if (read < content.size()) {
      return Error(Exit::usage, file_,
                   fmt::format("was cut off at offset {} while it was read", offset + read));
    }
  } catch (const Error& error) {
    return Error(error.code(), file_, fmt::format("{} (offset {})", error.message(), offset));
  }
  if (checksums_.empty() ||
      hash64({content.data(), content.size()}) == checksums_[static_cast<size_t>(chunk)]) {
    return std::nullopt;
  }
  return Error(Exit::usage, file_,
               fmt::format("checksum of chunk {} (offset {}) differs", chunk, offset));
}

void ChunkReader::read(std::vector<Range> ranges, Chunks which) const {
  std::erase_if(ranges, [](const Range& range) { return range.begin == range.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  if (which == Chunks::all && bytes() > 0) {
    // If the file is not in memory yet, reading ahead keeps the disk busy between two chunks.
    ::posix_fadvise(opened_.fd(), 0, 0, POSIX_FADV_WILLNEED);
  }
  const std::vector<int64_t> chunks =
      chunks_of(which == Chunks::all && bytes() > 0 ? std::vector<Range>{{0, bytes()}} : ranges);
  std::mutex mutex;
  std::map<int64_t, Error> faults;  // by chunk: the first one is reported
  at::parallel_for(0, std::ssize(chunks), kChunksPerTask, [&](int64_t begin, int64_t end) {
    std::vector<char> content;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = chunks[static_cast<size_t>(i)];
      if (const auto fault = read_chunk(chunk, content)) {
        const std::lock_guard lock(mutex);
        faults.emplace(chunk, *fault);
        return;
      }
      copy_out(ranges, static_cast<uint64_t>(chunk * kChunkBytes),
               {content.data(), content.size()});
    }
  });
  if (!faults.empty()) throw faults.begin()->second;
}

}  // namespace bv

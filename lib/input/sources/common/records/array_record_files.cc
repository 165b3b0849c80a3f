#include "lib/input/sources/common/records/array_record_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/input/sources/common/index_cache.h"
#include "lib/input/sources/common/records/riegeli.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/protobuf_reader.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

constexpr uint64_t kPostscriptMagic = 0x71930E704FDAE05E;  // of RiegeliPostscript

std::span<const uint8_t> bytes_of_record(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<uint8_t>(), static_cast<size_t>(tensor.numel())};
}

// Returns the numbers in fields 1, 2 and 3 of a message; 0 for missing ones.
std::array<uint64_t, 3> numbers_of(std::span<const uint8_t> bytes) {
  std::array<uint64_t, 3> numbers{};
  for (protobuf::Reader message(bytes); message.next();) {
    if (message.type() != protobuf::WireType::bytes && message.field() <= 3)
      numbers[message.field() - 1] = message.bits();
  }
  return numbers;
}

}  // namespace

struct ArrayRecordFiles::Scanned {
  std::vector<uint64_t> chunks;
  std::vector<int64_t> records;  // in each chunk
};

// Reads where the chunks of a file begin. Throws Error::bare(Exit::data).
ArrayRecordFiles::Scanned ArrayRecordFiles::scan(const ShardFiles& files, size_t file,
                                                 uint64_t file_size) {
  const auto fail = [](std::string_view why) { throw Error::bare(Exit::data, why); };
  // The last block holds a chunk with a RiegeliPostscript: footer_offset = 1, magic = 2.
  const RiegeliRecords postscript = read_riegeli_chunk(
      files, file, file_size, (file_size - 1) / kRiegeliBlock * kRiegeliBlock, true);
  const auto [footer, magic, unused] = numbers_of(
      postscript.ends.empty() ? std::span<const uint8_t>() : bytes_of_record(postscript.record(0)));
  if (magic != kPostscriptMagic)
    fail("does not end as an ArrayRecord file does; it may be cut off");
  if (footer >= file_size) fail("its table of contents would begin after the end of the file");
  // The table: a RiegeliFooterMetadata, then an ArrayRecordFooter for each chunk with its
  // chunk_offset = 1, decoded_data_size = 2 and num_records = 3.
  const RiegeliRecords table = read_riegeli_chunk(files, file, file_size, footer, true);
  Scanned found;
  uint64_t before = 0, total = 0;
  for (size_t i = 1; i < table.ends.size(); ++i) {
    const auto [offset, size, records] = numbers_of(bytes_of_record(table.record(i)));
    if (offset <= before || offset >= footer) fail("its table of contents is not in order");
    if (records == 0 || records > limits::kArrayRecordRecords ||
        (total += records) > limits::kArrayRecordRecords)
      fail("its table of contents has an impossible number of records");
    found.chunks.push_back(offset);
    found.records.push_back(static_cast<int64_t>(records));
    before = offset;
  }
  return found;
}

ArrayRecordFiles::ArrayRecordFiles(std::vector<std::string> files, VerifyRecords verify)
    : files_(std::move(files)), verify_(verify) {
  for (const FileStamp& stamp : stamps_of(files_.names())) sizes_.push_back(stamp.size);
  std::vector<Scanned> found(files_.count());
  scan_files(files_.count(), "reading tables of contents", [&](size_t i) {
    const std::string& name = files_.name(i);
    if (sizes_[i] == 0) throw Error(Exit::usage, name, wrong_file({}));
    try {
      found[i] = scan(files_, i, sizes_[i]);
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      const at::Tensor head = files_.read(i, 0, std::min<uint64_t>(sizes_[i], 64));
      const std::string why = wrong_file(bytes_of_record(head));
      throw Error(
          Exit::usage, name,
          !why.empty() ? why : fmt::format("not a whole ArrayRecord file: {}", error.message()));
    }
  });
  int64_t records = 0;
  for (const Scanned& file : found) {
    chunks_.insert(chunks_.end(), file.chunks.begin(), file.chunks.end());
    for (const int64_t count : file.records) chunk_ends_.push_back(records += count);
    ends_.push_back(records);
  }
  verified_ = std::make_unique<std::atomic<bool>[]>(chunks_.size());
}

size_t ArrayRecordFiles::chunk_of(int64_t record) const {
  check(record >= 0 && record < size(), "record {} of {}", record, size());
  return std::upper_bound(chunk_ends_.begin(), chunk_ends_.end(), record) - chunk_ends_.begin();
}

std::string ArrayRecordFiles::where(int64_t record) const {
  const size_t chunk = chunk_of(record);
  const size_t file = std::upper_bound(ends_.begin(), ends_.end(), record) - ends_.begin();
  const int64_t first = chunk == 0 ? 0 : chunk_ends_[chunk - 1];
  std::string text = fmt::format("{} @ offset {}", files_.name(file), chunks_[chunk]);
  if (chunk_ends_[chunk] - first > 1) text += fmt::format(" record {}", record - first);
  return text;
}

at::Tensor ArrayRecordFiles::read(int64_t record) const {
  const size_t chunk = chunk_of(record);
  const size_t file = std::upper_bound(ends_.begin(), ends_.end(), record) - ends_.begin();
  const int64_t first = chunk == 0 ? 0 : chunk_ends_[chunk - 1];
  const bool known = verify_ == VerifyRecords::never ||
                     (verify_ == VerifyRecords::first_epoch && verified_[chunk]);
  try {
    const RiegeliRecords records =
        read_riegeli_chunk(files_, file, sizes_[file], chunks_[chunk], !known);
    if (std::ssize(records.ends) != chunk_ends_[chunk] - first)
      throw Error::bare(Exit::data, "the chunk has another number of records than the file says");
    verified_[chunk] = true;
    return records.record(static_cast<size_t>(record - first));
  } catch (const TooManyOpenFiles&) {
    throw;
  } catch (const Error& error) {
    throw Error(Exit::data, where(record), error.message());
  }
}

}  // namespace bv

#include "lib/input/sources/common/records/tfrecord_files.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/input/broken_files.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/file_window.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/util/crc32c.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/protobuf_reader.h"
#include "lib/util/signals.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

constexpr std::string_view kTfRecordIndexFormat = "bvtrain TFRecord 2";
constexpr size_t kMaxShown = 20;  // broken records
constexpr std::string_view kWrongData = "the checksum of the record's data is wrong";
constexpr uint64_t kHead = 12;  // the length and its checksum
constexpr uint64_t kTail = 4;   // the checksum of the data

template <class T>
T load_number(const uint8_t* bytes) {  // little endian, as the processors that the program runs on
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

uint32_t crc_of(std::span<const uint8_t> bytes, uint32_t before = 0) {
  return crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, before);
}

uint32_t masked_crc(const uint8_t* bytes, size_t size) {
  return masked_crc32c(crc_of({bytes, size}));
}

// Returns whether the data at [begin, end) of a file match the checksum that follows them.
bool is_intact(FileWindow& file, uint64_t begin, uint64_t end) {
  uint32_t crc = 0;
  while (begin < end) {
    const auto part = file.at(begin, std::min<uint64_t>(end - begin, FileWindow::kLargest));
    if (part.empty()) return false;  // the file has become shorter
    crc = crc_of(part, crc);
    begin += part.size();
  }
  const auto stored = file.at(end, kTail);
  return stored.size() == kTail && load_number<uint32_t>(stored.data()) == masked_crc32c(crc);
}

// Finds a feature of an Example in a file and reads as little of it as possible, because the
// Example usually holds an image.
class LabelFinder {
 public:
  LabelFinder(FileWindow& file, std::string_view key) : file_(file), key_(key) {}

  // Returns the integer of the feature in the Example at [begin, end); nullopt unless it is exactly
  // one. Throws Error::bare(Exit::data) if the Example is malformed.
  std::optional<int64_t> find(uint64_t begin, uint64_t end) {
    std::optional<int64_t> label;
    at_ = begin;
    // Example { Features features = 1; }, Features { map<string, Feature> feature = 1; }.
    while (at_ < end) {
      const uint64_t features_end = enter(end);
      while (at_ < features_end) {
        const uint64_t entry_end = enter(features_end);
        if (std::optional<int64_t> found = read_entry(entry_end)) label = found;
        at_ = entry_end;
      }
    }
    return label;
  }

 private:
  // Reads the header of a bytes field, and returns where the field ends, which must not be after
  // `end`.
  uint64_t enter(uint64_t end) {
    const uint64_t key = varint(end);
    if ((key & 7) != 2) throw Error::bare(Exit::data, "the record is not a tf.train.Example");
    const uint64_t size = varint(end);
    if (size > end - at_)
      throw Error::bare(Exit::data, "the record is not a valid tf.train.Example");
    field_ = key >> 3;
    return at_ + size;
  }
  uint64_t varint(uint64_t end) {
    std::span<const uint8_t> bytes = file_.at(at_, std::min<uint64_t>(end - at_, 10));
    const size_t before = bytes.size();
    const uint64_t value = protobuf::take_varint(bytes);
    at_ += before - bytes.size();
    return value;
  }
  // Reads an entry of the map. Its key comes before its value in all files that are written by
  // protobuf.
  std::optional<int64_t> read_entry(uint64_t end) {
    const uint64_t name_end = enter(end);
    const std::span<const uint8_t> name =
        file_.at(at_, std::min<uint64_t>(name_end - at_, key_.size() + 1));
    if (field_ != 1 ||
        std::string_view(reinterpret_cast<const char*>(name.data()), name.size()) != key_)
      return std::nullopt;
    at_ = name_end;
    const uint64_t value_end = enter(end);
    if (value_end - at_ > limits::kIntegerFeatureBytes) return std::nullopt;
    return one_integer(file_.at(at_, value_end - at_));
  }
  static std::optional<int64_t> one_integer(std::span<const uint8_t> feature) {
    std::optional<int64_t> value;
    int count = 0;
    for (protobuf::Reader message(feature); message.next();) {
      if (message.field() != 3 || message.type() != protobuf::WireType::bytes) return std::nullopt;
      for (protobuf::Reader list(message.bytes()); list.next();) {
        std::span<const uint8_t> packed = list.bytes();
        if (list.type() == protobuf::WireType::varint) {
          value = static_cast<int64_t>(list.bits());
          ++count;
        }
        for (; !packed.empty(); ++count)
          value = static_cast<int64_t>(protobuf::take_varint(packed));
      }
    }
    return count == 1 ? value : std::nullopt;
  }

  FileWindow& file_;
  std::string_view key_;
  uint64_t at_ = 0;
  uint64_t field_ = 0;  // the number of the field that was entered last
};

// What a record's data contain about its label.
struct FoundLabel {
  std::optional<int64_t> label;  // nullopt: not exactly one integer
  std::string problem;           // why the record is broken; empty if it is not
};

// Looks for the label of the record whose data are at [begin, end). Compares the checksum only if
// there is no label: otherwise most of the data need not be read.
FoundLabel find_label(FileWindow& file, std::string_view key, uint64_t begin, uint64_t end) {
  FoundLabel found;
  try {
    found.label = LabelFinder(file, key).find(begin, end);
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    found.problem = error.message();
  }
  if (!found.label && !is_intact(file, begin, end)) found.problem = kWrongData;
  return found;
}

// Returns the length of the data of the record at `offset`. Throws Error::bare(Exit::data).
uint64_t data_size(std::span<const uint8_t> head, uint64_t offset, uint64_t file_size) {
  if (head.size() < kHead)
    throw Error::bare(Exit::data, "the file ends inside the head of a record");
  if (load_number<uint32_t>(head.data() + 8) != masked_crc(head.data(), 8)) {
    throw Error::bare(Exit::data,
                      offset == 0 ? "not a TFRecord file: the checksum of the first length is wrong"
                                  : "the checksum of a record's length is wrong");
  }
  const auto size = load_number<uint64_t>(head.data());
  if (size > limits::kRecordBytes)
    throw Error::bare(Exit::data, fmt::format("a record of {} bytes; the limit is {}", size,
                                              limits::kRecordBytes));
  if (file_size - offset < kHead + size + kTail) {
    throw Error::bare(Exit::data, fmt::format("the file ends inside a record of {} bytes", size));
  }
  return size;
}

}  // namespace

struct TfRecordFiles::Scanned {
  std::vector<uint64_t> offsets;
  std::vector<int64_t> labels;  // as many as offsets if all are known
  uint64_t broken = 0;          // records
  std::vector<Error> problems;  // of the first of them
};

TfRecordFiles::Scanned TfRecordFiles::scan(const std::string& file, const std::string& label_key) {
  FileWindow window(file);
  Scanned found;
  bool labelled = !label_key.empty();
  if (const std::string why = wrong_file(window.at(0, 64)); !why.empty())
    throw Error(Exit::usage, file, why);
  if (const auto head = window.at(0, 2); head.size() == 2 && head[0] == 0x1F && head[1] == 0x8B)
    throw Error(Exit::usage, file, "this TFRecord file is compressed; unpack it with gunzip");
  for (uint64_t offset = 0, size = 0; offset < window.file_size(); offset += kHead + size + kTail) {
    poll_signals();
    const auto where = [&] { return fmt::format("{} @ offset {}", file, offset); };
    try {
      size = data_size(window.at(offset, kHead), offset, window.file_size());
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      throw Error(Exit::usage, where(), error.message());
    }
    found.offsets.push_back(offset);
    if (!labelled) continue;
    const uint64_t begin = offset + kHead;
    const FoundLabel one = find_label(window, label_key, begin, begin + size);
    const bool broken = !one.problem.empty();
    if (broken && ++found.broken <= kMaxShown)
      found.problems.emplace_back(Exit::usage, where(), one.problem);
    labelled = broken || one.label;
    if (labelled) found.labels.push_back(broken ? Source::kNoLabel : *one.label);
  }
  return found;
}

// Throws BrokenFiles if records are broken, unless `keep_broken`.
void TfRecordFiles::build(const std::string& label_key, bool keep_broken) {
  std::vector<Scanned> found(files_.count());
  scan_files(files_.count(), "finding the records",
             [&](size_t i) { found[i] = scan(files_.name(i), label_key); });
  std::vector<int64_t> labels;
  std::vector<Error> problems;
  for (const Scanned& file : found) {
    offsets_.insert(offsets_.end(), file.offsets.begin(), file.offsets.end());
    labels.insert(labels.end(), file.labels.begin(), file.labels.end());
    ends_.push_back(size());
    broken_ += file.broken;
    const size_t shown = std::min(file.problems.size(), kMaxShown - problems.size());
    problems.insert(problems.end(), file.problems.begin(),
                    file.problems.begin() + static_cast<ptrdiff_t>(shown));
  }
  if (broken_ > 0 && !keep_broken) {
    const size_t left_out = broken_ - problems.size();
    throw BrokenFiles(std::move(problems), left_out);
  }
  if (label_key.empty() || std::ssize(labels) != size()) return;
  labels_ = at::empty({size()}, at::kLong);
  std::copy(labels.begin(), labels.end(), labels_.mutable_data_ptr<int64_t>());
}

TfRecordFiles::TfRecordFiles(std::vector<std::string> files, VerifyRecords verify,
                             const std::string& label_key, bool keep_broken)
    : files_(std::move(files)), verify_(verify) {
  const std::vector<FileStamp> stamps = stamps_of(files_.names());
  const std::string format = fmt::format("{} label {}", kTfRecordIndexFormat, label_key);
  const std::optional<std::string> stored = load_index(format, stamps);
  if (!stored || !parse(*stored, keep_broken)) {
    build(label_key, keep_broken);
    store_index(format, stamps, serialize());
  }
  verified_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(size() / 8 + 1));
}

// The index is, each as 8 bytes: the number of files, of records, of labels (all or none) and of
// broken records, the ends, the offsets and the labels.
std::string TfRecordFiles::serialize() const {
  const int64_t labels = labels_.defined() ? size() : 0;
  const int64_t sizes[] = {std::ssize(ends_), size(), labels, static_cast<int64_t>(broken_)};
  std::string index;
  const auto put = [&](const void* data, size_t values) {
    index.append(static_cast<const char*>(data), values * 8);
  };
  put(sizes, std::size(sizes));
  put(ends_.data(), ends_.size());
  put(offsets_.data(), offsets_.size());
  if (labels > 0) put(labels_.const_data_ptr(), static_cast<size_t>(labels));
  return index;
}

// Returns false if the index is inconsistent, which only a bug or a tampered cache could cause, and
// if records are broken, unless `keep_broken`: only a new scan of the files can name them.
bool TfRecordFiles::parse(std::string_view index, bool keep_broken) {
  uint64_t sizes[4];
  if (index.size() < sizeof(sizes)) return false;
  std::memcpy(sizes, index.data(), sizeof(sizes));
  const auto [files, records, labels, broken] = sizes;
  if (broken > 0 && !keep_broken) return false;
  const uint64_t words = index.size() / 8 - std::size(sizes);
  if (files != files_.count() || records > words || (labels != 0 && labels != records) ||
      words != files + records + labels || index.size() % 8 != 0)
    return false;
  const char* at = index.data() + sizeof(sizes);
  const auto take = [&](void* out, uint64_t values) {
    std::memcpy(out, at, values * 8);
    at += values * 8;
  };
  ends_.resize(files);
  offsets_.resize(records);
  take(ends_.data(), files);
  take(offsets_.data(), records);
  if (!std::is_sorted(ends_.begin(), ends_.end()) ||
      (files > 0 && (ends_[0] < 0 || ends_.back() != static_cast<int64_t>(records)))) {
    ends_.clear();
    offsets_.clear();
    return false;
  }
  if (labels > 0) {
    labels_ = at::empty({static_cast<int64_t>(labels)}, at::kLong);
    take(labels_.mutable_data_ptr(), labels);
  }
  broken_ = broken;
  return true;
}

size_t TfRecordFiles::file_of(int64_t record) const {
  check(record >= 0 && record < size(), "record {} of {}", record, size());
  return std::upper_bound(ends_.begin(), ends_.end(), record) - ends_.begin();
}

std::string TfRecordFiles::where(int64_t record) const {
  return fmt::format("{} @ offset {}", files_.name(file_of(record)), offsets_[record]);
}

at::Tensor TfRecordFiles::read(int64_t record) const {
  const size_t file = file_of(record);
  const uint64_t offset = offsets_[record];
  const auto failed = [&](std::string_view why) { return Error(Exit::data, where(record), why); };
  // The next record's offset gives this one's length, so that one call reads all of it. The last
  // record of a file needs two.
  const bool last = record + 1 == ends_[file];
  uint64_t bytes = last ? kHead : offsets_[record + 1] - offset;
  if (!last && (bytes < kHead + kTail || bytes > limits::kRecordBytes + kHead + kTail))
    throw failed("the index of this file is damaged; delete it in the cache folder");
  std::vector<uint8_t> head(kHead);
  if (last) {
    files_.read(file, offset, kHead, head.data());
    bytes = kHead + std::min(load_number<uint64_t>(head.data()), limits::kRecordBytes) + kTail;
  }
  at::Tensor whole = files_.read(file, offset, bytes);
  const auto* data = whole.const_data_ptr<uint8_t>();
  const auto size = load_number<uint64_t>(data);
  if (load_number<uint32_t>(data + 8) != masked_crc(data, 8) || size != bytes - kHead - kTail)
    throw failed("the checksum of the record's length is wrong");
  std::atomic<uint8_t>& bits = verified_[record / 8];
  const auto bit = static_cast<uint8_t>(1U << (record % 8));
  const bool known = verify_ == VerifyRecords::never ||
                     (verify_ == VerifyRecords::first_epoch && (bits & bit) != 0);
  if (!known) {
    if (load_number<uint32_t>(data + kHead + size) != masked_crc(data + kHead, size))
      throw failed(kWrongData);
    bits |= bit;
  }
  return whole.slice(0, kHead, static_cast<int64_t>(kHead + size));
}

}  // namespace bv

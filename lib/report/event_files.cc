#include "lib/report/event_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <vector>

#include "lib/report/log.h"
#include "lib/util/crc32c.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/mapped_file.h"
#include "lib/util/protobuf_reader.h"

namespace bv {
namespace {

// A record: its length in 8 bytes, the checksum of these, the event, the checksum of the event.
constexpr size_t kRecordHead = 12, kRecordTail = 4;

// Whether EventWriter gives such names.
bool is_event_file_name(std::string_view name) {
  if (!name.starts_with(kEventFilePrefix)) return false;
  name.remove_prefix(kEventFilePrefix.size());
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const size_t first = name.find('.'), last = name.rfind('.');
  return first == 10 && last > first + 1 && is_number(name.substr(0, first)) &&
         is_number(name.substr(last + 1));
}

template <class T>
T number_in_record(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Returns the event of the record at the front of `bytes`; an empty one if the record is not
// complete. Throws Error::bare() if a checksum is wrong.
std::string_view first_event(std::string_view bytes) {
  if (bytes.size() < kRecordHead) return {};
  const auto check_sum = [&](std::string_view data, size_t at) {
    if (number_in_record<uint32_t>(bytes.substr(at)) != masked_crc32c(crc32c(data)))
      throw Error::bare(Exit::data, "is damaged");
  };
  check_sum(bytes.substr(0, sizeof(uint64_t)), sizeof(uint64_t));
  const auto length = number_in_record<uint64_t>(bytes);
  const size_t left = bytes.size() - kRecordHead;
  if (length > left || left - length < kRecordTail) return {};
  const std::string_view event = bytes.substr(kRecordHead, length);
  check_sum(event, kRecordHead + length);
  return event;
}

// Whether EventWriter has written this first event of a file. It writes the step 0, which
// TensorFlow and others leave out.
bool is_own_version(std::string_view event) {
  constexpr size_t kTime = 9;  // the field `wall_time`
  constexpr std::string_view kStepAndVersion("\x10\0\x1a\rbrain.Event:2", 17);
  return event.size() == kTime + kStepAndVersion.size() && event.ends_with(kStepAndVersion);
}

// Whether the event is a point of `from_step` or of a later step.
bool is_point_from(std::string_view event, int64_t from_step) {
  constexpr int64_t kStepField = 2, kSummaryField = 5;  // of tensorflow.Event
  int64_t step = 0;
  bool has_summary = false;
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(event.data()),
                                       event.size());
  for (protobuf::Reader message(bytes); message.next();) {
    if (message.field() == kStepField && message.type() == protobuf::WireType::varint)
      step = static_cast<int64_t>(message.bits());
    has_summary = has_summary || message.field() == kSummaryField;
  }
  return has_summary && step >= from_step;
}

// Whether a file has a point of `from_step` or of a later step. Checks no checksums, and does not
// read the pictures in a file.
bool has_points(std::string_view content, int64_t from_step) {
  while (content.size() > kRecordHead) {
    const auto length = number_in_record<uint64_t>(content);
    if (length > content.size() - kRecordHead) return false;
    if (is_point_from(content.substr(kRecordHead, length), from_step)) return true;
    content.remove_prefix(std::min(content.size(), kRecordHead + length + kRecordTail));
  }
  return false;
}

// Removes the points of `from_step` and of later steps from the content of a file. Throws Error if
// the content is damaged, or if another program has written it.
void drop_points(std::string& content, int64_t from_step) {
  size_t at = 0, kept = 0;
  while (at < content.size()) {
    const std::string_view event = first_event(std::string_view(content).substr(at));
    if (event.empty()) break;
    if (at == 0 && !is_own_version(event))
      throw Error::bare(Exit::data, "was written by another program");
    const size_t size = kRecordHead + event.size() + kRecordTail;
    if (!is_point_from(event, from_step)) {
      std::memmove(content.data() + kept, content.data() + at, size);
      kept += size;
    }
    at += size;
  }
  content.resize(kept);
}

}  // namespace

void drop_events(const std::string& dir, int64_t from_step) {
  if (from_step == std::numeric_limits<int64_t>::max()) return;
  std::vector<std::string> files;
  std::error_code error;
  using Entries = std::filesystem::directory_iterator;
  for (Entries entry(dir, error), none; !error && entry != none; entry.increment(error)) {
    if (is_event_file_name(entry->path().filename().string()))
      files.push_back(entry->path().string());
  }
  for (const std::string& file : files) {
    std::string content;
    try {
      {
        const MappedFile mapped(file);
        const auto bytes = mapped.bytes();
        if (!has_points({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, from_step))
          continue;
      }
      content = read_file(file, limits::kEventFileBytes);
      drop_points(content, from_step);
    } catch (const Error& fault) {
      log::warn("{}: {}; TensorBoard may show points from it that the run has discarded", file,
                fault.message());
      continue;
    }
    write_file_atomically(file, content);
  }
}

}  // namespace bv

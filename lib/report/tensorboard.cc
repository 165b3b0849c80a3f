// TensorBoard event files. The messages are those of tensorflow's event.proto and summary.proto,
// the framing that of record_writer.h; both are encoded by hand (a handful of fields).
#include "lib/report/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/report/append.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr size_t kBufferBytes = 1 << 16;
constexpr int64_t kLatestSeconds = 9'999'999'998;  // 10 digits: names sort as numbers

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kLogStatus = 1;
constexpr uint64_t kStatusStart = 1;

enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void add_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void add_key(std::string& out, int field, Wire wire) {
  add_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

template <class T>
void add_raw(std::string& out, T value) {  // little endian, as every machine this is built for
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void add_bytes(std::string& out, int field, std::string_view bytes) {
  add_key(out, field, Wire::bytes);
  add_varint(out, bytes.size());
  out += bytes;
}

std::string new_event(int64_t step) {
  std::string event;
  add_key(event, kWallTime, Wire::fixed64);
  add_raw(
      event,
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  add_key(event, kStep, Wire::varint);
  add_varint(event, static_cast<uint64_t>(step));
  return event;
}

uint32_t masked_crc(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

// The greatest <seconds> of the event files in `dir`, or -1.
int64_t newest_in(const std::string& dir) {
  int64_t newest = -1;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    int64_t seconds = 0;
    if (name.rfind(kPrefix, 0) != 0) continue;
    const auto [end, failure] =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
    if (failure != std::errc() || *end != '.' || seconds > kLatestSeconds) continue;
    newest = std::max(newest, seconds);
  }
  return newest;
}

}  // namespace

EventWriter::EventWriter(const std::string& dir, int64_t purge_step) {
  make_folders(dir);
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  char host[256] = "localhost";
  if (gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "localhost");
  file_ = fmt::format("{}/{}{:010}.{}.{}", dir, kPrefix, std::max(now, newest_in(dir) + 1), host,
                      getpid());
  fd_ = open_append(file_);
  std::string version = new_event(0);
  add_bytes(version, kFileVersion, "brain.Event:2");
  add_record(version);
  if (purge_step >= 0) {
    std::string start = new_event(purge_step);
    std::string log;
    add_key(log, kLogStatus, Wire::varint);
    add_varint(log, kStatusStart);
    add_bytes(start, kSessionLog, log);
    add_record(start);
  }
  try {
    flush();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

EventWriter::~EventWriter() { ::close(fd_); }

void EventWriter::scalar(int64_t step, std::string_view tag, double value) {
  std::string entry;
  add_bytes(entry, kValueTag, tag);
  add_key(entry, kValueSimple, Wire::fixed32);
  add_raw(entry, static_cast<float>(value));
  std::string summary;
  add_bytes(summary, kSummaryValue, entry);
  std::string event = new_event(step);
  add_bytes(event, kSummary, summary);
  add_record(event);
  if (buffer_.size() > kBufferBytes) flush();
}

void EventWriter::add_record(std::string_view event) {
  std::string length;
  add_raw(length, static_cast<uint64_t>(event.size()));
  buffer_ += length;
  add_raw(buffer_, masked_crc(length));
  buffer_ += event;
  add_raw(buffer_, masked_crc(event));
}

void EventWriter::flush() {
  append(fd_, file_, buffer_);
  buffer_.clear();
}

}  // namespace bv

// The messages follow tensorflow/core/util/event.proto and core/framework/summary.proto; the
// framing follows tsl/lib/io/record_writer.h.
#include "lib/report/event_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/report/append.h"
#include "lib/report/event_files.h"
#include "lib/util/crc32c.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/protobuf.h"

namespace bv {
namespace {

using protobuf::put_bytes;
using protobuf::put_double;
using protobuf::put_float;
using protobuf::put_integer;

constexpr int64_t kLatestSeconds = 9'999'999'998;  // 10 digits, so that names sort like numbers

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kValueImage = 4, kLogStatus = 1;
// Of Summary.Image.
constexpr int kImageHeight = 1, kImageWidth = 2, kImageColours = 3, kImageEncoded = 4;
constexpr int64_t kStatusStart = 1;

template <class T>
void append_little_endian(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

std::string new_event(int64_t step) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_double(event, kWallTime, std::chrono::duration<double>(since_1970).count());
  put_integer(event, kStep, step);
  return event;
}

uint32_t masked_crc(std::string_view data) { return masked_crc32c(crc32c(data)); }

// Returns the largest <seconds> in the names of the event files in `dir`, or -1.
int64_t newest_in(const std::string& dir) {
  int64_t newest = -1;
  std::error_code error;
  using Entries = std::filesystem::directory_iterator;
  for (Entries entry(dir, error), none; !error && entry != none; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t seconds = 0;
    if (name.rfind(kEventFilePrefix, 0) != 0) continue;
    const auto [end, failure] =
        std::from_chars(name.data() + kEventFilePrefix.size(), name.data() + name.size(), seconds);
    if (failure != std::errc() || *end != '.' || seconds > kLatestSeconds) continue;
    newest = std::max(newest, seconds);
  }
  return newest;
}

// Creates `dir`. Returns the name for a new file in it.
std::string new_file(const std::string& dir) {
  make_folders(dir);
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  return fmt::format("{}/{}{:010}.{}.{}", dir, kEventFilePrefix, std::max(now, newest_in(dir) + 1),
                     host_name(), getpid());
}

}  // namespace

EventWriter::EventWriter(const std::string& dir, int64_t purge_step) : file_(new_file(dir)) {
  std::string version = new_event(0);
  put_bytes(version, kFileVersion, "brain.Event:2");
  add_record(version);
  if (purge_step >= 0) {
    std::string start = new_event(purge_step);
    std::string log;
    put_integer(log, kLogStatus, kStatusStart);
    put_bytes(start, kSessionLog, log);
    add_record(start);
  }
  flush();
}

void EventWriter::scalar(int64_t step, std::string_view tag, double value) {
  std::string entry;
  put_bytes(entry, kValueTag, tag);
  put_float(entry, kValueSimple, static_cast<float>(value));
  add_value(step, entry);
}

void EventWriter::image(int64_t step, std::string_view tag, const Picture& picture) {
  const std::string png = encode_png(picture);
  if (png.empty()) return;
  std::string image;
  put_integer(image, kImageHeight, picture.height);
  put_integer(image, kImageWidth, picture.width);
  put_integer(image, kImageColours, picture.channels);
  put_bytes(image, kImageEncoded, png);
  std::string entry;
  put_bytes(entry, kValueTag, tag);
  put_bytes(entry, kValueImage, image);
  add_value(step, entry);
}

void EventWriter::add_value(int64_t step, std::string_view entry) {
  std::string summary;
  put_bytes(summary, kSummaryValue, entry);
  std::string event = new_event(step);
  put_bytes(event, kSummary, summary);
  add_record(event);
}

void EventWriter::add_record(std::string_view event) {
  std::string length;
  append_little_endian(length, static_cast<uint64_t>(event.size()));
  append_little_endian(length, masked_crc(length));
  file_.add(length);
  file_.add(event);
  std::string crc;
  append_little_endian(crc, masked_crc(event));
  file_.add(crc);
}

void EventWriter::flush() { file_.flush(); }

}  // namespace bv

// Event files, read back by a separate reader that shares no code with the writer.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/report/event_files.h"
#include "lib/report/event_writer.h"
#include "lib/util/crc32c.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "test/support/folder.h"

namespace {

using bv::crc32c;
using bv::crc32c_by_table;
using bv::EventWriter;
using bv::test::TempFolder;

// CRC-32C bit by bit, from the definition.
uint32_t slow_crc(const std::string& data) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return crc ^ 0xFFFFFFFF;
}

template <class T>
T take(std::string& bytes) {
  REQUIRE(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.erase(0, sizeof(T));
  return value;
}

// One message: field number to the raw value (varints and fixed numbers as their bits).
struct Message {
  std::map<int, uint64_t> numbers;
  std::map<int, std::string> strings;
};

uint64_t take_varint(std::string& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

Message parse(std::string bytes) {
  Message message;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    const int field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        message.numbers[field] = take_varint(bytes);
        break;
      case 1:
        message.numbers[field] = take<uint64_t>(bytes);
        break;
      case 2: {
        const uint64_t size = take_varint(bytes);
        REQUIRE(size <= bytes.size());
        message.strings[field] = bytes.substr(0, size);
        bytes.erase(0, size);
        break;
      }
      case 5:
        message.numbers[field] = take<uint32_t>(bytes);
        break;
      default:
        FAIL("wire type " << (key & 7));
    }
  }
  return message;
}

void check_masked(uint32_t masked, const std::string& data) {
  const uint32_t rotated = masked - 0xA282EAD8U;
  CHECK((rotated >> 17 | rotated << 15) == slow_crc(data));
}

std::vector<Message> read_events(const std::string& file) {
  std::string bytes = bv::read_file(file);
  std::vector<Message> events;
  while (!bytes.empty()) {
    const std::string head = bytes.substr(0, 8);
    const auto size = take<uint64_t>(bytes);
    check_masked(take<uint32_t>(bytes), head);
    REQUIRE(size <= bytes.size());
    const std::string data = bytes.substr(0, size);
    bytes.erase(0, size);
    check_masked(take<uint32_t>(bytes), data);
    events.push_back(parse(data));
  }
  return events;
}

float simple_value(const Message& event, std::string* tag) {
  const Message value = parse(parse(event.strings.at(5)).strings.at(1));
  *tag = value.strings.at(1);
  const auto bits = static_cast<uint32_t>(value.numbers.at(2));
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}

}  // namespace

TEST_CASE("crc32c: known answer and the plain definition, by instruction and by table") {
  CHECK(crc32c("123456789") == 0xE3069283);  // RFC 3720 and every catalogue of CRCs
  CHECK(crc32c("") == 0);
  // RFC 3720, B.4: 32 bytes of zeros, 32 of ones.
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  std::string data;
  for (int i = 0; i < 70; ++i) {
    CHECK(crc32c(data) == slow_crc(data));
    CHECK(crc32c_by_table(data) == slow_crc(data));
    const std::string first = data.substr(0, data.size() / 3);
    CHECK(crc32c(data.substr(first.size()), crc32c(first)) == slow_crc(data));
    data += static_cast<char>(i * 37 + 11);
  }
}

TEST_CASE("an event file holds the version and every scalar") {
  const TempFolder scratch;
  std::string file;
  {
    EventWriter writer(scratch / "tb/deep", -1);
    file = writer.file();
    writer.scalar(0, "num_params", 12345);
    writer.scalar(300, "test/prec@1", 0.985);
    writer.scalar(int64_t{1} << 40, "nan", NAN);
    writer.flush();
  }
  CHECK(file.find("tb/deep/events.out.tfevents.") != std::string::npos);
  const std::vector<Message> events = read_events(file);
  REQUIRE(events.size() == 4);
  CHECK(events[0].strings.at(3) == "brain.Event:2");
  double wall = 0;
  std::memcpy(&wall, &events[0].numbers.at(1), 8);
  CHECK(wall > 1.7e9);
  std::string tag;
  CHECK(simple_value(events[1], &tag) == 12345.0F);
  CHECK(tag == "num_params");
  CHECK(events[1].numbers.at(2) == 0);
  CHECK(simple_value(events[2], &tag) == 0.985F);
  CHECK(tag == "test/prec@1");
  CHECK(events[2].numbers.at(2) == 300);
  CHECK(std::isnan(simple_value(events[3], &tag)));
  CHECK(events[3].numbers.at(2) == uint64_t{1} << 40);
}

TEST_CASE("an event file holds pictures as PNG files") {
  const TempFolder scratch;
  std::string file;
  {
    EventWriter writer(scratch / "tb", -1);
    file = writer.file();
    writer.image(7, "training_images", {2, 1, 3, {1, 2, 3, 4, 5, 6}});
    writer.image(8, "none", {});
    writer.flush();
  }
  const std::vector<Message> events = read_events(file);
  REQUIRE(events.size() == 2);
  CHECK(events[1].numbers.at(2) == 7);
  const Message value = parse(parse(events[1].strings.at(5)).strings.at(1));
  CHECK(value.strings.at(1) == "training_images");
  const Message image = parse(value.strings.at(4));
  CHECK(image.numbers.at(1) == 2);
  CHECK(image.numbers.at(2) == 1);
  CHECK(image.numbers.at(3) == 3);
  CHECK(image.strings.at(4).starts_with("\x89PNG"));
}

TEST_CASE("a resumed run tells TensorBoard what to forget, in a file that sorts last") {
  const TempFolder scratch;
  const EventWriter first(scratch / "tb", 0);
  const EventWriter second(scratch / "tb", 101);
  const EventWriter third(scratch / "tb", 7);
  CHECK(first.file() < second.file());
  CHECK(second.file() < third.file());
  const std::vector<Message> events = read_events(second.file());
  REQUIRE(events.size() == 2);
  CHECK(events[1].numbers.at(2) == 101);
  CHECK(parse(events[1].strings.at(7)).numbers.at(1) == 1);  // SessionLog.START
}

TEST_CASE("a restart drops the later points of earlier event files, and nothing else") {
  const TempFolder scratch;
  std::string first, second;
  {
    EventWriter writer(scratch / "tb", 0);
    first = writer.file();
    for (const int64_t step : {1, 2, 30, 4}) writer.scalar(step, "a", static_cast<double>(step));
    writer.flush();
    EventWriter next(scratch / "tb", 5);
    second = next.file();
    next.scalar(2, "b", 7);
    next.flush();
  }
  const std::string untouched = bv::read_file(second);
  bv::test::write(first, bv::read_file(first) + "torn");  // the process was killed
  bv::drop_events(scratch / "tb", 3);
  const std::vector<Message> events = read_events(first);
  REQUIRE(events.size() == 4);  // the version, SessionLog.START, steps 1 and 2
  CHECK(events[0].strings.at(3) == "brain.Event:2");
  for (const size_t i : {size_t{2}, size_t{3}}) {
    std::string tag;
    CHECK(simple_value(events[i], &tag) == static_cast<float>(i - 1));
    CHECK(events[i].numbers.at(2) == i - 1);
  }
  CHECK(bv::read_file(second) == untouched);
  // Without points to drop, even a torn file stays as it is.
  bv::test::write(first, bv::read_file(first) + "torn");
  const std::string torn = bv::read_file(first);
  bv::drop_events(scratch / "tb", 3);
  CHECK(bv::read_file(first) == torn);
  bv::drop_events(scratch / "none", 3);
  CHECK(!bv::test::exists(scratch / "none"));
}

TEST_CASE("event files that are damaged or foreign stay as they are") {
  const TempFolder scratch;
  std::string file;
  {
    EventWriter writer(scratch / "tb", -1);
    file = writer.file();
    for (const int64_t step : {1, 2, 3}) writer.scalar(step, "a", 1);
    writer.flush();
  }
  const std::string whole = bv::read_file(file);
  std::string damaged = whole, foreign = whole;
  char& byte = damaged[whole.size() / 2];
  byte = static_cast<char>(byte ^ 1);
  // As TensorFlow writes the first event: without its step.
  const std::string event = whole.substr(12, 9) + whole.substr(23, 15);
  const auto framed = [](const std::string& text) {
    const auto number = [](auto value) {
      std::string bytes(sizeof(value), '\0');
      std::memcpy(bytes.data(), &value, sizeof(value));
      return bytes;
    };
    const std::string length = number(uint64_t{text.size()});
    return length + number(bv::masked_crc32c(slow_crc(length))) + text +
           number(bv::masked_crc32c(slow_crc(text)));
  };
  foreign = framed(event) + whole.substr(12 + 26 + 4);
  for (const std::string& content : {damaged, foreign}) {
    bv::test::write(file, content);
    bv::drop_events(scratch / "tb", 2);
    CHECK(bv::read_file(file) == content);
  }
  const std::string other = file + ".0.v2";  // as TensorFlow names its files
  bv::test::write(other, whole);
  bv::test::write(file, whole);
  bv::drop_events(scratch / "tb", 2);
  CHECK(read_events(file).size() == 2);
  CHECK(bv::read_file(other) == whole);
}

TEST_CASE("event files that cannot be written are storage errors") {
  const TempFolder scratch;
  bv::write_file_atomically(scratch / "file", "x");
  CHECK_THROWS_MATCHES(EventWriter(scratch / "file", 0), bv::Error,
                       Catch::Matchers::Predicate<bv::Error>([](const bv::Error& error) {
                         return error.code() == bv::Exit::storage;
                       }));
  EventWriter writer(scratch / "tb", 0);
  writer.scalar(1, "a", 1);
  std::filesystem::remove_all(scratch / "tb");
  CHECK_THROWS_WITH(writer.flush(),
                    writer.file() + ": error: cannot write: the file was removed during the run");
}

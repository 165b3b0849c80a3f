// TensorBoard event files: TFRecord framing (length, masked CRC32C, data, masked CRC32C) around
// hand-encoded `tensorflow.Event` protobufs. Written by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bv {

class EventWriter {
 public:
  // Creates `dir` and `dir`/events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads the files
  // of a folder in the order of their names, so <seconds> is made greater than that of every file
  // there. With purge_step >= 0 the second event tells TensorBoard to forget what earlier files
  // have at steps >= purge_step. Throws Error(Exit::storage).
  EventWriter(const std::string& dir, int64_t purge_step);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalar(int64_t step, std::string_view tag, double value);  // stored as float32
  void flush();  // write(2) of what is buffered; throws Error(Exit::storage)
  const std::string& file() const { return file_; }

 private:
  void add_record(std::string_view event);
  std::string file_;
  std::string buffer_;
  int fd_ = -1;
};

// CRC-32C (Castagnoli) of `data`, going on from `crc`; by the SSE4.2 instruction where there is
// one.
uint32_t crc32c(std::string_view data, uint32_t crc = 0);
uint32_t crc32c_by_table(std::string_view data, uint32_t crc = 0);  // the same, portably

}  // namespace bv

// Writes TensorBoard event files: TFRecord framing (length, masked CRC-32C of the length, data,
// masked CRC-32C of the data) around `tensorflow.Event` protobufs. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/report/append.h"
#include "lib/report/picture.h"

namespace bv {

class EventWriter {
 public:
  // Creates `dir` and in it the file events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads
  // the files of a folder in the order of their names, so <seconds> is the current time, but
  // greater than that of every file there. With purge_step >= 0 the file tells TensorBoard to
  // forget what earlier files hold at steps >= purge_step: a TensorBoard that is open may have read
  // points that drop_events() has removed since. Throws Error(Exit::storage).
  EventWriter(const std::string& dir, int64_t purge_step);

  // Adds a value, which is stored as float32, to a buffer.
  void scalar(int64_t step, std::string_view tag, double value);
  // Adds a picture.
  void image(int64_t step, std::string_view tag, const Picture& picture);
  void flush();  // as AppendFile::flush()
  const std::string& file() const { return file_.name(); }

 private:
  void add_value(int64_t step, std::string_view value);
  void add_record(std::string_view event);
  AppendFile file_;
};

}  // namespace bv

// What this process did when, for a few steps: spans of time, as a Chrome trace (ui.perfetto.dev
// opens it). One a process, like the log. Off by default: a span then costs one read of a flag.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bv::trace {

struct Event {
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds since 1970 by a clock that never jumps
  int thread = 0;              // the kernel's number
  // Ends on another thread, or overlaps others of its own: shown in a row of its own.
  bool apart = false;
};

struct Record {
  std::vector<Event> events;                         // in the order of their ends
  std::vector<std::pair<int, std::string>> threads;  // their names
};

void start();   // what has begun before is left out
Record stop();  // what has not ended yet is left out
bool on();
int64_t now();
// Something that began at `begin` (now(), while on()) ends now. At most a million events are kept.
void add(std::string name, int64_t begin, bool apart = false);

// From here to the end of the scope, or to end(). The name is put together only while on().
class [[nodiscard]] Span {
 public:
  explicit Span(std::string_view name, std::string_view more = {});
  Span(std::string_view name, int64_t number);
  ~Span() { end(); }
  Span(const Span&) = delete;
  void end();

 private:
  std::string name_;
  int64_t begin_ = 0;  // 0: not recorded
};

// A Chrome trace's JSON. `rank` is its process number, so that several files can be put together.
std::string chrome_json(const Record& record, int rank);

// The part of the time in which events apart were under way whose names begin with `of`, that lies
// within an event named as one of `during` and within none whose name begins with `but`. Nothing
// where there is no such time.
std::optional<double> overlap(const std::vector<Event>& events, std::string_view of,
                              const std::vector<std::string_view>& during, std::string_view but);

}  // namespace bv::trace

// A recorder of what this process does and when, for a few steps of a run. Its file is a Chrome
// trace, which ui.perfetto.dev opens.
//
// There is one recorder per process. While it is off, a span only reads a flag. All functions are
// thread-safe.
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
  int64_t begin = 0, end = 0;  // as from now()
  int thread = 0;              // the kernel's thread id
  // An asynchronous event may end on another thread or overlap other events of its thread, so it is
  // shown in a separate row. Collectives are such events.
  bool async = false;
};

struct Record {
  std::vector<Event> events;                         // in the order in which they ended
  std::vector<std::pair<int, std::string>> threads;  // thread id and name
};

void start();   // events that began before this are not recorded
Record stop();  // events that have not ended by now are not recorded
bool on();
// Nanoseconds since 1970, by a monotonic clock.
int64_t now();
// Records an event that began at `begin`, a value of now(), and ends now. Records at most a million
// events.
void add(std::string name, int64_t begin, bool async = false);

// An event that lasts until the end of the scope or until end(). The name is the two arguments
// joined, which happens only while the recorder is on.
class [[nodiscard]] Span {
 public:
  explicit Span(std::string_view name, std::string_view more = {});
  Span(std::string_view name, int64_t number);
  ~Span() { end(); }
  Span(const Span&) = delete;
  void end();

 private:
  std::string name_;
  int64_t begin_ = 0;  // 0 if the span is not recorded
};

// Returns the JSON of a Chrome trace. `rank` becomes the process id, so that the files of several
// ranks can be joined.
std::string chrome_json(const Record& record, int rank);

// Returns how much of the communication was hidden behind computation, as a fraction. Communication
// is the time in which asynchronous events ran whose names begin with `communication`. It is hidden
// during events with one of the names `computation`, except during events whose names begin with
// `waiting`. Returns nothing if there was no communication.
std::optional<double> overlap(const std::vector<Event>& events, std::string_view communication,
                              const std::vector<std::string_view>& computation,
                              std::string_view waiting);

}  // namespace bv::trace

#include "lib/report/trace.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "lib/util/text.h"

namespace bv::trace {
namespace {

constexpr size_t kMostEvents = 1'000'000;

struct Recorder {
  std::atomic<bool> on{false};
  std::mutex mutex;  // guards begun and record
  int64_t begun = 0;
  Record record;
};

// Never destroyed, since threads may end spans until the process ends.
Recorder& recorder() {
  static auto* one = new Recorder;
  return *one;
}

template <class Clock>
int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// Disjoint and ascending, each [begin, end).
using Intervals = std::vector<std::pair<int64_t, int64_t>>;

Intervals merged(Intervals all) {
  std::sort(all.begin(), all.end());
  Intervals disjoint;
  for (const auto& [begin, end] : all) {
    if (!disjoint.empty() && begin <= disjoint.back().second)
      disjoint.back().second = std::max(disjoint.back().second, end);
    else
      disjoint.emplace_back(begin, end);
  }
  return disjoint;
}

int64_t length(const Intervals& all) {
  int64_t sum = 0;
  for (const auto& [begin, end] : all) sum += end - begin;
  return sum;
}

Intervals common(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].first, b[j].first);
    const int64_t end = std::min(a[i].second, b[j].second);
    if (begin < end) both.emplace_back(begin, end);
    ++(a[i].second < b[j].second ? i : j);
  }
  return both;
}

}  // namespace

bool on() { return recorder().on.load(std::memory_order_relaxed); }

int64_t now() {
  using std::chrono::steady_clock;
  using std::chrono::system_clock;
  // Read only once: the system clock may be set later, while the steady clock never jumps.
  static const int64_t epoch = nanoseconds<system_clock>() - nanoseconds<steady_clock>();
  return epoch + nanoseconds<steady_clock>();
}

void start() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.record = {};
  all.begun = now();
  all.on = true;
}

Record stop() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.on = false;
  return std::exchange(all.record, {});
}

void add(std::string name, int64_t begin, bool async) {
  const int64_t end = now();
  const int thread = ::gettid();
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  if (!all.on || begin < all.begun || all.record.events.size() >= kMostEvents) return;
  all.record.events.push_back({std::move(name), begin, end, thread, async});
  auto& threads = all.record.threads;
  const bool known = std::any_of(threads.begin(), threads.end(),
                                 [&](const auto& each) { return each.first == thread; });
  if (known) return;
  char title[16] = "main";  // the main thread itself is named after the program
  if (thread != ::getpid()) ::pthread_getname_np(::pthread_self(), title, sizeof(title));
  threads.emplace_back(thread, title);
}

Span::Span(std::string_view name, std::string_view more) {
  if (!on()) return;
  name_.append(name).append(more);
  begin_ = now();
}

Span::Span(std::string_view name, int64_t number) {
  if (!on()) return;
  name_ = fmt::format("{}{}", name, number);
  begin_ = now();
}

void Span::end() {
  if (const int64_t begin = std::exchange(begin_, 0)) add(std::move(name_), begin);
}

std::string chrome_json(const Record& record, int rank) {
  std::string text = fmt::format(
      "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
      "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, \"tid\": 0, \"args\": "
      "{{\"name\": \"rank {0}\"}}}}",
      rank);
  for (const auto& [thread, title] : record.threads)
    text += fmt::format(
        ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": "
        "{{\"name\": {}}}}}",
        rank, thread, json_string(title));
  int64_t number = 0;
  for (const Event& event : record.events) {
    const std::string name = json_string(event.name);
    // Times are in microseconds.
    const auto put = [&](char phase, int64_t time, const std::string& more) {
      text += fmt::format(
          ",\n{{\"ph\": \"{}\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, "
          "\"ts\": {}.{:03}, {}}}",
          phase, name, event.async ? "collective" : "span", rank, event.thread, time / 1000,
          time % 1000, more);
    };
    if (event.async) {
      // A "local" id belongs to this process alone, even if the files of several ranks are merged.
      const std::string id = fmt::format("\"id2\": {{\"local\": \"{:#x}\"}}", ++number);
      put('b', event.begin, id);
      put('e', event.end, id);
    } else {
      const int64_t duration = event.end - event.begin;
      put('X', event.begin, fmt::format("\"dur\": {}.{:03}", duration / 1000, duration % 1000));
    }
  }
  return text + "\n]}\n";
}

std::optional<double> overlap(const std::vector<Event>& events, std::string_view communication,
                              const std::vector<std::string_view>& computation,
                              std::string_view waiting) {
  Intervals sent, computed, waited;
  for (const Event& event : events) {
    const std::pair<int64_t, int64_t> span(event.begin, event.end);
    if (event.async && event.name.starts_with(communication)) sent.push_back(span);
    if (event.async) continue;
    if (std::find(computation.begin(), computation.end(), event.name) != computation.end())
      computed.push_back(span);
    if (!waiting.empty() && event.name.starts_with(waiting)) waited.push_back(span);
  }
  sent = merged(std::move(sent));
  if (length(sent) == 0) return std::nullopt;
  const Intervals both = common(sent, merged(std::move(computed)));
  const int64_t hidden = length(both) - length(common(both, merged(std::move(waited))));
  return static_cast<double>(hidden) / static_cast<double>(length(sent));
}

}  // namespace bv::trace

#include "test/emulated_cuda/recording.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "test/emulated_cuda/memory.h"

namespace bv::emulation {

struct Graph {
  c10::StreamId stream = 0;
  std::vector<std::function<void()>> work = {};
  std::vector<void*> freed = {};  // memory that only the captured work uses
  DeviceMemory::Contents before = {};
};

namespace {

struct State {
  std::recursive_mutex mutex;
  Graph* graph = nullptr;  // that is being captured
  // The captured streams, and how much of their work another stream has waited for.
  Point joined_until;
  std::map<c10::StreamId, Point> before;  // what lies before the next work of each stream
  struct Later {
    c10::StreamId stream;
    uint64_t started;
    std::function<void()> then;
  };
  std::vector<Later> later;
  c10::StreamId last = 0;
  bool broken = false;
};

State& state() {
  static auto* const all = new State;
  return *all;
}

thread_local c10::StreamId stream_of_thread = 0;

bool is_recorded(c10::StreamId stream) {
  return state().graph && state().joined_until.contains(stream);
}

}  // namespace

c10::StreamId current_stream() { return stream_of_thread; }

c10::StreamId exchange_stream(c10::StreamId stream) {
  return std::exchange(stream_of_thread, stream);
}

c10::StreamId new_stream() {
  const std::lock_guard lock(state().mutex);
  return ++state().last;
}

void break_device() {
  const std::lock_guard lock(state().mutex);
  state().broken = true;
}

void check_device() {
  const std::lock_guard lock(state().mutex);
  if (state().broken)
    throw std::runtime_error("CUDA error: an illegal memory access was encountered");
}

void submit(const std::function<void()>& work) {
  const std::lock_guard lock(state().mutex);
  check_device();
  work();
  ++state().before[stream_of_thread][stream_of_thread];
  if (is_recorded(stream_of_thread)) state().graph->work.push_back(work);
}

void forbid_in_recording(const char* what) {
  const std::lock_guard lock(state().mutex);
  if (is_recorded(stream_of_thread))
    throw std::runtime_error(std::string("CUDA error: operation not permitted when stream is "
                                         "capturing: ") +
                             what);
}

void record(Event& event, c10::StreamId stream) {
  const std::lock_guard lock(state().mutex);
  event = {stream, state().before[stream]};
}

void block(const Event& event, c10::StreamId stream) {
  const std::lock_guard lock(state().mutex);
  for (const auto& [other, started] : event.before) {
    uint64_t& known = state().before[stream][other];
    known = std::max(known, started);
  }
  if (!is_recorded(event.stream)) return;
  const auto own = event.before.find(event.stream);
  if (own != event.before.end()) state().joined_until[event.stream] = own->second;
  if (!is_recorded(stream)) state().joined_until[stream] = state().before[stream][stream];
}

void when_reached(const std::function<void()>& then) {
  const std::lock_guard lock(state().mutex);
  const c10::StreamId stream = stream_of_thread;
  state().later.push_back({stream, state().before[stream][stream], then});
}

void synchronize(const Event& event) {
  const std::lock_guard lock(state().mutex);
  std::vector<State::Later> reached, rest;
  for (State::Later& one : state().later) {
    const auto found = event.before.find(one.stream);
    const bool is = found != event.before.end() && one.started <= found->second;
    (is ? reached : rest).push_back(std::move(one));
  }
  state().later = std::move(rest);
  for (const State::Later& one : reached) one.then();
}

void synchronize(c10::StreamId stream) {
  Event event;
  record(event, stream);
  synchronize(event);
}

void synchronize() {
  const std::lock_guard lock(state().mutex);
  Event all;
  for (const auto& [stream, before] : state().before)
    for (const auto& [other, started] : before)
      all.before[other] = std::max(all.before[other], started);
  synchronize(all);
}

Graph* begin_recording() {
  const std::lock_guard lock(state().mutex);
  if (state().graph) throw std::runtime_error("two graphs at a time");
  if (stream_of_thread == 0) throw std::runtime_error("the default stream cannot be recorded");
  auto* const graph = new Graph{.stream = stream_of_thread};
  graph->before = DeviceMemory::get().contents();
  DeviceMemory::get().hold_freed();
  state().graph = graph;
  state().joined_until = {{stream_of_thread, 0}};
  return graph;
}

void end_recording(Graph* graph) {
  const std::lock_guard lock(state().mutex);
  graph->freed = DeviceMemory::get().held();
  DeviceMemory::get().restore(graph->before);
  graph->before.clear();
  state().graph = nullptr;
  for (const auto& [stream, until] : state().joined_until)
    if (stream != graph->stream && until != state().before[stream][stream])
      throw std::runtime_error("CUDA error: capture was not joined to the original stream");
}

void replay(Graph* graph) {
  const std::lock_guard lock(state().mutex);
  for (const auto& work : graph->work) work();
}

void destroy(Graph* graph) {
  DeviceMemory::get().give_back(graph->freed);
  delete graph;
}

}  // namespace bv::emulation

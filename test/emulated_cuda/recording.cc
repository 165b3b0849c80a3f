#include "test/emulated_cuda/recording.h"

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/emulated_cuda/memory.h"

namespace bv::emulation {

struct Graph {
  c10::StreamId stream = 0;
  std::vector<std::function<void()>> work;
  std::vector<void*> freed;  // memory that only the recorded work uses
  DeviceMemory::Contents before;
};

namespace {

struct State {
  std::recursive_mutex mutex;
  Graph* graph = nullptr;  // that is being recorded
  // The streams that are recorded, and how much of their work has not been waited for by another.
  std::map<c10::StreamId, uint64_t> joined_until;
  std::map<c10::StreamId, uint64_t> started;
  c10::StreamId last = 0;
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

void submit(const std::function<void()>& work) {
  const std::lock_guard lock(state().mutex);
  work();
  ++state().started[stream_of_thread];
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
  event = {stream, state().started[stream]};
}

void block(const Event& event, c10::StreamId stream) {
  const std::lock_guard lock(state().mutex);
  if (!is_recorded(event.stream)) return;
  state().joined_until[event.stream] = event.started;
  if (!is_recorded(stream)) state().joined_until[stream] = state().started[stream];
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
    if (stream != graph->stream && until != state().started[stream])
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

// Streams, events and graphs of the emulated GPU. Work runs immediately, in the order in which the
// host submits it. Its effects on the host, such as a copy to the host, are delayed until the host
// has waited for them: when_reached().
//
// While a graph is captured, work that is submitted to its stream, or to one that has waited for
// it, is stored with its arguments. Afterwards the device memory is restored, as if nothing had
// been computed.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <map>

namespace bv::emulation {

// The amount of work of each stream before a point.
using Point = std::map<c10::StreamId, uint64_t>;

struct Event {
  c10::StreamId stream = 0;
  Point before;
};

struct Graph;  // what lib/device/device_graph.cc calls a CUDAGraph

c10::StreamId current_stream();  // of this thread
c10::StreamId exchange_stream(c10::StreamId stream);
c10::StreamId new_stream();

// Runs work on the current stream. It must use device memory only through DeviceMemory::host() or
// within an Access.
void submit(const std::function<void()>& work);
// For work that makes the host wait. Throws what CUDA throws while a graph is captured.
void forbid_in_recording(const char* what);

// After break_device(), submit() and check_device() throw what CUDA throws after a kernel has
// accessed memory that it must not access.
void break_device();
void check_device();

void record(Event& event, c10::StreamId stream);
void block(const Event& event, c10::StreamId stream);

// Calls `then` when the host has waited for what the current stream has started so far.
void when_reached(const std::function<void()>& then);
// The host waits for an event, a stream, or everything.
void synchronize(const Event& event);
void synchronize(c10::StreamId stream);
void synchronize();

Graph* begin_recording();
void end_recording(Graph* graph);  // throws std::runtime_error if work was not joined
void replay(Graph* graph);
void destroy(Graph* graph);

}  // namespace bv::emulation

// Records which kernels and copies a GPU runs, and when. Launches are asynchronous, so the spans of
// lib/report/trace.h show only when the host has launched a kernel.
#pragma once

#include <c10/core/Device.h>

#include "lib/report/trace.h"

namespace bv {

// Records the kernels and copies of all devices of this type, with LibTorch's Kineto. Only one
// recorder may exist at a time. On CPUs it records operators instead.
void start_kernel_record(c10::DeviceType type);
// Waits for `device`, stops the recorder and adds its events to `record`, each stream as a separate
// thread. Returns the time in which at least one of them ran, in nanoseconds.
int64_t stop_kernel_record(c10::Device device, trace::Record& record);

}  // namespace bv

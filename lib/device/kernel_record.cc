#include "lib/device/kernel_record.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace bv {
namespace {

namespace kineto = torch::autograd::profiler;

// Threads of the system have positive numbers.
int thread_of_stream(int64_t stream) { return -1 - static_cast<int>(stream); }

// Returns the length of the union of the intervals.
int64_t covered(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  int64_t sum = 0, until = 0;
  for (const auto& [begin, end] : intervals) {
    sum += std::max<int64_t>(end - std::max(begin, until), 0);
    until = std::max(until, end);
  }
  return sum;
}

}  // namespace

void start_kernel_record(c10::DeviceType type) {
  using namespace torch::profiler::impl;
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> what = {type == c10::kCPU ? ActivityType::CPU : ActivityType::CUDA};
  kineto::prepareProfiler(config, what);
  kineto::enableProfiler(config, what);
}

int64_t stop_kernel_record(c10::Device device, trace::Record& record) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  const auto result = kineto::disableProfiler();
  std::vector<std::pair<int64_t, int64_t>> intervals;
  std::map<int, std::string> streams;
  for (const kineto::KinetoEvent& event : result->events()) {
    if (event.deviceType() != device.type()) continue;
    const int64_t stream = event.deviceResourceId(), begin = static_cast<int64_t>(event.startNs());
    const int64_t end = begin + static_cast<int64_t>(event.durationNs());
    record.events.push_back({event.name(), begin, end, thread_of_stream(stream)});
    intervals.emplace_back(begin, end);
    streams[thread_of_stream(stream)] = fmt::format("{} stream {}", device.str(), stream);
  }
  record.threads.insert(record.threads.end(), streams.begin(), streams.end());
  return covered(std::move(intervals));
}

}  // namespace bv

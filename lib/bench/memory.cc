#include "lib/bench/memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include "lib/device/large_blocks.h"
#include "lib/device/out_of_memory.h"
#include "lib/input/cache/cache_memory.h"
#include "lib/report/chrono.h"
#include "lib/util/error.h"

namespace bv {
namespace {

constexpr int kSteps = 2;            // the first one allocates what later ones reuse
constexpr double kClear = 64 << 20;  // bytes by which the last two batches should differ
constexpr double kSlowStep = 10;     // seconds: after such a step, no larger batch is tried
constexpr double kSafe = 0.97;       // fraction of the memory that a batch may fill
constexpr int kAttempts = 6;         // to run the largest batch

// Measures the memory that this process uses on a device.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device) : device_(device) {}

  // Resets peak().
  void restart() const {
    if (device_.is_cpu()) {
      release_large_tensors();
      std::ofstream("/proc/self/clear_refs") << "5";
    } else {
      c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
    }
  }
  double peak() const {
    if (device_.is_cpu()) return status("VmHWM:");
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
    const auto stats = c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
    return static_cast<double>(stats.allocated_bytes[0].peak);  // [0]: of all pools
  }
  // Total memory that this process can use, including what it already holds.
  double available() const {
    if (device_.is_cpu()) return available_memory().value_or(0) + status("VmRSS:");
    auto* const allocator = c10::getDeviceAllocator(device_.type());
    const auto stats = allocator->getDeviceStats(device_.index());
    return static_cast<double>(allocator->getMemoryInfo(device_.index()).first) +
           static_cast<double>(stats.reserved_bytes[0].current);
  }

 private:
  // Returns a line of /proc/self/status, in bytes.
  static double status(const std::string& name) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(name)) continue;
      double kib = 0;
      std::istringstream(line.substr(name.size())) >> kib;
      return 1024 * kib;
    }
    return 0;
  }

  const c10::Device device_;
};

void train(Recipe& recipe) {
  recipe.model->fix_largest_step();
  Loader loader(recipe.data, recipe.loader);
  for (int64_t step = 1; step <= kSteps || recipe.step->graph_is_due(); ++step)
    recipe.step->run(step, loader.next(), /*measure=*/true);
}

bool is_no_memory(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  return is_out_of_memory(error) || (own != nullptr && own->code() == Exit::memory);
}

}  // namespace

MemoryNeeds measure_memory(const std::function<std::unique_ptr<Recipe>(int64_t)>& recipe_of,
                           c10::Device device, int64_t granule, int64_t most) {
  const MemoryMeter meter(device);
  MemoryNeeds needs;
  // Returns the peak memory of a batch; nullopt if it does not fit.
  const auto run = [&](int64_t batch) -> std::optional<double> {
    meter.restart();
    try {
      const std::unique_ptr<Recipe> recipe = recipe_of(batch);
      train(*recipe);
      needs.state = recipe->step->memory();
      if (device.is_cpu()) needs.checkpoints = 2.0 * recipe->step->state_bytes();
    } catch (const std::exception& error) {
      if (!is_no_memory(error)) throw;
      return std::nullopt;
    }
    needs.peaks.emplace_back(batch, meter.peak());
    return needs.peaks.back().second;
  };
  for (int64_t batch = granule; batch <= most; batch *= 2) {
    const double begun = monotonic_seconds(),
                 before = needs.peaks.empty() ? 0 : needs.peaks.back().second;
    const std::optional<double> peak = run(batch);
    needs.available = meter.available();
    if (!peak) break;
    const bool clear = before > 0 && *peak - before > kClear;
    const bool large = *peak > needs.available / 4;
    if (needs.peaks.size() > 1 && (clear || large || monotonic_seconds() - begun > kSlowStep))
      break;
  }
  if (needs.peaks.size() < 2) {
    needs.largest = needs.peaks.empty() ? 0 : needs.peaks.back().first;
    needs.tried = true;
    return needs;
  }
  const auto [small, least] = needs.peaks[needs.peaks.size() - 2];
  const auto [large, full] = needs.peaks.back();
  needs.example = std::max((full - least) / static_cast<double>(large - small), 1.0);
  const auto fixed =
      static_cast<double>(needs.state.parameters + needs.state.gradients + needs.state.state);
  needs.other = std::max(full - needs.example * static_cast<double>(large) - fixed, 0.0);
  const double room = kSafe * needs.available - fixed - needs.checkpoints - needs.other;
  const auto multiple = [&](double batch) {
    return std::max<int64_t>(static_cast<int64_t>(batch) / granule, 0) * granule;
  };
  needs.largest = std::min(multiple(room / needs.example), multiple(static_cast<double>(most)));
  for (int i = 0; !device.is_cpu() && i < kAttempts && needs.largest > 0; ++i) {
    needs.tried = run(needs.largest).has_value();
    if (needs.tried) break;
    needs.largest = multiple(0.95 * static_cast<double>(needs.largest));
  }
  return needs;
}

}  // namespace bv

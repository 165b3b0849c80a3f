#include "lib/device/devices.h"

#include <algorithm>
#include <optional>

#include "lib/device/cuda.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int kMostProcesses = 1024;  // on one host

bool all_indices(std::string_view text) {
  const std::vector<std::string> items = split(text, ',');
  return std::all_of(items.begin(), items.end(),
                     [](const std::string& item) { return parse_count<int>(item).has_value(); });
}

// Returns what the user may have meant by a number of devices, a list of indices or `gpu`, which
// other programs accept; "" for any other string.
std::string meant_by(std::string_view text) {
  constexpr std::string_view kGpu = "gpu";
  if (text == kGpu) return "cuda";
  if (text.starts_with("gpu:")) {
    const std::string_view rest = text.substr(kGpu.size() + 1);
    return rest == "all" || all_indices(rest) ? fmt::format("cuda:{}", rest) : "cuda";
  }
  if (const auto count = parse_count<int>(text); count && *count >= 1 && *count <= kMostProcesses) {
    if (*count == 1) return "cpu or cuda:0";
    return fmt::format("cpu:{} or {}", *count, *count == 2 ? "cuda:0,1" : "cuda:all");
  }
  const bool indices =
      text == "0" || (text.find(',') != std::string_view::npos && all_indices(text));
  return indices ? fmt::format("cuda:{}", text) : "";
}

}  // namespace

Devices parse_devices(std::string_view text) {
  const std::string where = fmt::format("--devices {}", text);
  const auto fail = [&](std::string_view why) { throw Error(Exit::usage, where, why); };
  Devices devices;
  devices.text = std::string(text);
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const bool more = colon != std::string_view::npos;
  const std::string_view rest = more ? text.substr(colon + 1) : std::string_view();
  if (text == "auto") return devices;
  if (kind == "cpu") {
    devices.kind = Devices::Kind::cpu;
    if (!more) return devices;
    const auto count = parse_count<int>(rest);
    if (!count || *count < 1 || *count > kMostProcesses)
      fail(fmt::format("expected cpu:N with N from 1 to {}", kMostProcesses));
    devices.count = *count;
  } else if (kind == "cuda") {
    devices.kind = Devices::Kind::cuda;
    devices.all = rest == "all";
    if (!more || devices.all) return devices;
    for (const std::string& item : split(rest, ',')) {
      const auto index = parse_count<int>(item);
      if (!index || *index >= kMostProcesses) fail("expected cuda:all or indices such as cuda:0,1");
      if (std::find(devices.indices.begin(), devices.indices.end(), *index) !=
          devices.indices.end())
        fail(fmt::format("device {} is given twice", *index));
      devices.indices.push_back(*index);
    }
    devices.count = static_cast<int>(devices.indices.size());
  } else {
    const std::string meant = meant_by(text);
    fail(fmt::format("expected auto, cpu, cpu:N, cuda, cuda:0,1 or cuda:all{}",
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
  }
  return devices;
}

namespace {

std::string option(const Devices& devices) { return "--devices " + devices.text; }

void check_index(const Devices& devices, int index, int count) {
  if (index < count) return;
  throw Error(Exit::usage, option(devices),
              fmt::format("there is no device {}: this process sees {}", index,
                          counted(count, "CUDA device")));
}

}  // namespace

Devices resolve_devices(Devices devices) {
  const std::string where = option(devices);
  if (devices.kind == Devices::Kind::automatic) {
    devices.kind = Devices::Kind::cpu;
    if (!has_cuda_driver()) return devices;
    try {
      open_cuda(where);
      devices.count = devices.visible = count_cuda(where);
      devices.kind = Devices::Kind::cuda;
      devices.all = true;
    } catch (const Error& error) {
      log::warn("{}; computing on CPUs", error.what());
    }
    return devices;
  }
  if (devices.kind != Devices::Kind::cuda) return devices;
  open_cuda(where);
  devices.visible = count_cuda(where);
  if (devices.all) devices.count = devices.visible;
  for (const int index : devices.indices) check_index(devices, index, devices.visible);
  return devices;
}

int device_index(const Devices& devices, const HostPlace& place, int visible) {
  const bool renumbered = visible < place.devices;
  int index = renumbered ? place.local_rank : place.slot;
  if (!devices.indices.empty()) {
    if (renumbered)
      throw Error(Exit::usage, option(devices),
                  fmt::format("this process sees {}, and the first start saw {}: the "
                              "numbers may now mean other devices; start the run again with the "
                              "right ones",
                              counted(visible, "CUDA device"), place.devices));
    if (place.slot >= std::ssize(devices.indices))
      throw Error(Exit::usage, option(devices),
                  fmt::format("names {} devices, but this is process {} of the host",
                              devices.indices.size(), place.slot));
    index = devices.indices[static_cast<size_t>(place.slot)];
  } else if (visible == 1) {
    index = 0;
  }
  check_index(devices, index, visible);
  return index;
}

c10::Device own_device(const Devices& devices, const HostPlace& place) {
  if (devices.kind != Devices::Kind::cuda) return c10::kCPU;
  const int index = device_index(devices, place, count_cuda(option(devices)));
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

c10::Device use_one_device(std::string_view text, std::string_view command) {
  const Devices given = parse_devices(text);
  if (given.count > 1 || given.all)
    throw Error(Exit::usage, option(given), fmt::format("{} runs in one process", command));
  const c10::Device device = own_device(resolve_devices(given), {});
  if (!device.is_cpu()) use_cuda(device.index());
  return device;
}

}  // namespace bv

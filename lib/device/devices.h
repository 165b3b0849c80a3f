// The flag --devices: auto | cpu | cpu:8 | cuda | cuda:0,1 | cuda:all.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct Devices {
  enum class Kind { automatic, cpu, cuda } kind = Kind::automatic;
  int count = 1;             // processes on this host: 8 for cpu:8, 2 for cuda:0,1
  bool all = false;          // cuda:all; resolve_devices() sets `count`
  std::vector<int> indices;  // of cuda:0,1; empty for cuda (each rank's own device) and cuda:all
  int visible = 0;           // CUDA devices that this process sees; set by resolve_devices()
  std::string text;          // as given by the user
};

// Throws Error(Exit::usage) "--devices cpu:x: error: ...".
Devices parse_devices(std::string_view text);

// Returns `devices` adapted to this host. `auto` becomes all CUDA devices, or the CPU if there are
// none; in that case it logs a warning if the host has a driver. `cuda:all` is counted, and indices
// are checked. Opens the CUDA plug-in if it is needed. Throws Error(Exit::usage) "--devices cuda:
// error: ...".
Devices resolve_devices(Devices devices);

// The place of a process on its host. After an elastic restart fewer processes run than before, and
// those that are left keep their devices.
struct HostPlace {
  int local_rank = 0;  // among the processes that run now
  int slot = 0;        // among the processes of the first start
  int devices = 0;     // CUDA devices that the host had at the first start; 0: not known
};

// Returns which CUDA device the process uses, if it sees `visible` of them. With `--devices
// cuda:4,5`, slot 1 uses device 5. Otherwise a slot uses the device of its own number, or device 0
// if only one is visible (slurm's --gpus-per-task). If fewer devices are visible than at the first
// start, one has disappeared and the driver has renumbered the rest: the local rank is then the
// number. Throws Error(Exit::usage), also if indices are given and devices have disappeared: an
// index may then mean a device that the user did not choose.
int device_index(const Devices& devices, const HostPlace& place, int visible);

// Returns the device of a process, from resolved `devices`. Throws Error(Exit::usage).
c10::Device own_device(const Devices& devices, const HostPlace& place);

// Returns the device of a command that runs in one process, and makes it the current one. `text` is
// the value of --devices; with several CUDA devices, `auto` and `cuda` mean the first. Throws
// Error(Exit::usage), also if `text` names several processes: "<command> runs in one process".
c10::Device use_one_device(std::string_view text, std::string_view command);

}  // namespace bv

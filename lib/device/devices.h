// What --devices asks for: auto | cpu | cpu:8 | cuda | cuda:0,1 | cuda:all.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct Devices {
  enum class Kind { automatic, cpu, cuda } kind = Kind::automatic;
  int count = 1;     // processes on this host: 8 for cpu:8, the indices' number for cuda:0,1
  bool all = false;  // cuda:all: resolve_devices() sets `count`
  std::vector<int> indices;  // cuda:0,1; empty for cuda (the rank's own) and cuda:all
  std::string text;          // as given
};

// Throws Error(Exit::usage) "--devices cpu:x: error: ...".
Devices parse_devices(std::string_view text);

// What they come to on this host: `auto` is all CUDA devices, or the CPU where there are none (with
// a warning where there is a driver all the same); `cuda:all` is counted, indices are checked.
// Opens the CUDA plug-in where it is needed. Throws Error(Exit::usage) "--devices cuda: error:
// ...".
Devices resolve_devices(Devices devices);

// The device of process `local_rank` of this host; `cuda` has it use its own. A process that sees
// one device only (slurm's --gpus-per-task) takes that. Throws Error(Exit::usage).
c10::Device own_device(const Devices& devices, int local_rank);

}  // namespace bv

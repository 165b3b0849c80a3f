// What --devices asks for: auto | cpu | cpu:8 | cuda | cuda:0,1 | cuda:all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv::dist {

struct Devices {
  enum class Kind { automatic, cpu, cuda } kind = Kind::automatic;
  int count = 1;     // processes on this host: 8 for cpu:8, the indices' number for cuda:0,1
  bool all = false;  // cuda:all: whoever knows CUDA sets `count`
  std::vector<int> indices;  // cuda:0,1; empty for cuda (the rank's own) and cuda:all
  std::string text;          // as given
};

// Throws Error(Exit::usage) "--devices cpu:x: error: ...".
Devices parse_devices(std::string_view text);

}  // namespace bv::dist

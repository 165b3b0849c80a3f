#include "lib/util/host.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace bv {
namespace {

// Returns the value of a line "<key>: value" of a file below /proc; empty if there is no such line.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t start = line.find_first_not_of(" \t:", key.size());
    if (start != std::string::npos) return line.substr(start);
  }
  return "";
}

}  // namespace

std::string host_name() {
  char name[256] = {};  // POSIX allows 255 bytes; a longer name may lack the final zero
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string cpu_name() { return proc_value("/proc/cpuinfo", "model name"); }

std::optional<double> peak_resident_bytes() {
  // Of the present program. getrusage() would include the one that started it by exec.
  const double kib = std::strtod(proc_value("/proc/self/status", "VmHWM").c_str(), nullptr);
  if (kib <= 0) return std::nullopt;
  return 1024 * kib;
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace bv

#include "lib/util/host.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "lib/util/control_groups.h"

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

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
  const double quota = std::ceil(cpu_quota().value_or(cores));
  return static_cast<int>(std::clamp(quota, 1.0, static_cast<double>(cores)));
}

int usable_cores() {
  const int cores = available_cores();
  const char* share = std::getenv("OMP_NUM_THREADS");
  const long asked = share ? std::strtol(share, nullptr, 10) : 0;
  return asked > 0 ? static_cast<int>(std::min<long>(asked, cores)) : cores;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    std::string quota, period;  // microseconds
    if (group.version == 2) {
      std::ifstream(group.folder + "/cpu.max") >> quota >> period;  // "max" is read as 0
    } else {
      std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota;  // -1: none
      std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
    }
    const double time = std::strtod(quota.c_str(), nullptr);
    const double each = std::strtod(period.c_str(), nullptr);
    if (time > 0 && each > 0) least = std::min(least.value_or(time / each), time / each);
  }
  return least;
}

std::string host_name() {
  char name[256] = {};  // POSIX allows 255 bytes; a longer name may lack the final zero
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string cpu_name() { return proc_value("/proc/cpuinfo", "model name"); }

std::optional<double> peak_resident_bytes() {
  // Counts this program only. getrusage() would include the one that started it by exec.
  const double kib = std::strtod(proc_value("/proc/self/status", "VmHWM").c_str(), nullptr);
  if (kib <= 0) return std::nullopt;
  return 1024 * kib;
}

std::optional<double> resident_bytes() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;  // some sandboxes have no complete /proc
  char text[256] = {};
  const ssize_t bytes = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  char* second = nullptr;  // "5120 1034 ...": the size and the resident size, in pages
  if (bytes <= 0 || std::strtod(text, &second) <= 0) return std::nullopt;
  const double pages = std::strtod(second, nullptr);
  if (pages <= 0) return std::nullopt;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace bv

#include "lib/distributed/watch/heartbeat.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kFields = 11;
constexpr size_t kLongestHeartbeat = 4096;  // bytes

// Names are for messages only; control characters in them would break the line.
std::string cleaned(std::string_view name) {
  std::string out(name.substr(0, 200));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return out;
}

template <class T>
bool read(const std::string& field, T& value) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size();
}

// Reads fields 3 (state) and 22 (start time) of /proc/<pid>/stat. Field 2, the name, may contain
// any character, so reading begins after its closing parenthesis.
bool read_stat(int pid, char& state, uint64_t& started) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const size_t close = text.rfind(')');
  if (close == std::string::npos || close + 2 >= text.size()) return false;
  std::istringstream rest(text.substr(close + 2));
  std::string field;
  rest >> state;
  for (int i = 4; i <= 22; ++i) rest >> field;
  return rest && read(field, started);
}

std::string pid_namespace() {
  char target[64] = {};
  return ::readlink("/proc/self/ns/pid", target, sizeof(target) - 1) > 0 ? target : "";
}

}  // namespace

std::string Heartbeat::text() const {
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{:.6f}\t{:.6f}\t{}\t{}\t{}\t{}", counter, step, begun,
                     cleaned(what), cleaned(phase), step_time, compute_time, cleaned(host), pid,
                     cleaned(machine), started);
}

std::optional<Heartbeat> Heartbeat::parse(std::string_view text) {
  if (text.size() > kLongestHeartbeat) return std::nullopt;
  const std::vector<std::string> field = split(text, '\t');
  Heartbeat heartbeat;
  if (field.size() != kFields || !read(field[0], heartbeat.counter) ||
      !read(field[1], heartbeat.step) || !read(field[2], heartbeat.begun) ||
      !read(field[5], heartbeat.step_time) || !read(field[6], heartbeat.compute_time) ||
      !read(field[8], heartbeat.pid) || !read(field[10], heartbeat.started))
    return std::nullopt;
  heartbeat.what = cleaned(field[3]);
  heartbeat.phase = cleaned(field[4]);
  heartbeat.host = cleaned(field[7]);
  heartbeat.machine = cleaned(field[9]);
  return heartbeat;
}

Heartbeat heartbeat_of_this_process() {
  Heartbeat heartbeat;
  heartbeat.host = host_name();
  heartbeat.pid = ::getpid();
  const std::string boot = boot_id();
  const std::string space = pid_namespace();
  char state = 0;
  // Without all three, known_dead() could not determine anything about other processes.
  if (!boot.empty() && !space.empty() && read_stat(heartbeat.pid, state, heartbeat.started))
    heartbeat.machine = boot + " " + space;
  return heartbeat;
}

bool known_dead(const Heartbeat& heartbeat, const Heartbeat& mine) {
  if (heartbeat.machine.empty() || heartbeat.machine != mine.machine || heartbeat.pid <= 0)
    return false;
  char state = 0;
  uint64_t started = 0;
  if (!read_stat(heartbeat.pid, state, started))
    return ::access("/proc/self/stat", R_OK) == 0 &&
           ::access(fmt::format("/proc/{}", heartbeat.pid).c_str(), F_OK) != 0;
  return started != heartbeat.started || state == 'Z' || state == 'X';
}

}  // namespace bv

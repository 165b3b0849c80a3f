#include "lib/distributed/watch/heartbeat.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "lib/distributed/address.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kFields = 11;
constexpr size_t kLongestBeat = 4096;  // bytes

// Names are for people and must not break the line.
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

// Fields 3 (state) and 22 (start time) of /proc/<pid>/stat; the name before them may hold anything.
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

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string pid_namespace() {
  char target[64] = {};
  return ::readlink("/proc/self/ns/pid", target, sizeof(target) - 1) > 0 ? target : "";
}

}  // namespace

std::string Heartbeat::text() const {
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{:.6f}\t{:.6f}\t{}\t{}\t{}\t{}", counter, step, begun,
                     cleaned(what), cleaned(phase), step_time, own_time, cleaned(host), pid,
                     cleaned(machine), started);
}

std::optional<Heartbeat> Heartbeat::parse(std::string_view text) {
  if (text.size() > kLongestBeat) return std::nullopt;
  const std::vector<std::string> field = split(text, '\t');
  Heartbeat beat;
  if (field.size() != kFields || !read(field[0], beat.counter) || !read(field[1], beat.step) ||
      !read(field[2], beat.begun) || !read(field[5], beat.step_time) ||
      !read(field[6], beat.own_time) || !read(field[8], beat.pid) || !read(field[10], beat.started))
    return std::nullopt;
  beat.what = cleaned(field[3]);
  beat.phase = cleaned(field[4]);
  beat.host = cleaned(field[7]);
  beat.machine = cleaned(field[9]);
  return beat;
}

Heartbeat heartbeat_of_this_process() {
  Heartbeat beat;
  beat.host = host_name();
  beat.pid = ::getpid();
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const std::string space = pid_namespace();
  char state = 0;
  // Without all three nothing can be said about other processes here.
  if (!boot.empty() && !space.empty() && read_stat(beat.pid, state, beat.started))
    beat.machine = boot + " " + space;
  return beat;
}

bool known_dead(const Heartbeat& beat, const Heartbeat& mine) {
  if (beat.machine.empty() || beat.machine != mine.machine || beat.pid <= 0) return false;
  char state = 0;
  uint64_t started = 0;
  if (!read_stat(beat.pid, state, started))
    return ::access("/proc/self/stat", R_OK) == 0 &&
           ::access(fmt::format("/proc/{}", beat.pid).c_str(), F_OK) != 0;
  return started != beat.started || state == 'Z' || state == 'X';
}

}  // namespace bv

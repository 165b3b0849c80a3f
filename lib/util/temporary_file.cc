#include "lib/util/temporary_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>

#include "lib/util/host.h"
#include "lib/util/parse_count.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kMark = ".tmp-";
constexpr size_t kPlaceDigits = 8;
constexpr std::time_t kDay = 86400;  // far more than the duration of a write or the clock skew

// Both parts from /proc are empty if /proc is incomplete.
std::string place() {
  std::array<char, 64> numbers{};  // "pid:[4026531836]"
  [[maybe_unused]] const ssize_t bytes =
      ::readlink("/proc/self/ns/pid", numbers.data(), numbers.size() - 1);
  return fmt::format("{:08x}",
                     static_cast<uint32_t>(hash64(host_name() + numbers.data() + boot_id())));
}

struct Parts {
  std::string file, place;
  pid_t process = 0;
};

std::optional<Parts> parse(std::string_view path) {
  const size_t mark = path.rfind(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto words = split(path.substr(mark + kMark.size()), '-');
  if (words.size() != 3 || words[0].size() != kPlaceDigits ||
      words[0].find_first_not_of("0123456789abcdef") != std::string::npos || !parse_count(words[2]))
    return std::nullopt;
  const auto process = parse_count<pid_t>(words[1]);
  if (!process || *process < 1) return std::nullopt;
  return Parts{std::string(path.substr(0, mark)), words[0], *process};
}

}  // namespace

std::string temporary_name(const std::string& file) {
  static std::atomic<uint64_t> counter = 0;  // since two threads may write the same file
  static const std::string here = place();
  return fmt::format("{}{}{}-{}-{}", file, kMark, here, ::getpid(), counter++);
}

std::optional<std::string> file_of_temporary(std::string_view path) {
  const auto parts = parse(path);
  return parts ? std::optional(parts->file) : std::nullopt;
}

TemporaryState temporary_state(const std::string& path) {
  const auto parts = parse(path);
  if (!parts) return TemporaryState::unknown;
  if (parts->place == place()) {
    const bool lives = ::kill(parts->process, 0) == 0 || errno == EPERM;
    return lives ? TemporaryState::being_written : TemporaryState::left_behind;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return TemporaryState::unknown;
  return std::time(nullptr) - info.st_mtime > kDay ? TemporaryState::left_behind
                                                   : TemporaryState::unknown;
}

}  // namespace bv

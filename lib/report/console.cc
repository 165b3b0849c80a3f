#include "lib/report/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "lib/util/descriptor.h"
#include "lib/util/file.h"
#include "lib/util/printable.h"

namespace bv::console {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{1};

struct ConsoleState {
  std::mutex mutex;
  bool drops = false, stalled = false;
  bool cut = false;      // the last line was not written to its end
  int64_t missing = 0;   // lines that were dropped since the last warning about them
  std::string log_file;  // it has the log's lines; "": none has
};

int64_t count_lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

// Returns the warning that goes before `text`.
std::string missing_lines(const ConsoleState& console, std::string_view text) {
  if (console.missing == 0) return "";
  return fmt::format(
      "{}warning: {} missing here, because standard error was not read{}\n",
      text.starts_with('\r') ? "\r\033[K" : "",  // the live line may be on the screen
      console.missing == 1 ? "1 line is" : fmt::format("{} lines are", console.missing),
      console.log_file.empty()
          ? ""
          : "; " + printable(console.log_file, std::string::npos) + " has all lines of the log");
}

// Never destroyed, since other threads may write until the process ends.
ConsoleState& state() {
  static ConsoleState& state = *new ConsoleState;
  return state;
}

// Standard error. If it is a pipe or a terminal, it is opened a second time, with O_NONBLOCK, so
// that writing never blocks. The flag cannot be set on standard error itself, because other
// processes share its flags. If it is something else, or cannot be opened again, fd() is standard
// error itself. Then a write after poll() may block, but only if another process fills the pipe in
// between: otherwise the pipe takes PIPE_BUF bytes.
class StderrStream {
 public:
  StderrStream() {
    struct stat info {};
    if (::fstat(STDERR_FILENO, &info) != 0) return;
    if (S_ISFIFO(info.st_mode) || ::isatty(STDERR_FILENO) == 1)
      opened_.emplace("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY);
  }
  bool never_blocks() const { return opened_ && *opened_; }
  int fd() const { return never_blocks() ? opened_->get() : STDERR_FILENO; }

 private:
  std::optional<Descriptor> opened_;
};

// Waits until `fd` can be written. Returns false if it still cannot be written at `deadline`.
bool await_room(int fd, Clock::time_point deadline) {
  struct pollfd out {
    fd, POLLOUT, 0
  };
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = ::poll(&out, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return true;
    if (left <= 0) return false;
  }
}

// Writes as much of `text` as standard error takes before `deadline`. Returns the number of bytes
// that were written, or the size of `text` if writing fails.
size_t write_until(std::string_view text, Clock::time_point deadline) {
  const StderrStream stream;
  size_t written = 0;
  while (written < text.size()) {
    if (!stream.never_blocks() && !await_room(stream.fd(), deadline)) break;
    const ssize_t n = ::write(stream.fd(), text.data() + written,
                              std::min<size_t>(text.size() - written, PIPE_BUF));
    if (n > 0) {
      written += static_cast<size_t>(n);
    } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return text.size();
    } else if (Clock::now() >= deadline || !await_room(stream.fd(), deadline)) {
      break;
    }
  }
  return written;
}

}  // namespace

void drop_when_stalled(const std::string& log_file) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().drops = true;
  state().log_file = log_file;
}

void write(std::string_view text) {
  ConsoleState& console = state();
  const std::lock_guard<std::mutex> lock(console.mutex);
  if (!console.drops) {
    write_all(STDERR_FILENO, text);  // if this fails, it cannot be reported
    return;
  }
  const std::string before = (console.cut ? "\n" : "") + missing_lines(console, text);
  const std::string whole = before + std::string(text);
  const auto patience = console.stalled ? Clock::duration::zero() : Clock::duration(kPatience);
  const size_t written = write_until(whole, Clock::now() + patience);
  console.stalled = written < whole.size();
  if (written > 0) console.cut = console.stalled;
  if (written >= before.size()) console.missing = 0;
  console.missing += count_lines(std::string_view(whole).substr(std::max(written, before.size())));
}

}  // namespace bv::console

#include "lib/distributed/watch/exit_now.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "lib/report/log.h"
#include "lib/util/printable.h"

namespace bv {
namespace {

// Writes nothing if the write would block, because perhaps nobody reads the pipe.
void write_to_stderr(const std::string& text) {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) != 1) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

// Why _exit: the main thread may be stuck in a collective that never ends, so it cannot be unwound,
// and exit() would run destructors that wait for the same collective.
void exit_now(Exit code, const std::string& line) {
  static std::mutex once;
  once.lock();  // never unlocked: only the first caller writes its line and exits
  const int number = static_cast<int>(code);
  const std::string text = printable(line, std::string::npos) + "\n";  // text from other ranks
  // A stuck thread may hold the log's lock. The process must end nevertheless.
  std::thread([number, text] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    write_to_stderr(text);
    _exit(number);
  }).detach();
  log::clear_progress();
  log::write_detail(line);
  log::flush();
  write_to_stderr(text);
  _exit(number);
}

}  // namespace bv

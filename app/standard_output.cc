#include "app/standard_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/util/printable.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

// Whether standard output is a pipe or socket without a reader. errno cannot show this, because it
// is lost if an earlier write has failed.
bool no_reader() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void print(std::string_view text) {
  const std::string shown = printable_lines(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);  // end_stdout() reports failures
}

void write_stdout(std::string_view data) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const std::string shown = terminal ? printable_lines(data) : std::string();
  if (terminal) data = shown;
  if (std::fwrite(data.data(), 1, data.size(), stdout) == data.size() && std::fflush(stdout) == 0)
    return;
  const int error = errno;
  if (no_reader()) throw Stopped{Exit::no_reader};
  throw Error(Exit::storage, "standard output", std::strerror(error));
}

Exit end_stdout(Exit code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int error = errno;
  if (written || code != Exit::ok) return code;
  if (no_reader()) return Exit::no_reader;
  std::fprintf(stderr, "standard output: error: %s\n", std::strerror(error));
  return Exit::storage;
}

}  // namespace bv

#include "test/support/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace bv::test {

Screen screen_of(const std::string& text) {
  Screen screen;
  std::string line;
  size_t cursor = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "\033[K") == 0) {  // erases to the end of the line
      line.resize(cursor);
      i += 2;
      if (line.empty()) continue;
      screen.drawn.push_back(line);
      screen.widest = std::max(screen.widest, line.size());
    } else if (text[i] == '\033') {
      i = text.find('m', i);  // a colour
      if (i == std::string::npos) break;
    } else if (text[i] == '\r') {
      cursor = 0;
    } else if (text[i] == '\n') {
      screen.lines.push_back(line);
      line.clear();
      cursor = 0;
    } else {
      line.resize(std::max(line.size(), cursor + 1), ' ');
      line[cursor++] = text[i];
    }
  }
  return screen;
}

OnTerminal::OnTerminal(const std::vector<std::string>& args, int columns) {
  const char* program = std::getenv("BVTRAIN");
  if (!program) throw std::runtime_error("BVTRAIN is not set to the binary");
  std::vector<std::string> argv = {program};
  argv.insert(argv.end(), args.begin(), args.end());
  std::vector<char*> pointers;
  for (std::string& arg : argv) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  struct winsize size {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ != 0) return;
  for (const auto& [name, value] : kForChildren) ::setenv(name.c_str(), value.c_str(), 0);
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  ::execv(program, pointers.data());
  ::_exit(127);
}

OnTerminal::~OnTerminal() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (terminal_ >= 0) ::close(terminal_);
}

bool OnTerminal::read_more() {
  char bytes[4096];
  pollfd ready{terminal_, POLLIN, 0};
  if (::poll(&ready, 1, 20) != 1) return true;
  const ssize_t n = ::read(terminal_, bytes, sizeof(bytes));
  if (n <= 0) return false;  // EIO: the child has closed its end
  text_.append(bytes, static_cast<size_t>(n));
  return true;
}

bool OnTerminal::wait_for_drawn(const std::string& pattern) {
  const std::regex regex(pattern);
  const double end = now() + kWatchdog;
  while (now() < end) {
    const bool more = read_more();
    const std::vector<std::string> drawn = screen_of(text_).drawn;
    if (!drawn.empty() && std::regex_match(drawn.back(), regex)) return true;
    if (!more) return false;
  }
  return false;
}

void OnTerminal::kill(int signal) const { ::kill(pid_, signal); }

int OnTerminal::wait() {
  for (const double end = now() + kWatchdog; read_more();) {
    if (now() > end) ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace bv::test

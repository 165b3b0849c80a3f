#include "test/support/prestarted.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

#include "test/support/folder.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr size_t kMostBytes = 100'000;  // of a command; prestart.cc receives 128 KiB at once

// A bvtrain that waits before its main(). It ends with this process.
class Waiting {
 public:
  explicit Waiting(const std::string& program) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("cannot open a socket");
    socket_ = ends[0];
    const int pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot fork");
    if (pid > 0) {
      ::close(ends[1]);
      return;
    }
    ::fcntl(ends[1], F_SETFD, 0);
    ::setenv("BVTRAIN_PRESTART", std::to_string(ends[1]).c_str(), 1);
    ::setenv("LD_PRELOAD", BV_PRESTART_LIBRARY, 1);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }

  // Returns the process that runs the command.
  int start(const std::string& command) const {
    // The new process is a grandchild: its parent, an intermediate process, ends at once. As a
    // subreaper, this process becomes its parent then, and can wait for it.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int pid = -1;
    const bool started = ::send(socket_, command.data(), command.size(), MSG_NOSIGNAL) > 0 &&
                         ::recv(socket_, &pid, sizeof(pid), 0) == sizeof(pid) && pid > 0;
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (!started) throw std::runtime_error("the waiting bvtrain has ended");
    return pid;
  }

 private:
  int socket_ = -1;
};

bool is_for_main(const std::pair<std::string, std::string>& variable) {
  return variable.first.starts_with("BVTRAIN_");
}

// Returns this process's environment with `more`, as "NAME=value".
std::vector<std::string> environment_with(const Environment& more) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : kForChildren) all[name] = name + "=" + value;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    all[text.substr(0, text.find('='))] = text;
  }
  for (const auto& [name, value] : more) all[name] = name + "=" + value;
  std::vector<std::string> texts;
  for (const auto& [name, text] : all) texts.push_back(text);
  return texts;
}

std::string current_folder() {
  std::array<char, 4096> path{};
  if (!::getcwd(path.data(), path.size())) throw std::runtime_error("no current folder");
  return path.data();
}

}  // namespace

std::optional<Process> start_prestarted(const std::string& program,
                                        const std::vector<std::string>& argv,
                                        const Environment& environment) {
  if (kSanitized || !std::all_of(environment.begin(), environment.end(), is_for_main))
    return std::nullopt;
  const std::string out = new_temporary_file(), err = new_temporary_file();
  std::vector<std::string> texts = {out, err, current_folder(), std::to_string(argv.size())};
  texts.insert(texts.end(), argv.begin(), argv.end());
  const std::vector<std::string> variables = environment_with(environment);
  texts.insert(texts.end(), variables.begin(), variables.end());
  std::string command;
  for (const std::string& text : texts) command += text + '\0';
  if (command.size() > kMostBytes) {
    ::unlink(out.c_str());
    ::unlink(err.c_str());
    return std::nullopt;
  }
  static std::map<std::string, Waiting> waiting;
  const Waiting& start = waiting.try_emplace(program, program).first->second;
  return Process(start.start(command), out, err);
}

}  // namespace bv::test

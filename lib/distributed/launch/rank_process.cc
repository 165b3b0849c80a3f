#include "lib/distributed/launch/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "lib/report/chrono.h"
#include "lib/report/console.h"
#include "lib/util/error.h"
#include "lib/util/signals.h"

extern char** environ;

namespace bv {
namespace {

constexpr size_t kLongestLine = 1 << 16;  // bytes
constexpr int kFirstFreeDescriptor = 3;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

// Runs in the child between fork and exec, where only system calls are safe.
[[noreturn]] void exec_rank(const char* program, char** argv, char** environment,
                            const cpu_set_t* cpus, const sigset_t* blocked, int parent, int out,
                            int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Why _exit, here and below: the child is a copy of the launcher until exec. Anything else would
  // run the launcher's destructors and flush its buffers a second time.
  if (getppid() != parent) _exit(127);  // the launcher is gone already
  setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP && signal != SIGHUP) ::signal(signal, SIG_DFL);
  ::signal(SIGTTOU, SIG_IGN);  // a background process group may still write to the terminal
  ::signal(SIGPIPE, SIG_IGN);
  // Blocked until install_signal_handlers(): while the libraries load, a signal would kill the
  // rank. A signal that arrives meanwhile is delivered then.
  sigprocmask(SIG_SETMASK, blocked, nullptr);
  if (cpus) sched_setaffinity(0, sizeof(*cpus), cpus);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  close_range(kFirstFreeDescriptor, ~0U, 0);
  execve(program, argv, environment);
  _exit(127);
}

// "error: ...", "vit.yaml:12:7: error: ...", "[input] ..." (lib/util/error.h).
bool is_error_line(const std::string& line) {
  const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.", 1);
  const bool has_prefix = line.starts_with("[") && end != std::string::npos && end > 1 &&
                          line.compare(end, 2, "] ") == 0;
  return has_prefix || line.starts_with("error: ") || line.find(": error: ") != std::string::npos;
}

// "warning: ...", or a line of the log, "W1121 09:30:01 rank 3: warning: ...": a rank that warns
// continues.
bool is_warning(const std::string& line) {
  constexpr std::string_view kDigits = "0123456789";
  const bool in_log = line.size() > 5 && line[0] == 'W' &&
                      line.find_first_not_of(kDigits, 1) == 5 && line[5] == ' ';
  return in_log || line.starts_with("warning: ");
}

void print_line(const RankProcess& process, const std::string& line) {
  console::write(fmt::format("[rank {}] {}\n", process.rank, line));
}

void pass_line(RankProcess& process, std::string line) {
  if (is_warning(line) || (!is_error_line(line) && process.held_lines.empty()))
    return print_line(process, line);
  if (process.held_lines.empty()) process.held_since = monotonic_seconds();
  process.held_lines.push_back(std::move(line));
}

}  // namespace

std::string path_at_start() {
  const auto* path = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return path == nullptr ? "" : path;
}

std::string own_program(const std::string& link, const std::string& path) {
  if (::access(link.c_str(), X_OK) == 0) return link;
  if (::access(path.c_str(), X_OK) == 0) return path;
  throw Error(Exit::usage, link,
              "cannot start more processes: this link to the program is missing; mount /proc");
}

void start(RankProcess& process, const RankStart& how) {
  const std::string program = own_program();
  std::vector<std::string> argv = how.argv, environment = merged_environment(how.environment);
  std::vector<char*> argv_pointers = pointers(argv);
  std::vector<char*> environment_pointers = pointers(environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : how.cpus) CPU_SET(static_cast<size_t>(cpu), &cpus);
  int pipe[2] = {-1, -1}, null = -1;
  if (how.quiet) {
    null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (::pipe2(pipe, O_CLOEXEC) != 0)
      throw Error(Exit::memory, fmt::format("rank {}", process.rank), std::strerror(errno));
    ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  }
  std::fflush(nullptr);
  const int parent = ::getpid();
  const sigset_t blocked = stop_signals();
  process.pid = ::fork();
  if (process.pid == 0)
    exec_rank(program.c_str(), argv_pointers.data(), environment_pointers.data(),
              how.cpus.empty() ? nullptr : &cpus, &blocked, parent, null, pipe[1]);
  const int error = errno;
  if (null >= 0) ::close(null);
  if (pipe[1] >= 0) ::close(pipe[1]);
  process.stderr_fd = pipe[0];
  if (process.pid < 0)
    throw Error(Exit::memory, fmt::format("rank {}", process.rank),
                fmt::format("cannot start a process: {}", std::strerror(error)));
  ::setpgid(process.pid, process.pid);  // the child does the same; whichever comes first
}

bool pass_output(RankProcess& process) {
  if (process.stderr_fd < 0) return false;
  char buffer[4096];
  while (true) {
    const ssize_t n = ::read(process.stderr_fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) break;
    process.partial.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = process.partial.find('\n')) != std::string::npos;) {
      pass_line(process, process.partial.substr(0, end));
      process.partial.erase(0, end + 1);
    }
    if (process.partial.size() > kLongestLine) {
      pass_line(process, process.partial);
      process.partial.clear();
    }
  }
  if (!process.partial.empty()) pass_line(process, process.partial);
  process.partial.clear();
  ::close(process.stderr_fd);
  process.stderr_fd = -1;
  return false;
}

void kill_now(RankProcess& process) {
  if (process.pid <= 0) return;
  if (!process.killed_by_us()) process.killed_at = monotonic_seconds();
  ::kill(process.pid, SIGKILL);
}

char leave_behind(RankProcess& process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process.pid));
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');  // the name may contain any character
  const bool known = name_end != std::string::npos && name_end + 2 < stat.size();
  if (process.stderr_fd >= 0) ::close(process.stderr_fd);
  process.pid = process.stderr_fd = -1;
  process.signal = SIGKILL;
  process.code = 128 + SIGKILL;
  process.left_behind = true;
  return known ? stat[name_end + 2] : '?';
}

std::string end_text(const RankProcess& process) {
  if (process.signal == 0) return fmt::format("exit code {}", process.code);
  const char* name = sigabbrev_np(process.signal);
  return fmt::format("signal {} (SIG{})", process.signal, name ? name : "?");
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

std::vector<std::vector<int>> divide_cpus(const std::vector<int>& cpus, int parts) {
  std::vector<std::vector<int>> pieces(static_cast<size_t>(parts));
  const size_t n = cpus.size(), count = pieces.size();
  if (n < count) return pieces;
  for (size_t i = 0; i < count; ++i)
    pieces[i].assign(cpus.begin() + static_cast<std::ptrdiff_t>(i * n / count),
                     cpus.begin() + static_cast<std::ptrdiff_t>((i + 1) * n / count));
  return pieces;
}

int threads_of_rank(size_t cpus, int cores, int ranks) {
  return std::max(1, std::min(static_cast<int>(cpus), cores / ranks));
}

}  // namespace bv

#include "test/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "test/support/folder.h"

namespace bv::test {
namespace {

std::set<int> all_processes() {
  std::set<int> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.insert(std::stoi(name));
  }
  return pids;
}

bool alive(int pid) {
  const char state = state_of(pid).first;
  return state != 0 && state != 'Z' && state != 'X';
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& argv,
                 const Environment& environment, bool own_group)
    : out_file_(new_temporary_file()), err_file_(new_temporary_file()), started_(now()) {
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.data()));
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (own_group) ::setpgid(0, 0);
    ::dup2(::open(out_file_.c_str(), O_WRONLY), 1);
    ::dup2(::open(err_file_.c_str(), O_WRONLY), 2);
    for (const auto& [name, value] : kForChildren) ::setenv(name.c_str(), value.c_str(), 0);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(program.c_str(), pointers.data());
    ::_exit(127);
  }
}

Process::Process(int pid, std::string out_file, std::string err_file)
    : pid_(pid), out_file_(std::move(out_file)), err_file_(std::move(err_file)), started_(now()) {}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_file_(std::exchange(other.out_file_, "")),
      err_file_(std::exchange(other.err_file_, "")),
      started_(other.started_) {}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (!out_file_.empty()) ::unlink(out_file_.c_str());
  if (!err_file_.empty()) ::unlink(err_file_.c_str());
}

void Process::kill(int signal) const { ::kill(pid_, signal); }

std::string Process::output() const { return read_text(out_file_); }

std::string Process::errors() const { return read_text(err_file_); }

std::string Process::first_line() const {
  std::string text;
  const auto has_line = [&] { return (text = output()).find('\n') != std::string::npos; };
  if (!wait_until(has_line))
    throw std::runtime_error("a child printed no line: " + read_text(err_file_));
  return text.substr(0, text.find('\n'));
}

Finished Process::wait(double limit) {
  int status = 0;
  const double end = now() + limit;
  rusage usage{};
  while (::wait4(pid_, &status, WNOHANG, &usage) == 0) {
    if (now() > end) ::kill(pid_, SIGKILL);
    ::usleep(2000);
  }
  pid_ = -1;
  Finished finished;
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = read_text(out_file_);
  finished.err = read_text(err_file_);
  finished.seconds = now() - started_;
  finished.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  return finished;
}

// Returns a file of /proc/PID; "" if the process has ended, even while the file is read.
static std::string read_proc(int pid, const std::string& name) {
  try {
    return read_text("/proc/" + std::to_string(pid) + "/" + name);
  } catch (const std::ios_base::failure&) {
    return "";
  }
}

std::pair<char, int> state_of(int pid) {
  const std::string text = read_proc(pid, "stat");
  const size_t close = text.rfind(')');  // the program's name before it may hold anything
  std::pair<char, int> found{0, 0};
  if (close == std::string::npos) return found;
  std::istringstream(text.substr(close + 1)) >> found.first >> found.second;
  return found;
}

std::set<int> children_of(int pid) {
  std::set<int> children;
  for (const int other : all_processes())
    if (const auto [state, parent] = state_of(other); parent == pid && state != 'Z')
      children.insert(other);
  return children;
}

std::set<int> processes_with(const std::string& text) {
  std::set<int> found;
  for (const int pid : all_processes()) {
    if (pid == ::getpid() || state_of(pid).first == 'Z') continue;
    const std::string command = read_proc(pid, "cmdline");
    if (command.find(text) != std::string::npos) found.insert(pid);
  }
  return found;
}

bool gone(const std::set<int>& pids, double seconds) {
  return wait_until([&] { return std::none_of(pids.begin(), pids.end(), alive); }, seconds);
}

}  // namespace bv::test

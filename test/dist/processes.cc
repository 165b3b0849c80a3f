#include "test/dist/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lib/dist/address.h"
#include "lib/util/file.h"

namespace bv::dist::test {
namespace {

std::string temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "bvtrain-dist-XXXXXX").string();
  const int fd = mkstemp(name.data());
  if (fd < 0) throw std::runtime_error("mkstemp");
  close(fd);
  return name;
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Worker::Worker(const std::string& role, const Variables& variables)
    : out_file_(temporary_file()), err_file_(temporary_file()), started_(now()) {
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(open(out_file_.c_str(), O_WRONLY), 1);
    dup2(open(err_file_.c_str(), O_WRONLY), 2);
    setenv("DIST_ROLE", role.c_str(), 1);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    // Catch reports to nowhere: stdout is the role's.
    execl("/proc/self/exe", "test_dist", kWorkerCase, "-o", "/dev/null", nullptr);
    _exit(127);
  }
}

Worker::Worker(Worker&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_file_(std::exchange(other.out_file_, "")),
      err_file_(std::exchange(other.err_file_, "")),
      started_(other.started_) {}

Worker::~Worker() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (!out_file_.empty()) unlink(out_file_.c_str());
  if (!err_file_.empty()) unlink(err_file_.c_str());
}

void Worker::kill(int signal) const { ::kill(pid_, signal); }

std::string Worker::first_line() const {
  for (const double end = now() + 20; now() < end;) {
    const std::string text = read_file(out_file_);
    if (const size_t newline = text.find('\n'); newline != std::string::npos)
      return text.substr(0, newline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("a worker said nothing: " + read_file(err_file_));
}

Ended Worker::wait() {
  int status = 0;
  const double end = now() + 60;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (now() > end) ::kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  Ended ended;
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.out = read_file(out_file_);
  ended.err = read_file(err_file_);
  ended.seconds = now() - started_;
  return ended;
}

int free_port() {
  const Listener listener = listen_at("127.0.0.1", 0);
  close(listener.fd);
  return listener.port;
}

Variables rank_variables(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"OMP_NUM_THREADS", "1"},
          {"BVTRAIN_HEARTBEAT", "0.2"},
          {"BVTRAIN_SILENCE", "2"},
          {"BVTRAIN_STARTUP_TIMEOUT", "20"}};
}

std::vector<Worker> start_ranks(const std::string& role, int size, const Variables& more) {
  const int port = free_port();
  std::vector<Worker> workers;
  for (int rank = 0; rank < size; ++rank) {
    Variables variables = rank_variables(rank, size, port);
    for (const auto& [name, value] : more) variables[name] = value;
    workers.emplace_back(role, variables);
  }
  return workers;
}

std::vector<Ended> wait_all(std::vector<Worker>& workers) {
  std::vector<Ended> all;
  for (Worker& worker : workers) all.push_back(worker.wait());
  return all;
}

}  // namespace bv::dist::test

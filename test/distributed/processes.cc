#include "test/distributed/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lib/distributed/address.h"
#include "lib/util/file.h"

namespace bv::test {
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

std::string Worker::output() const { return read_file(out_file_); }

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

Worker launched(Variables more) {
  for (const auto& [name, value] : Variables{{"BVTRAIN_HEARTBEAT", "0.2"},
                                             {"BVTRAIN_SILENCE", "2"},
                                             {"BVTRAIN_STARTUP_TIMEOUT", "20"},
                                             {"OMP_NUM_THREADS", "1"}})
    more.emplace(name, value);
  return Worker("launcher", more);
}

Hosts::Hosts(Variables more, int count) : all(std::move(more)) {
  all.insert({{"DIST_NODES", std::to_string(count)},
              {"DIST_RENDEZVOUS", "127.0.0.1:" + std::to_string(free_port())}});
}

Worker Hosts::start(const char* node) const {
  Variables more = all;
  more["DIST_NODE"] = node;
  return launched(more);
}

std::pair<char, int> state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t close = text.rfind(')');
  std::pair<char, int> found{0, 0};
  if (close == std::string::npos) return found;
  std::istringstream rest(text.substr(close + 1));
  rest >> found.first >> found.second;
  return found;
}

std::set<int> children_of(int pid) {
  std::set<int> children;
  DIR* folder = opendir("/proc");
  for (const dirent* entry; (entry = readdir(folder));) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    const auto [state, parent] = state_of(entry->d_name);
    if (parent == pid && state != 'Z') children.insert(std::stoi(entry->d_name));
  }
  closedir(folder);
  return children;
}

bool gone(const std::set<int>& pids, double seconds) {
  const double end = now() + seconds;
  while (true) {
    bool any = false;
    for (const int pid : pids) {
      const char state = state_of(std::to_string(pid)).first;
      any |= state != 0 && state != 'Z' && state != 'X';
    }
    if (!any) return true;
    if (now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
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

}  // namespace bv::test

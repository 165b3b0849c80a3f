#include "test/e2e/sockets.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/distributed/address.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

std::set<int> all_processes() {
  std::set<int> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.insert(std::stoi(name));
  }
  return pids;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// State and parent; state 0 where there is no such process.
std::pair<char, int> state_of(int pid) {
  const std::string text = contents("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = text.rfind(')');
  std::pair<char, int> found{0, 0};
  if (close == std::string::npos) return found;
  std::istringstream(text.substr(close + 1)) >> found.first >> found.second;
  return found;
}

}  // namespace

std::set<std::string> sockets_of(int pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    const std::string to = fs::read_symlink(entry.path(), gone);  // "socket:[123]"
    if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
  }
  return inodes;
}

std::set<int> listening_ports(int pid) {
  const std::set<std::string> mine = sockets_of(pid);
  std::set<int> ports;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(contents("/proc/" + std::to_string(pid) + "/net/" + table));
    std::string line, number, local, remote, state, inode, skipped;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == "0A" && mine.count(inode))
        ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
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
    if (contents("/proc/" + std::to_string(pid) + "/cmdline").find(text) != std::string::npos)
      found.insert(pid);
  }
  return found;
}

int free_port() {
  const Listener listener = listen_at("127.0.0.1", 0);
  ::close(listener.fd);
  return listener.port;
}

int send_to_port(int port, const std::string& text) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    ::close(fd);
    return -1;
  }
  [[maybe_unused]] const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  return fd;
}

}  // namespace bv::test

#include "test/support/sockets.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "test/support/folder.h"

namespace bv::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

std::set<std::string> sockets_of(int pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    const std::string to = std::filesystem::read_symlink(entry.path(), gone);  // "socket:[123]"
    if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
  }
  return inodes;
}

std::set<int> listening_ports(int pid) {
  const std::set<std::string> mine = sockets_of(pid);
  std::set<int> ports;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(read_text("/proc/" + std::to_string(pid) + "/net/" + table));
    std::string line, number, local, remote, state, inode, unused;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> unused;
      words >> inode;
      if (state == "0A" && mine.count(inode))
        ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

int send_to_port(int port, const std::string& text) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = loopback(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    ::close(fd);
    return -1;
  }
  [[maybe_unused]] const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  return fd;
}

}  // namespace bv::test

// A library for LD_PRELOAD that lets tests start bvtrain in milliseconds. Most of the time of a
// start goes into the static objects of LibTorch. With this library a bvtrain waits after that,
// before its own main(), and forks for each command that test/support/prestarted.cc sends. Each
// fork then runs main() as a process of its own. Without $BVTRAIN_PRESTART the library does
// nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

// One command: the files for stdout and stderr, the current folder, the number of arguments, the
// arguments, and the variables of the environment as "NAME=value".
std::vector<std::string> receive(int socket) {
  static char message[1 << 17];
  const ssize_t bytes = ::recv(socket, message, sizeof(message), 0);
  if (bytes <= 0) ::_exit(0);  // the test program has ended
  std::vector<std::string> texts;
  for (const char* text = message; text < message + bytes; text += texts.back().size() + 1)
    texts.emplace_back(text);
  return texts;
}

void open_as(const std::string& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(127);
  ::close(opened);
}

// Forks twice. The first fork ends at once, so that the second becomes a child of the test program.
// Returns in the second one; `pid` is its number in all three.
bool forked(volatile pid_t* pid) {
  const pid_t between = ::fork();
  if (between < 0) ::_exit(127);
  if (between > 0) {
    ::waitpid(between, nullptr, 0);
    return false;
  }
  const pid_t child = ::fork();
  if (child == 0) return true;
  *pid = child;
  ::_exit(0);
}

// Returns the command for this process. All others stay in here.
std::vector<std::string> serve(int socket) {
  auto* pid = static_cast<volatile pid_t*>(
      ::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (pid == MAP_FAILED) ::_exit(127);
  while (true) {
    std::vector<std::string> command = receive(socket);
    if (forked(pid)) {
      ::close(socket);
      open_as(command.at(0), STDOUT_FILENO);
      open_as(command.at(1), STDERR_FILENO);
      if (::chdir(command.at(2).c_str()) != 0) ::_exit(127);
      return command;
    }
    const pid_t child = *pid;
    if (::send(socket, &child, sizeof(child), MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

}  // namespace

using Main = int (*)(int, char**, char**);
// The C library's function that calls main(), after the static objects of all libraries.
extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*rtld_fini)(), void* stack_end) {
  const auto start =
      reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  if (const char* socket = std::getenv("BVTRAIN_PRESTART")) {
    static std::vector<std::string> command;
    command = serve(std::atoi(socket));
    const size_t count = std::strtoul(command.at(3).c_str(), nullptr, 10);
    // As on the stack of a new process: the arguments, null, the environment, null.
    static std::vector<char*> all;
    for (size_t i = 0; i < count; ++i) all.push_back(command.at(4 + i).data());
    all.push_back(nullptr);
    for (size_t i = 4 + count; i < command.size(); ++i) all.push_back(command[i].data());
    all.push_back(nullptr);
    argc = static_cast<int>(count);
    argv = all.data();
    environ = all.data() + count + 1;
  }
  return start(main, argc, argv, init, fini, rtld_fini, stack_end);
}

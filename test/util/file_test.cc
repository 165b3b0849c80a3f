// Reading with limits, atomic replacement and mapping: contents and exact error lines.
#include "lib/util/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/mapped_file.h"
#include "lib/util/regular_file.h"
#include "test/support/child.h"
#include "test/support/folder.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

template <class Call>
std::pair<Exit, std::string> failure(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Exit::ok, ""};
}

using Failure = std::pair<Exit, std::string>;

}  // namespace

TEST_CASE("a file is replaced as a whole and read back") {
  const TempFolder folder;
  const std::string file = folder / "a.txt";
  CHECK_FALSE(file_exists(file));
  const std::string bytes("x\0y", 3);
  write_file_atomically(file, bytes);
  CHECK(read_file(file) == bytes);
  const std::string large(3 << 20, 'z');
  write_file_atomically(file, large, false);
  CHECK(read_file(file) == large);
  CHECK(read_file(file, large.size()) == large);
  write_file_atomically(file, "");
  CHECK(read_file(file).empty());
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);  // no temporary is left
}

TEST_CASE("a file that is replaced keeps its permissions, which its owner can always write") {
  const TempFolder folder;
  const std::string file = folder.write("f", "old");
  const auto mode = [&] {
    struct stat info {};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    return info.st_mode & 07777;
  };
  const mode_t mask = ::umask(022);
  for (const auto& [before, after] : std::vector<std::pair<mode_t, mode_t>>{
           {0600, 0600}, {0644, 0644}, {0660, 0660}, {0666, 0666}, {0444, 0644}, {0, 0600}}) {
    REQUIRE(::chmod(file.c_str(), before) == 0);
    write_file_atomically(file, "new");
    CHECK(mode() == after);
  }
  REQUIRE(::chmod(file.c_str(), 04755) == 0);
  write_file_atomically(file, "new");
  CHECK(mode() == 0755);
  fs::remove(file);
  write_file_atomically(file, "first");
  CHECK(mode() == 0644);
  fs::remove(file);
  fs::create_symlink(folder.write("target", "x"), file);  // the link is replaced
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  write_file_atomically(file, "new");
  CHECK(mode() == 0644);
  ::umask(mask);
}

TEST_CASE("reading fails in one line") {
  const TempFolder folder;
  const std::string file = folder / "a.txt";
  CHECK(failure([&] { read_file(file); }) == Failure{Exit::usage, file + ": error: no such file"});
  CHECK(failure([&] { read_file(folder.path()); }) ==
        Failure{Exit::usage, folder.path() + ": error: is a folder"});
  write_file_atomically(file, "12345");
  CHECK(failure([&] { read_file(file, 4); }) ==
        Failure{Exit::usage, file + ": error: larger than 4 bytes"});
  CHECK(failure([&] { read_file("/dev/zero"); }) ==  // has no end
        Failure{Exit::usage, "/dev/zero: error: is a device, not a file"});
  CHECK(read_file("/proc/self/comm") != "");  // its size is 0
  CHECK(failure([&] { read_file("/proc/self/status", 100); }) ==
        Failure{Exit::usage, "/proc/self/status: error: larger than 100 bytes"});
  CHECK(failure([&] { read_file(file + "/x"); }) ==
        Failure{Exit::usage, file + "/x: error: Not a directory"});
  // Nothing is mapped at address 0, which the kernel reports like a bad disk sector.
  CHECK(failure([&] { read_file("/proc/self/mem"); }) ==
        Failure{Exit::storage, "/proc/self/mem: error: cannot read: Input/output error"});
}

TEST_CASE("only regular files are read") {
  const TempFolder folder;
  const std::string fifo = folder / "fifo", socket = folder / "socket";
  REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
  REQUIRE(::mknod(socket.c_str(), S_IFSOCK | 0666, 0) == 0);
  const auto refused = [&](const std::string& file, const std::string& why) {
    const Failure expected{Exit::usage, file + ": error: " + why};
    CHECK(failure([&] { read_file(file); }) == expected);
    CHECK(failure([&] { MappedFile m(file); }) == expected);
    CHECK(failure([&] { RegularFile f(file); }) == expected);
    CHECK(failure([&] { refuse_special_file(file); }) ==
          Failure{Exit::storage, file + ": error: cannot write: " + why});
  };
  refused(fifo, "is a pipe, not a file");
  refused(socket, "is a socket, not a file");
  refused("/dev/zero", "is a device, not a file");
  refused(folder.path(), "is a folder");
  CHECK_NOTHROW(refuse_special_file(folder / "absent"));
  CHECK(failure([&] { read_file_or_pipe(socket); }) ==
        Failure{Exit::usage, socket + ": error: is a socket, not a file"});
}

TEST_CASE("a pipe is read to its end where it is welcome") {
  const TempFolder folder;
  const std::string fifo = folder / "fifo", file = folder / "file";
  REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
  CHECK(is_pipe(fifo));
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  write_file_atomically(file, large);
  CHECK_FALSE(is_pipe(file));
  CHECK(read_file_or_pipe(file) == large);
  const auto read_from_writer = [&](size_t limit) {
    std::thread writer([&] {
      const Descriptor to(fifo, O_WRONLY);  // waits for the reader
      write_all(to.get(), large);           // fails with EPIPE if the reader gives up
    });
    std::string got;
    const Failure failed = failure([&] { got = read_file_or_pipe(fifo, limit); });
    writer.join();
    return std::pair(failed.second, got);
  };
  const auto old_handler = ::signal(SIGPIPE, SIG_IGN);
  CHECK(read_from_writer(0) == std::pair(std::string(), large));
  CHECK(read_from_writer(5000).first == fifo + ": error: larger than 5000 bytes");
  ::signal(SIGPIPE, old_handler);
  // The writer of `<(command)` may have ended before the pipe is opened by its name.
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(write_all(ends[1], "text") == 0);
  ::close(ends[1]);
  CHECK(read_file_or_pipe("/dev/fd/" + std::to_string(ends[0])) == "text");
  ::close(ends[0]);
}

TEST_CASE("a failed write leaves the old content and nothing else") {
  const TempFolder folder;
  CHECK(failure([&] { write_file_atomically(folder / "no/a", "x"); }) ==
        Failure{Exit::storage, (folder / "no/a") + ": error: cannot write: no such folder"});
  fs::create_directories(folder / "b/c");  // a folder cannot be replaced by a file
  CHECK(failure([&] { write_file_atomically(folder / "b", "x"); }) ==
        Failure{Exit::storage, (folder / "b") + ": error: cannot replace: is a folder"});
  CHECK(fs::exists(folder / "b/c"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  CHECK(failure([&] { fsync_path(folder / "absent"); }) ==
        Failure{Exit::storage, (folder / "absent") + ": error: cannot sync: no such file"});
  CHECK_NOTHROW(fsync_path(folder.path()));
}

TEST_CASE("a write that stops half-way leaves the old content") {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  // A file size limit acts like a full disk: the first write is short, the next one fails.
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Failure got = failure([&] { write_file_atomically(folder / "f", std::string(5000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  CHECK(got == Failure{Exit::storage, (folder / "f") + ": error: cannot write: File too large"});
  CHECK(read_file(folder / "f") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("write_all writes everything or says why not") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
      got.append(buffer, static_cast<size_t>(n));
    }
  });
  CHECK(write_all(ends[1], large) == 0);
  CHECK(write_all(ends[1], "") == 0);
  ::close(ends[1]);
  reader.join();
  CHECK(got == large);
  const int read_only = ends[0];
  CHECK(write_all(read_only, "x") == EBADF);
  CHECK(errno == EBADF);
  ::close(read_only);
}

TEST_CASE("many threads may write one file") {
  const TempFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        write_file_atomically(folder / "f", std::string(5000, static_cast<char>('a' + t)), false);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string content = read_file(folder / "f");
  CHECK(content == std::string(5000, content.at(0)));
}

TEST_CASE("a mapping shows the file's bytes") {
  const TempFolder folder;
  write_file_atomically(folder / "m", "abc");
  const MappedFile mapped(folder / "m");
  CHECK(std::string(mapped.bytes().begin(), mapped.bytes().end()) == "abc");
  write_file_atomically(folder / "empty", "");
  CHECK(MappedFile(folder / "empty").bytes().empty());
  CHECK(failure([&] { MappedFile m(folder / "absent"); }) ==
        Failure{Exit::usage, (folder / "absent") + ": error: no such file"});
  CHECK(failure([&] { MappedFile m(folder.path()); }) ==
        Failure{Exit::usage, folder.path() + ": error: is a folder"});
  CHECK(failure([&] { MappedFile m("/dev/null"); }) ==
        Failure{Exit::usage, "/dev/null: error: is a device, not a file"});
}

TEST_CASE("a mapped file that is cut off ends the process with its name and the offset") {
  const TempFolder folder;
  const std::string file = folder / "weights\n.npz", said = folder / "said";
  write(file, std::string(3 << 12, 'x'));
  const int status = run_in_child([&] {
    const int fd = ::open(said.c_str(), O_WRONLY | O_CREAT, 0644);
    ::dup2(fd, STDERR_FILENO);
    const MappedFile other(folder / "said"), mapped(file);
    ::truncate(file.c_str(), 1 << 12);
    const volatile uint8_t* bytes = mapped.bytes().data();
    if (bytes[0] != 'x') ::_exit(98);
    static_cast<void>(bytes[(2 << 12) + 5]);
    ::_exit(97);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(read_text(said) == folder.path() +
                               "/weights\\n.npz @ offset 8197: error: cannot be read: the file was "
                               "truncated, or its disk is faulty\n");
}

TEST_CASE("folders are made with their parents") {
  const TempFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  CHECK(fs::is_directory(folder / "a/b/c"));
  write_file_atomically(folder / "f", "x");
  CHECK(failure([&] { make_folders(folder / "f/g"); }) ==
        Failure{Exit::storage,
                (folder / "f/g") + ": error: cannot make the folder: Not a directory"});
}

TEST_CASE("the cache follows XDG") {
  const Variable home("HOME", "/home/a"), xdg("XDG_CACHE_HOME", "/x/y");
  CHECK(cache_home() == "/x/y/bvtrain");
  ::setenv("XDG_CACHE_HOME", "relative", 1);  // the specification requires ignoring it
  CHECK(cache_home() == "/home/a/.cache/bvtrain");
}

TEST_CASE("error lines") {
  CHECK(std::string(Error(Exit::usage, "f:1:2", "x").what()) == "f:1:2: error: x");
  CHECK(std::string(Error(Exit::usage, "", "x").what()) == "error: x");
  CHECK(std::string(Error::in("input.idx", Exit::data, "x").what()) == "[input.idx] x");
  CHECK_NOTHROW(check(true, "never {}", 1));
  CHECK(failure([] { check(false, "n is {}", 3); }) ==
        Failure{Exit::internal, "internal: error: n is 3"});
}

TEST_CASE("an error of a disk or a file server is not a mistake of the user") {
  for (const int error : {EIO, ESTALE, ETIMEDOUT, EACCES}) {
    INFO(error);
    try {
      throw_file_error(Exit::usage, "f", "", error);
    } catch (const Error& thrown) {
      CHECK(thrown.code() == (error == EACCES ? Exit::usage : Exit::storage));
    }
  }
}

}  // namespace bv::test

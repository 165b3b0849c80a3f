// Reading with limits, atomic replacement and mapping: contents and exact error lines.
#include "lib/util/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/mapped_file.h"
#include "test/support/folder.h"

using namespace bv;
using namespace bv::test;
namespace fs = std::filesystem;

namespace {

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

TEST_CASE("reading fails in one line") {
  const TempFolder folder;
  const std::string file = folder / "a.txt";
  CHECK(failure([&] { read_file(file); }) == Failure{Exit::usage, file + ": error: no such file"});
  CHECK(failure([&] { read_file(folder.path()); }) ==
        Failure{Exit::usage, folder.path() + ": error: is a folder"});
  write_file_atomically(file, "12345");
  CHECK(failure([&] { read_file(file, 4); }) ==
        Failure{Exit::usage, file + ": error: larger than 4 bytes"});
  // A device without end and without a size.
  CHECK(failure([&] { read_file("/dev/zero", 5000); }) ==
        Failure{Exit::usage, "/dev/zero: error: larger than 5000 bytes"});
  CHECK(failure([&] { read_file(file + "/x"); }) ==
        Failure{Exit::usage, file + "/x: error: Not a directory"});
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
        Failure{Exit::usage, "/dev/null: error: not a regular file"});
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
  const char* old_xdg = std::getenv("XDG_CACHE_HOME");
  const std::string saved = old_xdg == nullptr ? "" : old_xdg;
  ::setenv("XDG_CACHE_HOME", "/x/y", 1);
  CHECK(cache_home() == "/x/y/bvtrain");
  ::setenv("XDG_CACHE_HOME", "relative", 1);  // the specification says to ignore it
  CHECK(cache_home() == std::string(std::getenv("HOME")) + "/.cache/bvtrain");
  old_xdg == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

TEST_CASE("error lines") {
  CHECK(std::string(Error(Exit::usage, "f:1:2", "x").what()) == "f:1:2: error: x");
  CHECK(std::string(Error(Exit::usage, "", "x").what()) == "error: x");
  CHECK(std::string(Error::in("input.idx", Exit::data, "x").what()) == "[input.idx] x");
  CHECK_NOTHROW(check(true, "never {}", 1));
  CHECK(failure([] { check(false, "n is {}", 3); }) ==
        Failure{Exit::internal, "internal: error: n is 3"});
}

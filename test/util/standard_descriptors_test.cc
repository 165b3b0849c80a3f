// A program that is started with closed standard descriptors.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/util/file.h"
#include "test/support/child.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("closed standard descriptors are opened, so that no file gets their numbers") {
  const TempFolder folder;
  for (int closed = 1; closed < 8; ++closed) {  // every set of the three
    const int status = run_in_child([&] {
      for (int fd = 0; fd < 3; ++fd) {
        if ((closed & 1 << fd) != 0) ::close(fd);
      }
      open_standard_descriptors();
      const int file = ::open((folder / "file").c_str(), O_WRONLY | O_CREAT, 0666);
      const bool lost = write_all(STDERR_FILENO, "") == 0;
      // No read or write is lost silently.
      char byte = 0;
      const bool no_input = (closed & 1) == 0 || ::read(STDIN_FILENO, &byte, 1) < 0;
      const bool no_output = (closed & 2) == 0 || write_all(STDOUT_FILENO, "x") != 0;
      ::_exit(file > STDERR_FILENO && lost && no_input && no_output ? 0 : 1);
    });
    CHECK(status == 0);
  }
}

}  // namespace bv::test

#include "lib/predict/file_list.h"

#include <unistd.h>

#include "test/support/error.h"

namespace bv::test {
namespace {

using Files = std::vector<std::string>;

Files list(std::string_view text) { return parse_file_list(text); }

}  // namespace

TEST_CASE("a list of files has one a line, or one before each NUL") {
  CHECK(list("a.jpg\nb c.jpg\n") == Files{"a.jpg", "b c.jpg"});
  CHECK(list("a.jpg\n\nb.jpg") == Files{"a.jpg", "b.jpg"});
  CHECK(list("a.jpg\r\nb.jpg\r\n") == Files{"a.jpg", "b.jpg"});
  using namespace std::string_view_literals;
  CHECK(list("a\nb.jpg\0c.jpg\r\0"sv) == Files{"a\nb.jpg", "c.jpg\r"});
  CHECK(list("").empty());
}

TEST_CASE("an empty list of files is refused") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "\n\n", 2) == 2);
  ::close(ends[1]);
  CHECK(error_of([&] { read_file_list(ends[0]); }) == "standard input: error: lists no files");
  ::close(ends[0]);
}

}  // namespace bv::test

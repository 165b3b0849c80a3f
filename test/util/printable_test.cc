// The parts of a name that reach a terminal.
#include "lib/util/printable.h"

#include <catch2/catch.hpp>

#include "lib/util/error.h"

namespace bv {

TEST_CASE("text that a terminal would obey is escaped, all other text stays") {
  CHECK(printable("a b/ä-日本語-🐈-\\x") == "a b/ä-日本語-🐈-\\x");
  CHECK(printable("\x1b[2J\r\t\x7f") == R"(\x1b[2J\x0d\x09\x7f)");
  CHECK(printable("a\nb") == R"(a\nb)");
  CHECK(printable(std::string_view("\0", 1)) == R"(\x00)");
  CHECK(printable("\u009b2J\u0085") == R"(\u009b2J\u0085)");  // controls of two bytes
  CHECK(printable("a\u202egpj.\u2066b\u200f") == R"(a\u202egpj.\u2066b\u200f)");
  CHECK(printable("a\u2028b\u2029") == R"(a\u2028b\u2029)");  // separate lines
  CHECK(printable("\xff\x9b\xc3") == R"(\xff\x9b\xc3)");      // not UTF-8
  CHECK(printable("\u200d\u00a0") == "\u200d\u00a0");         // joins emojis; a blank
  const std::string once = printable("\x1b\n\u202e\xff");
  CHECK(printable(once) == once);
}

TEST_CASE("a long text is cut between characters") {
  CHECK(printable("ääää", 3) == "ää...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("abcd", 3) == "abc...");
}

TEST_CASE("text of several lines keeps its lines") {
  CHECK(printable_lines("a\tb\n\x1b[2J\u202e\n") == "a\tb\n\\x1b[2J\\u202e\n");
}

TEST_CASE("an error is one line, whatever names it holds") {
  const Error error(Exit::usage, "a\n.npz", "no array 'b\x1b'");
  CHECK(error.what() == std::string(R"(a\n.npz: error: no array 'b\x1b')"));
  CHECK(error.message() == R"(no array 'b\x1b')");
  CHECK(Error::in("input", Exit::data, "x\ny").what() == std::string(R"([input] x\ny)"));
  CHECK(Error::bare(Exit::data, "x\ny").message() == R"(x\ny)");
  CHECK(Error::all(Exit::usage, {error, error}).what() ==
        std::string(error.what()) + "\n" + error.what());
}

}  // namespace bv

// Splitting, nearest names, sizes, UTF-8, JSON strings.
#include "lib/util/text.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "test/support/text.h"

namespace bv::test {

using Strings = std::vector<std::string>;

TEST_CASE("split, join, trim") {
  CHECK(split("a|b||", '|') == Strings{"a", "b", "", ""});
  CHECK(split("", '|') == Strings{""});
  CHECK(join({"a", "b"}, ", ") == "a, b");
  CHECK(join({}, ", ").empty());
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n").empty());
  CHECK(without_bom("\xEF\xBB\xBF"
                    "cat") == "cat");
  CHECK(without_bom("cat\xEF\xBB\xBF") == "cat\xEF\xBB\xBF");
}

TEST_CASE("a short list shows eight names, and how many there are") {
  const Strings eight = {"a", "b", "c", "d", "e", "f", "g", "h"};
  CHECK(short_list({}).empty());
  CHECK(short_list(eight) == "a, b, c, d, e, f, g, h");
  Strings nine = eight;
  nine.emplace_back("i");
  CHECK(short_list(nine) == "a, b, c, d, e, f, g, h, ... (9 in all)");
  CHECK(short_list(nine, /*counted=*/false) == "a, b, c, d, e, f, g, h, ...");
}

TEST_CASE("counted nouns and the fields of a CSV file") {
  CHECK(counted(0, "file") == "0 files");
  CHECK(counted(1, "file") == "1 file");
  CHECK(csv_field("a b") == "a b");
  CHECK(csv_field("a, \"b\"") == "\"a, \"\"b\"\"\"");
}

TEST_CASE("the tests replace text everywhere, and what replaces it is not searched") {
  CHECK(test::replace_all("a DIR and a DIR", "DIR", "/tmp/DIRx") == "a /tmp/DIRx and a /tmp/DIRx");
  CHECK(test::replace_all("aaa", "aa", "a") == "aa");
  CHECK(test::replace_all("one\n\ntwo\n", "\n", "\\n") == "one\\n\\ntwo\\n");
  CHECK(test::replace_all("a, b", ", ", "") == "ab");
  CHECK(test::replace_all("", "a", "b") == "");
}

TEST_CASE("the nearest name is close or there is none") {
  const Strings known = {"optimizer", "lr", "wd", "schedule", "resize", "resize_small", "vit"};
  CHECK(nearest("optmizer", known) == "optimizer");
  CHECK(nearest("optimzier", known) == "optimizer");  // a swap costs 1
  CHECK(nearest("Schedule", known) == "schedule");
  CHECK(nearest("VIT", known) == "vit");
  CHECK(nearest("resise", known) == "resize");
  CHECK(nearest("lf", known) == "lr");
  CHECK(nearest("x", known).empty());  // every single letter is one step from every other
  CHECK(nearest("ab", known).empty());
  CHECK(nearest("epochs", known).empty());
  CHECK(nearest("", known).empty());
  CHECK(nearest("a", {}).empty());
  CHECK(nearest(std::string(100000, 'a'), known).empty());
  CHECK(nearest("abcd", {"abdc", "abcd"}) == "abcd");
}

TEST_CASE("sizes for people") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(1024.0 * 1024 - 1) == "1.0 MiB");
  CHECK(human_bytes(1.5 * 1024 * 1024 * 1024) == "1.5 GiB");
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(6573120) == "6,573,120");
  CHECK(human_count(-1000) == "-1,000");
}

TEST_CASE("numbers with 4 digits") {
  CHECK(short_number(0.98765) == "0.9877");
  CHECK(short_number(1234) == "1234");
  CHECK(short_number(21028) == "21.03k");
  CHECK(short_number(999960) == "1M");
  CHECK(short_number(-2.5e9) == "-2.5G");
  CHECK(short_number(0) == "0");
  CHECK(short_number(NAN) == "nan");
  CHECK(short_number(1e20) == "1e+20");
}

TEST_CASE("words of a shell are quoted where it is necessary") {
  CHECK(shell_word("out/my-run_1.yaml") == "out/my-run_1.yaml");
  CHECK(shell_word("a=b:c,d@e%f+g") == "a=b:c,d@e%f+g");
  CHECK(shell_word("my run") == "'my run'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$HOME") == "'$HOME'");
  CHECK(shell_word("Ü") == "'Ü'");
  CHECK(shell_word("").size() == 2);
}

TEST_CASE("UTF-8 is well-formed or not") {
  CHECK(valid_utf8(""));
  CHECK(valid_utf8("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"));
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\xAF", "\xC1\x80", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "a\xE2\x28\xA1"}) {
    CHECK_FALSE(valid_utf8(bad));
  }
}

TEST_CASE("JSON strings are valid whatever the bytes") {
  CHECK(json_string("a\"b\\c\n\t\x01") == R"("a\"b\\c\n\t\u0001")");
  CHECK(json_string("ä") == "\"ä\"");
  CHECK(json_string("x\xFFy\xC3") == R"("x\ufffdy\ufffd")");
  CHECK(json_string(std::string_view("\0", 1)) == R"("\u0000")");
}

}  // namespace bv::test

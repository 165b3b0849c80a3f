#include "lib/input/sources/common/manifest/csv_row.h"

#include <catch2/catch.hpp>

#include "lib/util/rng.h"
#include "test/input/lists.h"

namespace bv::test {
namespace {

// Returns the cells of all rows of a CSV string.
std::vector<Names> csv_rows(const std::string& text, char delimiter = ',') {
  std::vector<Names> rows;
  for (size_t at = 0; at < text.size();) {
    std::vector<CsvCell> cells;
    const std::string rest = text.substr(at);
    const size_t length = read_csv_row(rest, delimiter, true, cells);
    // A shorter text gives the same row or none at all.
    std::vector<CsvCell> other;
    for (size_t n = 0; n < length; ++n) {
      size_t early = 0;
      CHECK_NOTHROW(early = read_csv_row(rest.substr(0, n), delimiter, false, other));
      if (early != 0) CHECK(early == length);
    }
    rows.emplace_back();
    for (const CsvCell& cell : cells) rows.back().push_back(cell.text);
    at += length;
  }
  return rows;
}

}  // namespace

TEST_CASE("csv: rows of RFC 4180", "[csv]") {
  CHECK(csv_rows("a,b,c\n1,2,3\n") == std::vector<Names>{{"a", "b", "c"}, {"1", "2", "3"}});
  CHECK(csv_rows("a,b\r\n1,2") == std::vector<Names>{{"a", "b"}, {"1", "2"}});
  CHECK(csv_rows("\"a,b\",\"c\"\"d\",\"e\nf\r\ng\",\"\"\n") ==
        std::vector<Names>{{"a,b", "c\"d", "e\nf\r\ng", ""}});
  CHECK(csv_rows(",,\n") == std::vector<Names>{{"", "", ""}});
  CHECK(csv_rows("\"\"\"\"\n") == std::vector<Names>{{"\""}});
  CHECK(csv_rows("a;b,c\n", ';') == std::vector<Names>{{"a", "b,c"}});
  CHECK(csv_rows("a\tb \t c\n", '\t') == std::vector<Names>{{"a", "b", "c"}});
  CHECK(csv_rows(" a b ,\" c \"\n") == std::vector<Names>{{"a b", " c "}});
  CHECK(csv_rows("a\n\nb\r") == std::vector<Names>{{"a"}, {""}, {"b"}});
}

TEST_CASE("csv: random cells survive a round trip", "[csv]") {
  const Names pieces = {"a", "\"", ",", "\n", "\r\n", "\r", " ", "ü", ";", "\t", "\"\"", "|"};
  Rng rng(3, Purpose::synthetic, 0);
  for (const char delimiter : {',', ';', '\t', '|'}) {
    for (int round = 0; round < 25; ++round) {
      std::vector<Names> rows;
      std::string text;
      const int64_t columns = 1 + rng.below(4);
      for (int64_t row = 1 + rng.below(4); row > 0; --row) {
        rows.emplace_back();
        for (int64_t i = 0; i < columns; ++i) {
          std::string cell;
          for (int64_t n = rng.below(6); n > 0; --n)
            cell += pieces[rng.below(static_cast<int64_t>(pieces.size()))];
          const bool plain = !cell.empty() &&
                             cell.find_first_of("\"\r\n \t") == std::string::npos &&
                             cell.find(delimiter) == std::string::npos;
          std::string quoted = "\"";
          for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
          text += (i > 0 ? std::string(1, delimiter) : "") + (plain ? cell : quoted + "\"");
          rows.back().push_back(cell);
        }
        text += rng.below(2) == 0 ? "\n" : "\r\n";
      }
      INFO(text);
      CHECK(csv_rows(text, delimiter) == rows);
    }
  }
}

}  // namespace bv::test

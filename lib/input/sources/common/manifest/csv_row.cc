#include "lib/input/sources/common/manifest/csv_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/util/limits.h"

namespace bv {
namespace {

// Reads one row. The reading members return false if the input ends too early.
class CsvRowReader {
 public:
  CsvRowReader(std::string_view text, char delimiter, bool last, std::vector<CsvCell>& cells)
      : text_(text), delimiter_(delimiter), last_(last), cells_(cells) {}

  size_t read() {
    size_t count = 0;
    do {
      if (count == limits::kColumns)
        throw RowFault(at_, fmt::format("more than {} columns", limits::kColumns), /*fatal=*/true);
      if (count == cells_.size()) cells_.emplace_back();
      CsvCell& cell = cells_[count++];
      cell.at = at_;
      cell.text.clear();
      cell.quoted = at_ < text_.size() && text_[at_] == '"';
      if (!(cell.quoted ? read_quoted(cell) : read_plain(cell))) return 0;
    } while (take_delimiter());
    cells_.resize(count);
    return at_end_of_line() ? at_ : 0;
  }

 private:
  bool read_quoted(CsvCell& cell) {
    ++at_;
    while (true) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos || (quote + 1 == text_.size() && !last_)) {
        if (!last_) return false;
        throw RowFault(cell.at, "the quote that opens here is never closed", /*fatal=*/true);
      }
      cell.text.append(text_.substr(at_, quote - at_));
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') return true;
      cell.text += '"';
      ++at_;
    }
  }

  bool read_plain(CsvCell& cell) {
    const char stops[] = {delimiter_, '"', '\r', '\n'};
    const size_t stop = text_.find_first_of({stops, sizeof(stops)}, at_);
    if (stop == std::string_view::npos && !last_) return false;
    const size_t end = std::min(stop, text_.size());
    if (end < text_.size() && text_[end] == '"') {
      throw RowFault(end,
                     "a quote in a cell that does not begin with one: quote the whole cell, and "
                     "write the quote twice",
                     /*fatal=*/true);
    }
    std::string_view text = text_.substr(at_, end - at_);
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    cell.text = text;
    at_ = end;
    return true;
  }

  bool take_delimiter() {
    if (at_ == text_.size() || text_[at_] != delimiter_) return false;
    ++at_;
    return true;
  }

  // Takes the end of the line after the last cell. Returns false if it is not there yet.
  bool at_end_of_line() {
    if (at_ == text_.size()) return last_;
    if (text_[at_] == '\n') {
      ++at_;
      return true;
    }
    if (text_[at_] != '\r') {
      throw RowFault(at_,
                     fmt::format("expected {} or the end of the line after the closing quote",
                                 delimiter_text(delimiter_)),
                     /*fatal=*/true);
    }
    if (at_ + 1 == text_.size() && !last_) return false;
    if (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') {
      throw RowFault(at_,
                     "a carriage return in the middle of a line: end lines with LF or CR LF, and "
                     "quote cells that contain one",
                     /*fatal=*/true);
    }
    at_ = std::min(at_ + 2, text_.size());
    return true;
  }

  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }

  std::string_view text_;
  char delimiter_;
  bool last_;
  std::vector<CsvCell>& cells_;
  size_t at_ = 0;
};

}  // namespace

size_t read_csv_row(std::string_view text, char delimiter, bool last, std::vector<CsvCell>& cells) {
  return CsvRowReader(text, delimiter, last, cells).read();
}

bool is_empty_line(const std::vector<CsvCell>& cells) {
  return cells.size() == 1 && cells[0].text.empty() && !cells[0].quoted;
}

char guess_delimiter(std::string_view text) {
  constexpr std::string_view kDelimiters = ",;\t|";
  size_t counts[kDelimiters.size()] = {};
  bool quoted = false;
  for (const char c : text) {
    if (c == '\n' && !quoted) break;
    if (c == '"') quoted = !quoted;
    const size_t which = kDelimiters.find(c);
    if (which != std::string_view::npos && !quoted) ++counts[which];
  }
  return kDelimiters[std::max_element(std::begin(counts), std::end(counts)) - std::begin(counts)];
}

std::string delimiter_text(char delimiter) {
  return delimiter == '\t' ? "a tab" : fmt::format("'{}'", delimiter);
}

}  // namespace bv

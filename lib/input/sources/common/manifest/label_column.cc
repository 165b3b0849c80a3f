#include "lib/input/sources/common/manifest/label_column.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/input/source.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using NumberKind = PlainNumber::Kind;

// How programs write a missing value. "None" is not included, because it may be a class.
constexpr std::string_view kMissing[] = {"nan",  "NaN", "NAN", "-nan", "-NaN", "null", "NULL",
                                         "<NA>", "NA",  "N/A", "n/a",  "#N/A", "#NA",  "#N/A N/A"};
// How spreadsheets write the error of a formula. They write #N/A, too.
constexpr std::string_view kFormulaErrors[] = {"#REF!", "#VALUE!", "#DIV/0!", "#NAME?",
                                               "#NUM!", "#NULL!",  "#ERROR!"};

template <size_t N>
bool is_one_of(std::string_view text, const std::string_view (&all)[N]) {
  return std::find(std::begin(all), std::end(all), text) != std::end(all);
}

}  // namespace

void LabelCode::index_names() {
  numbers_.clear();
  for (size_t i = 0; i < names.size(); ++i) numbers_.emplace(names[i], static_cast<int64_t>(i));
}

std::optional<int64_t> LabelCode::find(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

RowFault LabelCode::unknown_class(std::string_view text, size_t at, bool similar) const {
  const std::string name = similar ? nearest(text, names) : "";
  return {at, fmt::format("unknown class '{}'{}; known: {}", printable(text),
                          name.empty() ? "" : fmt::format(" (did you mean '{}'?)", name),
                          short_list(names))};
}

int64_t LabelCode::number_of(std::string_view text, size_t at) const {
  if (kind == LabelCode::Kind::name) {
    if (const auto found = find(text)) return *found;
    throw unknown_class(text, at, /*similar=*/true);
  }
  const PlainNumber number = plain_number(text);
  if (number.kind != NumberKind::whole)
    throw RowFault(at, fmt::format("'{}' is not an integer", printable(text)));
  if (!names.empty() && (number.whole < 0 || number.whole >= classes)) {
    throw RowFault(at,
                   fmt::format("the label is {}, must be within 0 .. {}, as `classes` has {} names",
                               number.whole, classes - 1, names.size()));
  }
  return number.whole;
}

void LabelColumn::FirstLabel::see(std::string_view label, size_t at, const RowText& row) {
  if (count++ > 0) return;
  text = printable(label);
  line = row.line_of(at);
  column = row.column_of(at);
}

LabelColumn::LabelColumn(const std::vector<std::string>& classes) {
  given_.kind = LabelCode::Kind::name;
  given_.names = classes;
  given_.classes = static_cast<int64_t>(classes.size());
  given_.index_names();
}

std::optional<int64_t> LabelColumn::see_given(std::string_view text, size_t at,
                                              const RowText& row) {
  if (given_.find(text)) {
    names_.see(text, at, row);
    return std::nullopt;
  }
  const PlainNumber number = plain_number(text);
  if (number.kind != NumberKind::whole || number.whole < 0 || number.whole >= given_.classes)
    throw given_.unknown_class(text, at, /*similar=*/unknown_seen_++ < kShownRows);
  wholes_.see(text, at, row);
  return number.whole;
}

std::optional<int64_t> LabelColumn::see(std::string_view text, size_t at, const RowText& row) {
  if (!given_.names.empty()) return see_given(text, at, row);
  const bool missing = is_one_of(text, kMissing);
  if (missing || is_one_of(text, kFormulaErrors)) {
    throw RowFault(at, fmt::format("the label '{0}' {1}: {2} the row, or list the class '{0}' in "
                                   "`classes`",
                                   text,
                                   missing ? "means that the value is missing"
                                           : "is the error of a spreadsheet's formula",
                                   missing ? "remove" : "correct"));
  }
  const PlainNumber number = plain_number(text);
  if (number.kind == NumberKind::huge)
    throw RowFault(at, "the label is a number that is too large");
  if (number.kind == NumberKind::none && has_decimal_comma(text)) {
    throw RowFault(at, fmt::format("the label '{}' has a decimal comma: write a decimal point",
                                   printable(text)));
  }
  (number.kind == NumberKind::whole  ? wholes_
   : number.kind == NumberKind::real ? reals_
                                     : names_)
      .see(text, at, row);
  if (number.kind == NumberKind::whole) return number.whole;
  return std::nullopt;
}

uint32_t LabelColumn::id_of(std::string_view text, size_t at) {
  if (!too_many_) {
    const auto [entry, added] = ids_.emplace(text, static_cast<uint32_t>(ids_.size()));
    if (!added || ids_.size() <= limits::kClasses) return entry->second;
    too_many_ = true;
    ids_.clear();
  }
  if (names_.count == 0) return kNoId;
  throw RowFault(at,
                 fmt::format("more than {} different labels, and not all are numbers: is this the "
                             "column with the labels?",
                             human_count(limits::kClasses)),
                 /*fatal=*/true);
}

void LabelColumn::add(std::string_view text, size_t at, const RowText& row) {
  if (text.empty()) throw RowFault(at, "the label is empty");
  const std::optional<int64_t> whole = see(text, at, row);
  const bool real = !whole && names_.count == 0;
  rows_.push_back(real ? kNoId : id_of(text, at));
  if (whole) greatest_ = std::max(greatest_, *whole);
  if (whole && reals_.count + names_.count == 0)
    whole_rows_.push_back(*whole);
  else
    whole_rows_.clear();
}

void LabelColumn::add_broken() {
  rows_.push_back(kNoId);
  if (reals_.count + names_.count == 0) whole_rows_.push_back(Source::kNoLabel);
}

void LabelColumn::add_one_of_several(std::string_view text, size_t at, const RowText& row) {
  const std::optional<int64_t> whole = see(text, at, row);
  if (whole) {
    if (*whole < 0 || *whole >= static_cast<int64_t>(limits::kClasses)) {
      throw RowFault(
          at, fmt::format("the label is {}, must be within 0 .. {}", *whole, limits::kClasses - 1));
    }
    greatest_ = std::max(greatest_, *whole);
  }
  id_of(text, at);
}

LabelCode LabelColumn::finish(const std::string& file) const {
  const auto mixed = [&](const FirstLabel& odd, const FirstLabel& others, const char* what) {
    return Error(
        Exit::usage, fmt::format("{}:{}:{}", file, odd.line, odd.column),
        fmt::format("the label '{}' is {}, but line {} has the label '{}'{}", odd.text, what,
                    others.line, others.text,
                    given_.names.empty()
                        ? ": for a classification give the names of all classes in `classes`"
                        : ""));
  };
  if (wholes_.count + reals_.count + names_.count == 0)
    throw Error(Exit::usage, file, "no row has a label");
  if (reals_.count > 0 && names_.count > 0) throw mixed(names_, reals_, "not a number");
  LabelCode code;
  if (!given_.names.empty()) {
    if (names_.count > 0 && wholes_.count > 0) {
      throw names_.count < wholes_.count ? mixed(names_, wholes_, "a name")
                                         : mixed(wholes_, names_, "a number");
    }
    code = given_;
    if (names_.count == 0) code.kind = LabelCode::Kind::number;
    return code;
  }
  if (names_.count > 0) {
    code.kind = LabelCode::Kind::name;
    for (const auto& [text, id] : ids_) code.names.push_back(text);
    std::sort(code.names.begin(), code.names.end());
    code.index_names();
    code.classes = static_cast<int64_t>(code.names.size());
  } else if (reals_.count > 0) {
    code.kind = LabelCode::Kind::real;
  } else {
    code.kind = LabelCode::Kind::number;
    code.classes = greatest_ == INT64_MAX ? greatest_ : greatest_ + 1;
  }
  return code;
}

std::vector<int64_t> LabelColumn::numbers(const LabelCode& code) const {
  std::vector<int64_t> all;
  if (code.kind == LabelCode::Kind::real) return all;
  if (code.kind == LabelCode::Kind::number) return whole_rows_;
  std::vector<int64_t> by_id(ids_.size());
  for (const auto& [text, id] : ids_) by_id[id] = code.number_of(text, 0);
  for (const uint32_t id : rows_) all.push_back(id == kNoId ? Source::kNoLabel : by_id[id]);
  return all;
}

std::string LabelColumn::suspicion(const LabelCode& code) const {
  constexpr int64_t kFewNumbers = 9;  // of fewer labels, one that is a name may be meant
  const bool alone = names_.count == 1 && wholes_.count >= kFewNumbers;
  if (code.kind != LabelCode::Kind::name || (!alone && wholes_.count <= 99 * names_.count))
    return "";
  return fmt::format(
      "{} of {} labels {}, such as '{}' in line {}: all labels are taken as class names",
      human_count(names_.count), human_count(names_.count + wholes_.count),
      names_.count == 1 ? "is not a number" : "are not numbers", names_.text, names_.line);
}

std::vector<std::string_view> several_labels(std::string_view cell, bool bars) {
  const std::string_view separators = bars ? ";|" : " \t\r\n";
  std::vector<std::string_view> labels;
  while (!cell.empty()) {
    const size_t end = std::min(cell.find_first_of(separators), cell.size());
    std::string_view label = cell.substr(0, end);
    while (!label.empty() && (label.front() == ' ' || label.front() == '\t'))
      label.remove_prefix(1);
    while (!label.empty() && (label.back() == ' ' || label.back() == '\t')) label.remove_suffix(1);
    if (!label.empty()) labels.push_back(label);
    cell.remove_prefix(std::min(end + 1, cell.size()));
  }
  return labels;
}

}  // namespace bv

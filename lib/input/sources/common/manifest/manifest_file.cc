#include "lib/input/sources/common/manifest/manifest_file.h"

#include <algorithm>
#include <array>

#include "lib/input/sources/common/gzip.h"
#include "lib/report/log.h"
#include "lib/util/limits.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

constexpr size_t kFirstRead = size_t{1} << 20;

// Returns why the file, which begins with `head`, is not UTF-8 text; "" if it may be.
std::string not_text(std::span<const uint8_t> head) {
  std::string why = wrong_file(head);
  return why.empty() ? other_encoding(head) : why;
}

}  // namespace

std::string other_encoding(std::span<const uint8_t> head) {
  if (is_gzip(head)) return "is compressed: unpack it with gunzip";
  if (head.size() >= 2 &&
      ((head[0] == 0xFF && head[1] == 0xFE) || (head[0] == 0xFE && head[1] == 0xFF)))
    return "is UTF-16 text: save the file as UTF-8";
  if (head.size() >= 4 && head[0] == 'P' && head[1] == 'K' && head[2] == 3 && head[3] == 4)
    return "is a zip archive or a spreadsheet: save it as a text file";
  return "";
}

Error row_error(const std::string& file, const RowText& row, const RowFault& fault) {
  return {Exit::usage,
          fmt::format("{}:{}:{}", file, row.line_of(fault.at()), row.column_of(fault.at())),
          fault.what()};
}

ManifestFile::ManifestFile(const std::string& file) : name_(file), file_(file) {
  std::array<uint8_t, 64> head{};
  const size_t size = file_.read(head.data(), head.size(), 0);
  const std::span<const uint8_t> bytes(head.data(), size);
  if (const std::string why = not_text(bytes); !why.empty()) throw Error(Exit::usage, file, why);
  if (size >= 3 && head[0] == 0xEF && head[1] == 0xBB && head[2] == 0xBF) offset_ = 3;
}

ManifestFile::~ManifestFile() {
  if (shown_) log::clear_progress();
}

void ManifestFile::read_more() {
  poll_signals();
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  const uint64_t from = offset_ + old;
  const size_t size = std::min<uint64_t>(std::max(kFirstRead, old), file_.size() - from);
  buffer_.resize(old + size);
  if (file_.read(buffer_.data() + old, size, from) < size)
    throw Error(Exit::usage, name_, "became shorter while it was read");
  if (from == 0 && size == file_.size()) return;  // a small file: no progress to show
  shown_ = true;
  log::progress(fmt::format("{}: {} of {} read", name_, human_bytes(static_cast<double>(from)),
                            human_bytes(static_cast<double>(file_.size()))));
}

size_t ManifestFile::length_of_row(const RowLength& length_of) {
  while (true) {
    const bool last = at_end();
    const size_t length = rest().empty() && !last ? 0 : length_of(rest(), last);
    if (length > limits::kRowBytes || (length == 0 && rest().size() > limits::kRowBytes)) {
      length_of(rest(), /*last=*/true);  // an error about an open quote is more useful
      throw Error(Exit::usage, fmt::format("{}:{}", name_, line_),
                  fmt::format("the row is longer than {} MiB", limits::kRowBytes >> 20));
    }
    if (length > 0) return length;
    check(!last, "a row of '{}' without an end", name_);
    read_more();
  }
}

std::optional<ManifestRow> ManifestFile::next(const RowLength& length_of) {
  const std::string_view before = rest().substr(0, row_);
  line_ += std::count(before.begin(), before.end(), '\n');
  begin_ += row_;
  offset_ += row_;
  row_ = 0;
  if (rest().empty() && at_end()) return std::nullopt;
  try {
    row_ = length_of_row(length_of);
  } catch (const RowFault& fault) {
    throw row_error(name_, RowText{rest(), line_}, fault);
  }
  const std::string_view text = rest().substr(0, row_);
  return ManifestRow{RowText{text, line_}, offset_, text.ends_with('\n')};
}

}  // namespace bv

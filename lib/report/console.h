// Writes to standard error. Its reader may stop reading: a pager, a terminal after Ctrl-S, a lost
// ssh connection. A run must not wait for such a reader: it would neither train nor obey a signal.
#pragma once

#include <string>
#include <string_view>

namespace bv::console {

// From now on write() waits at most one second for standard error, and then drops the text. After a
// drop, write() does not wait at all, until standard error takes text again. The first text after
// that begins with a warning that counts the missing lines. It names `log_file`, which has the
// lines of the log; "": no file has them. Call this only if the text is also written elsewhere, or
// if waiting would do more harm than losing the text.
void drop_when_stalled(const std::string& log_file = "");

// Writes `text`. Without drop_when_stalled() it waits until all of the text is written. If only a
// part of a line was written, the next text begins on a new line. A failed write is ignored,
// because there is no place to report it. A text that redraws the line on a terminal begins with
// '\r'. Thread-safe.
void write(std::string_view text);

}  // namespace bv::console

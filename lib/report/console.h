// Writes to standard error. Its reader may stop reading: a pager, a terminal after Ctrl-S, a lost
// ssh connection. A run must not wait for such a reader: it would neither train nor obey a signal.
#pragma once

#include <string_view>

namespace bv::console {

// From now on write() waits at most one second for standard error, and then drops the text. After a
// drop, write() does not wait at all, until standard error takes text again. Call this only if the
// text is also written elsewhere, or if waiting would do more harm than the lost text.
void drop_when_stalled();

// Writes `text`. Without drop_when_stalled() it waits until all of the text is written. Returns
// false if text was dropped. If a line was cut, the next text begins on a new line. A write that
// fails counts as success, since the failure cannot be reported. Thread-safe.
bool write(std::string_view text);

}  // namespace bv::console

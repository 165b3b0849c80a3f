// Standard error, whose reader may stop reading: a pager, a terminal after Ctrl-S, a lost ssh
// connection. A run must not wait for it, because then it would neither train nor obey a signal.
#pragma once

#include <string_view>

namespace bv::console {

// From now on write() waits at most one second for standard error and then drops the text; later
// calls do not wait until it takes text again. Call it where the text is written elsewhere too, or
// where waiting does more harm.
void drop_when_stalled();

// Writes all of `text`. Before drop_when_stalled() it waits as long as that takes.
// Returns false if text was dropped. If a line was cut, the next text begins on a new line. A write
// that fails counts as success, since it cannot be reported. Thread-safe.
bool write(std::string_view text);

}  // namespace bv::console

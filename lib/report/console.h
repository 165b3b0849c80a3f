// Standard error, whose reader may stop reading: a pager, a terminal after Ctrl-S, a lost ssh
// connection. A run must not wait for it, because then it would neither train nor obey a signal.
#pragma once

#include <string_view>

namespace bv::console {

// From now on text is dropped if standard error takes none for a second, and at once until it takes
// text again. Call it where the text is written elsewhere too, or where waiting does more harm.
void drop_when_stalled();

// Writes all of `text`, and waits as long as that takes until drop_when_stalled() was called.
// Returns false if text was dropped. If a line was cut, the next text begins on a new line. A write
// that fails counts as success, since it cannot be reported. Thread-safe.
bool write(std::string_view text);

}  // namespace bv::console

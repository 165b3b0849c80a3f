// Changes the TensorBoard event files that earlier starts of a run have written (event_writer.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bv {

// Begins the name of an event file: events.out.tfevents.<seconds>.<host>.<pid>.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

// Removes the points of `from_step` and of later steps from the event files in `dir`. Otherwise
// TensorBoard's default server would show them, because it ignores the purge_step of EventWriter.
// If a file has such points, it is replaced atomically, without an incomplete record at its end.
// Other files stay as they are. If a file with such points is damaged or was written by another
// program, it also stays, and a warning says so. Throws Error(Exit::storage) if a file cannot be
// replaced.
void drop_events(const std::string& dir, int64_t from_step);

}  // namespace bv

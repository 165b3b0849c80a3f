// The TensorBoard event files that earlier starts of a run have written (event_writer.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bv {

// Begins the name of an event file: events.out.tfevents.<seconds>.<host>.<pid>.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

// Drops the points of `from_step` and of later steps from the event files in `dir`. TensorBoard's
// default server would otherwise show them: it ignores the purge_step of EventWriter. An incomplete
// record at the end of a file is dropped with them. Each file is replaced atomically; one without
// such points stays as it is. So does, after a warning, a file that is damaged or that another
// program has written. Throws Error(Exit::storage) if a file cannot be replaced.
void drop_events(const std::string& dir, int64_t from_step);

}  // namespace bv

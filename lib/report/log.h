// The log: console (stderr) and log/rank-<r>.log of the workdir. The only user of spdlog, with the
// other files of this room. Thread-safe; a text of several lines becomes several stamped lines, and
// control characters in it are written as \x1b, so that no file name can play with a terminal.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace bv::log {

// Colours and a live progress line only on a terminal, and never with NO_COLOR set (or
// TERM=dumb). Call once; before that, messages go to stderr plainly (and there is no live line).
void start();
// Of several processes, the console shows all that rank 0 says and the others' warnings, with their
// rank; progress is rank 0's.
void set_rank(int rank);
// Also writes every line, stamped with UTC ISO-8601, to `file` (created, appended; an earlier one
// is closed). Throws Error(Exit::storage). If it cannot be written later, one warning says so and
// the run goes on: the log is not the run.
void open_file(const std::string& file);
void flush();

void write_info(std::string_view text);
void write_note(std::string_view text);  // "NOTE: text", NOTE in yellow on a terminal
void write_warning(std::string_view text);

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(fmt::format(format, std::forward<Args>(args)...));
}

// The progress line: on a terminal redrawn in place below the log lines (at most 10 times a
// second), elsewhere an ordinary line at most every 30 seconds. Never in the log file.
void progress(std::string_view text);
void clear_progress();
// To the log file only, not the console. Not flushed at once.
void write_detail(std::string_view text);

}  // namespace bv::log

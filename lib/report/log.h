// The log: the console (stderr) and the file log/rank-<r>.log of the workdir. All functions are
// thread-safe. Each line of a message gets its own time stamp. Control characters are written as
// escapes such as \x1b, so that a hostile file name cannot control the terminal.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace bv::log {

inline constexpr std::chrono::seconds kLongestSilence{30};

// Inspects the terminal. On one, the log has colours and a live progress line, unless NO_COLOR is
// set or TERM=dumb. Without one, progress is an ordinary line, written after `longest_silence`
// without output. Call it once, at the start of the program. Messages before that are plain.
void start(std::chrono::milliseconds longest_silence = kLongestSilence);
// Each rank of a run with several calls this. Afterwards rank 0 shows all its messages on the
// console. The other ranks show only their warnings, with the number of the rank.
void set_rank(int rank);
// From now on also appends every line to `file`, stamped with the UTC time in ISO 8601. Closes an
// earlier file. Throws Error(Exit::storage) if the file cannot be opened. A later failure to write
// loses log lines but does not stop the run; one warning reports it. From now on the console does
// not wait for its reader either (console::drop_when_stalled()).
void open_file(const std::string& file);
void flush();  // of the file
// From now on writes to the console only, so that the file can be deleted.
void close_file();

// Texts that may have several lines:
void write_info(std::string_view text);
void write_note(std::string_view text);  // "NOTE: text", with NOTE in yellow on a terminal
// "warning: text", or only `text` if it already is a warning with a place ("f.yaml:3: warning: x").
void write_warning(std::string_view text);

// A message is one line: names in it may hold newlines, which are escaped.
std::string one_line(std::string text);

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(one_line(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(one_line(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(one_line(fmt::format(format, std::forward<Args>(args)...)));
}

// Shows progress. On a terminal this is a line below the log that is redrawn in place, at most 10
// times a second, and cut to the width of the terminal. Otherwise it is an ordinary line, written
// only after a period without output (see start()). If the progress has not changed, that line says
// for how long. It does not go to the log file.
void progress(std::string_view text);
void clear_progress();  // nothing is in progress any more
// Writes to the log file only, not to the console. The lines may stay in a buffer until flush().
void write_detail(std::string_view text);

}  // namespace bv::log

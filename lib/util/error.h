// The one exception type of bvtrain, and check().
//
// what() is the whole line a user sees: "<where>: error: <message>" for a place in a file
// ("vit.yaml:12:7: error: ..."), or "[<room>] <message>" for what happens at run time
// ("[input.image_folder] train/cat/17.jpg: truncated JPEG").
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace bv {

// Exit codes of the process: stable, documented in README.md, branched on by scripts.
enum class Exit : int {
  ok = 0,        // finished, or already finished
  internal = 1,  // a bug
  usage = 2,     // bad usage, config, data set, weights or launch environment
  data = 3,      // data errors above the budget during the run
  diverged = 4,  // NaN or Inf
  storage = 5,   // a write failed
  memory = 6,    // out of memory
  peer = 7,      // a peer failed or a collective timed out
  stopped = 75,  // stopped early with a committed checkpoint: run the same command again
  sigint = 130,
  sigterm = 143,
};

class Error : public std::runtime_error {
 public:
  // `where` is "file:line:col" (or "file", "file @ offset N") and may be empty.
  Error(Exit code, std::string_view where, std::string_view message)
      : std::runtime_error(where.empty() ? fmt::format("error: {}", message)
                                         : fmt::format("{}: error: {}", where, message)),
        code_(code) {}
  Exit code() const { return code_; }

  // An error of a room at run time: "[room] message".
  static Error in(std::string_view room, Exit code, std::string_view message) {
    return Error(code, Line{fmt::format("[{}] {}", room, message)});
  }
  // A ready-made line (or several), for errors that were already formatted.
  static Error line(Exit code, std::string text) { return Error(code, Line{std::move(text)}); }

 private:
  struct Line {
    std::string text;
  };
  Error(Exit code, Line line) : std::runtime_error(line.text), code_(code) {}
  Exit code_;
};

// A condition that only a bug can break. Throws Error(Exit::internal).
template <class... Args>
void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) {
    throw Error(Exit::internal, "internal", fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace bv

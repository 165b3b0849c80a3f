// Error, the exception type of bvtrain, and check().
//
// what() is the whole line that a user sees: "<where>: error: <message>" for a problem at a place
// in a file ("vit.yaml:12:7: error: ..."), or "[<component>] <message>" for a problem that a part
// of the program, such as input or train, meets at run time ("[input] train/cat/17.jpg: truncated
// JPEG").
#pragma once

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/util/place.h"
#include "lib/util/printable.h"

namespace bv {

// The exit codes of the process, listed in docs/command-line.md. Scripts depend on them: they never
// change.
enum class Exit : int {
  ok = 0,        // finished, or already finished
  internal = 1,  // a bug
  usage = 2,     // bad usage, config, data set, weights or launch environment
  data = 3,      // data errors above the budget during the run
  diverged = 4,  // a NaN or infinite value
  storage = 5,   // a write failed, or a disk could not be read
  memory = 6,    // out of memory
  peer = 7,      // another rank failed or a collective timed out
  stopped = 75,  // stopped early with a committed checkpoint: run the same command again
  sigint = 130,
  no_reader = 141,  // the reader of standard output has closed the pipe
  sigterm = 143,
};

// An exception that keeps its exit code, place, component and message apart, so that a caller can
// add to them. Each problem is one line: control characters in it are escaped (printable()).
class Error : public std::runtime_error {
 public:
  // A problem at a place in a config.
  Error(Exit code, const Place& place, std::string_view message)
      : Error(code, place.text(), place, message) {}
  // A problem at `where`: "f.npz @ offset 312" or "images/cat". Leave `where` empty if no place is
  // known: what() is then "error: <message>".
  Error(Exit code, std::string_view where, std::string_view message)
      : Error(code, where, Place{std::string(where)}, message) {}

  // A problem in a part of the program at run time: what() is "[<component>] <message>".
  static Error in(std::string_view component, Exit code, std::string_view message) {
    Parts parts{.component = std::string(component), .message = one_line(message)};
    const std::string text = fmt::format("[{}] {}", component, parts.message);
    return Error(code, std::move(parts), text);
  }
  // A message for a caller that knows the place and adds it: what() is the message alone.
  static Error bare(Exit code, std::string_view message) {
    return Error(code, Parts{.message = one_line(message)}, one_line(message));
  }
  // Combines several problems. what() has a line for each, and "... and 3 more" if `left_out` is 3.
  static Error all(Exit code, std::vector<Error> problems, size_t left_out = 0);

  Exit code() const { return code_; }
  const std::string& where() const { return parts_->where; }          // empty if no place is known
  const Place& place() const { return parts_->place; }                // the same, for sorting
  const std::string& component() const { return parts_->component; }  // empty unless made by in()
  // The text without the place and the component; for all(), the whole text.
  const std::string& message() const { return parts_->message; }
  // Whether a caller should add a place: `where` is empty and this was not made by all().
  bool needs_place() const { return parts_->where.empty() && parts_->problems.empty(); }
  // The problems that were given to all(); otherwise just this one.
  std::vector<Error> problems() const {
    return parts_->problems.empty() ? std::vector<Error>{*this} : parts_->problems;
  }
  size_t left_out() const { return parts_->left_out; }  // the argument of all()

 private:
  struct Parts {
    std::string where = {};
    Place place = {};
    std::string component = {}, message = {};
    std::vector<Error> problems = {};
    size_t left_out = 0;
  };
  // Names in files and on the command line may hold anything. Escaped, they cannot control the
  // terminal or look like a separate line.
  static std::string one_line(std::string_view text) { return printable(text, std::string::npos); }
  Error(Exit code, Parts parts, const std::string& text)
      : std::runtime_error(text),
        code_(code),
        parts_(std::make_shared<const Parts>(std::move(parts))) {}
  Error(Exit code, std::string_view where, Place place, std::string_view message)
      : Error(
            code,
            Parts{
                .where = one_line(where), .place = std::move(place), .message = one_line(message)},
            where.empty() ? fmt::format("error: {}", one_line(message))
                          : fmt::format("{}: error: {}", one_line(where), one_line(message))) {}

  Exit code_;
  std::shared_ptr<const Parts> parts_;  // shared, so that copying an exception cannot throw
};

// Throws Error(Exit::internal) with the message unless `ok`. For conditions that only a bug can
// break.
template <class... Args>
void check(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) {
    throw Error(Exit::internal, "internal", fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace bv

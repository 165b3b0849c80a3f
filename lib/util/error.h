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

namespace bv {

// The exit codes of the process, listed in docs/command-line.md. Scripts depend on them: they never
// change.
enum class Exit : int {
  ok = 0,        // finished, or already finished
  internal = 1,  // a bug
  usage = 2,     // bad usage, config, data set, weights or launch environment
  data = 3,      // data errors above the budget during the run
  diverged = 4,  // a NaN or infinite value
  storage = 5,   // a write failed
  memory = 6,    // out of memory
  peer = 7,      // another rank failed or a collective timed out
  stopped = 75,  // stopped early with a committed checkpoint: run the same command again
  sigint = 130,
  sigterm = 143,
};

// An exception that keeps its exit code, place, component and message apart, so that a caller can
// add to them.
class Error : public std::runtime_error {
 public:
  // A problem at `where`: "vit.yaml:12:7", "vit.yaml" or "f.npz @ offset 312". Leave `where` empty
  // if no place is known: what() is then "error: <message>".
  Error(Exit code, std::string_view where, std::string_view message)
      : Error(code, Parts{.where = std::string(where), .message = std::string(message)},
              where.empty() ? fmt::format("error: {}", message)
                            : fmt::format("{}: error: {}", where, message)) {}

  // A problem in a part of the program at run time: what() is "[<component>] <message>".
  static Error in(std::string_view component, Exit code, std::string_view message) {
    return Error(code, Parts{.component = std::string(component), .message = std::string(message)},
                 fmt::format("[{}] {}", component, message));
  }
  // A message for a caller that knows the place and adds it: what() is the message alone.
  static Error bare(Exit code, std::string_view message) {
    return Error(code, Parts{.message = std::string(message)}, std::string(message));
  }
  // One or several complete lines, each with its place: what() is `text`.
  static Error lines(Exit code, std::string_view text) {
    return Error(code, Parts{.message = std::string(text), .complete = true}, std::string(text));
  }

  Exit code() const { return code_; }
  const std::string& where() const { return parts_->where; }          // empty if no place is known
  const std::string& component() const { return parts_->component; }  // empty unless made by in()
  // The text without the place and the component; for lines(), the whole text.
  const std::string& message() const { return parts_->message; }
  // Whether a caller should add a place: `where` is empty and the text was not made by lines().
  bool needs_place() const { return parts_->where.empty() && !parts_->complete; }

 private:
  struct Parts {
    std::string where = {}, component = {}, message = {};
    bool complete = false;
  };
  Error(Exit code, Parts parts, const std::string& text)
      : std::runtime_error(text),
        code_(code),
        parts_(std::make_shared<const Parts>(std::move(parts))) {}

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

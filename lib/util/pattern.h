// Regular expressions that select parameters by name ("head/.*"). They come from configs and may be
// anything, so matching must be safe for every pattern.
//
// The grammar is ECMAScript's without back-references. By default std::regex backtracks: "(a*)*b"
// then takes exponential time, and a long name overflows the stack. This class matches breadth
// first instead, in time proportional to the length of the pattern times that of the name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace bv {

class Pattern {
 public:
  // Throws Error(Exit::usage) with problem(text) if that is not empty.
  explicit Pattern(std::string text);

  const std::string& text() const { return text_; }
  // Whether the pattern matches the whole name.
  bool matches(std::string_view name) const;

  // Says why `text` cannot be a Pattern ("the pattern '(' is ..."); empty if it can.
  static std::string problem(const std::string& text);
  // The same if it shall match names of parameters, of which none begins with '/'.
  static std::string name_problem(const std::string& text);

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace bv

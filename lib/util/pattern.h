// Regular expressions that name parameters ("head/.*"), from configs: nobody checked them before.
//
// The grammar is ECMAScript's without back-references. A name is matched as a whole. std::regex
// backtracks by default, so that "(a*)*b" takes exponential time and a long name overflows the
// stack; here matching is breadth-first: its time grows with the product of the two lengths.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace bv {

class Pattern {
 public:
  // Throws Error(Exit::usage) with problem(text), where there is one.
  explicit Pattern(std::string text);

  const std::string& text() const { return text_; }
  bool matches(std::string_view name) const;

  // Why `text` can't be a Pattern: "the pattern '(' is ..."; "" if it can.
  static std::string problem(const std::string& text);

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace bv

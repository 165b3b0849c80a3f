#include "lib/util/error.h"

namespace bv {

Error Error::all(Exit code, std::vector<Error> problems, size_t left_out) {
  std::string text;
  for (const Error& problem : problems)
    text += (text.empty() ? "" : "\n") + std::string(problem.what());
  if (left_out > 0) text += fmt::format("\n... and {} more", left_out);
  return Error(code, Parts{.message = text, .problems = std::move(problems), .left_out = left_out},
               text);
}

}  // namespace bv

#include "lib/distributed/check_agreement.h"

#include <map>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<Error> problems;
  for (const auto& [key, value] : facts) {
    for (const std::string& text : disagreements(group, value))
      problems.emplace_back(Exit::usage, key, text);
  }
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems));
}

std::vector<std::string> disagreements(Group& group, const std::string& value) {
  const std::vector<std::string> values = group.gather_text(value, "start checks");
  std::map<std::string, std::vector<std::string>> others;  // value to ranks
  for (size_t r = 1; r < values.size(); ++r)
    if (values[r] != values[0]) others[values[r]].push_back(std::to_string(r));
  std::vector<std::string> texts;
  for (const auto& [other, ranks] : others)
    texts.push_back(fmt::format("rank{} {} {} '{}', rank 0 has '{}'", ranks.size() == 1 ? "" : "s",
                                join(ranks, ", "), ranks.size() == 1 ? "has" : "have", other,
                                values[0]));
  return texts;
}

}  // namespace bv

#include "lib/distributed/check_agreement.h"

#include <map>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<Error> problems;
  for (const auto& [key, value] : facts) {
    const std::vector<std::string> values = group.gather_text(value, "start checks");
    std::map<std::string, std::vector<std::string>> others;  // value to ranks
    for (size_t r = 1; r < values.size(); ++r)
      if (values[r] != values[0]) others[values[r]].push_back(std::to_string(r));
    for (const auto& [other, ranks] : others)
      problems.emplace_back(
          Exit::usage, key,
          fmt::format("rank{} {} {} '{}', rank 0 has '{}'", ranks.size() == 1 ? "" : "s",
                      join(ranks, ", "), ranks.size() == 1 ? "has" : "have", other, values[0]));
  }
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems));
}

}  // namespace bv

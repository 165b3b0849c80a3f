#include "lib/distributed/check_agreement.h"

#include <map>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : facts) {
    const std::vector<std::string> values = group.gather_text(value, "start checks");
    std::map<std::string, std::vector<std::string>> others;  // value to ranks
    for (size_t r = 1; r < values.size(); ++r)
      if (values[r] != values[0]) others[values[r]].push_back(std::to_string(r));
    for (const auto& [other, ranks] : others)
      lines.push_back(fmt::format("{}: error: rank{} {} {} '{}', rank 0 has '{}'", key,
                                  ranks.size() == 1 ? "" : "s", join(ranks, ", "),
                                  ranks.size() == 1 ? "has" : "have", other, values[0]));
  }
  if (!lines.empty()) throw Error::lines(Exit::usage, join(lines, "\n"));
}

}  // namespace bv

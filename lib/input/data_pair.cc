#include "lib/input/data_pair.h"

#include <vector>

#include "lib/config/load_config.h"
#include "lib/util/text.h"

namespace bv {

DataPair data_pair(const Config& pairs, const std::string& key, const std::string& folder,
                   const std::string& place) {
  if (pairs.is_map(key)) {
    const Config both = pairs.section(key);
    return {both.section("train"), both.section("test")};
  }
  const auto list = pairs.get<std::vector<std::string>>(key);
  if (list.size() != 3) pairs.fail(key, "must be [source, train split, test split]");
  const auto data = [&](const std::string& split, const char* part) {
    std::string text =
        fmt::format(R"({{"name": {}, "split": {})", json_string(list[0]), json_string(split));
    if (!folder.empty()) text += R"(, "data_dir": )" + json_string(folder);
    return parse_config_json(text + "}", place + part);
  };
  return {data(list[1], ".train"), data(list[2], ".test")};
}

}  // namespace bv

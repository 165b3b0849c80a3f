#include "lib/init/found_source.h"

#include <algorithm>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/init/yaml_text.h"

namespace bv {

std::shared_ptr<const Source> open_source(const DataFindings& found, const DataKeys& keys,
                                          bool keep_broken) {
  std::string yaml = "name: " + found.data.source + "\n";
  for (const auto& [key, value] : keys) yaml += key + ": " + yaml_text(value) + "\n";
  for (const auto& [key, value] : found.labels.yaml()) yaml += key + ": " + value + "\n";
  const Config config = parse_config(yaml, found.folder);
  config.mark_read("name");  // only some sources read it
  SourceEnv env;
  env.keep_broken = keep_broken;
  std::shared_ptr<const Source> source =
      Source::Registry::make(found.data.source, config, config.place(), env);
  throw_problems(config);
  return source;
}

size_t index_of(const Source& source, const std::string& split) {
  const std::vector<std::string> known = source.splits();
  return static_cast<size_t>(std::find(known.begin(), known.end(), split) - known.begin());
}

}  // namespace bv

// The keys that are read match the key tables: each key has a row, and the row has the default of
// the read. The keys come from --explain of every config in the repository, and of small ones that
// name every plug-in.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "lib/help/catalog.h"
#include "lib/help/key_type.h"
#include "lib/train/recipe.h"
#include "lib/util/text.h"

namespace bv::test {
namespace {

// A line of --explain.
struct ReadKey {
  std::string path, fallback, source;
};

std::vector<ReadKey> reads_of(const Config& config) {
  std::vector<ReadKey> reads;
  for (const std::string& line : split(explain(config), '\n')) {
    std::vector<std::string> columns;
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find("  ", at), line.size());
      columns.push_back(line.substr(at, end - at));
      at = std::min(line.find_first_not_of(' ', end), line.size());
    }
    if (columns.size() < 5 || columns[0] == "key") continue;
    reads.push_back({columns[0], columns[columns.size() - 3], columns.back()});
  }
  return reads;
}

// Returns the rows that may describe the key `parts[at...]` of the mapping with the table at
// `place`.
std::vector<const KeyText*> rows_at(const std::string& place, const std::vector<std::string>& parts,
                                    size_t at);

std::vector<const KeyText*> rows_below(const std::vector<KeyType>& type, const std::string& path,
                                       const std::vector<std::string>& parts, size_t at) {
  std::vector<const KeyText*> found;
  const auto add = [&](const std::vector<const KeyText*>& more) {
    found.insert(found.end(), more.begin(), more.end());
  };
  static const KeyText own_name = {"*", "map", "none", "A name of the user's choice."};
  for (const KeyType& option : type) {
    if (option.kind == KeyType::Kind::mapping && !option.options.empty() && at + 1 == parts.size())
      found.push_back(&own_name);
    else if (option.kind == KeyType::Kind::mapping && !option.options.empty())
      add(rows_below(option.options, path + ".*", parts, at + 1));
    else if (option.kind == KeyType::Kind::mapping)
      add(rows_at(option.place.empty() ? path : option.place, parts, at));
    if (option.kind == KeyType::Kind::list) add(rows_below(option.options, path, parts, at));
    for (const auto& item : option.items) add(rows_below(item, path, parts, at));
  }
  return found;
}

std::vector<const KeyText*> rows_at(const std::string& place, const std::vector<std::string>& parts,
                                    size_t at) {
  std::vector<const KeyText*> found;
  for (const HelpTable& table : help_tables()) {
    if (table.mapping != place) continue;
    for (const KeyText& key : table.keys) {
      const std::vector<std::string> names = expand_braces(key.name);
      const std::string name = parts[at].substr(0, parts[at].find('['));
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      if (at + 1 == parts.size()) {
        found.push_back(&key);
        continue;
      }
      const auto below = rows_below(parse_key_type(key.type), key_path(table, name), parts, at + 1);
      found.insert(found.end(), below.begin(), below.end());
    }
  }
  return found;
}

std::vector<const KeyText*> rows_of(const std::string& path) {
  const size_t call = path.rfind("]: ");
  if (call == std::string::npos) return rows_at("", split(path, '.'), 0);
  std::vector<const KeyText*> found;
  const std::string op_and_key = path.substr(call + 3);
  const size_t dot = op_and_key.rfind('.');  // a name such as archive.randaug has one, too
  if (const HelpTable* op = find_help_table("pp: " + op_and_key.substr(0, dot))) {
    for (const KeyText& key : op->keys) {
      if (key.name == op_and_key.substr(dot + 1)) found.push_back(&key);
    }
  }
  return found;
}

nlohmann::json value_of(std::string_view yaml) {
  return nlohmann::json::parse(
      parse_config("value: " + std::string(yaml), "value").json())["value"];
}

bool same_default(const KeyText& key, const std::string& read) {
  if (key.fallback.starts_with("= ")) return true;  // computed: differs from config to config
  // A mapping has no own default; "{}" means that it is optional.
  if (key.fallback == "required" || key.fallback == "none" || key.fallback == "{}")
    return read == "-" || read == "\"\"";
  const std::string quoted = '"' + std::string(key.fallback) + '"';  // a word that is no text
  return read == quoted || (read != "-" && value_of(key.fallback) == value_of(read));
}

// Checks what `config` has read.
void check_reads(const Config& config) {
  const std::vector<ReadKey> reads = reads_of(config);
  CHECK(!reads.empty());
  for (const ReadKey& read : reads) {
    INFO(read.path << ", default " << read.fallback << ", read at " << read.source);
    if (read.path == "total_percent") continue;  // read only to be rejected
    const std::vector<const KeyText*> rows = rows_of(read.path);
    CHECK(!rows.empty());
    const bool agrees = std::any_of(rows.begin(), rows.end(), [&](const KeyText* key) {
      return same_default(*key, read.fallback);
    });
    CHECK((rows.empty() || agrees));
  }
}

std::vector<std::string> configs_of_the_repository() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(BV_SOURCE_DIR "/configs")) {
    const std::string file = entry.path().string();
    // What is there to be included is only a part of a config.
    if (entry.path().extension() == ".yaml" && file.find("/include/") == std::string::npos)
      files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

constexpr const char* kDigitsRun = R"(
num_classes: 10
total_steps: 4
log_training_steps: 2
input:
  data: {name: digits, split: train}
  batch_size: 8
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
)";

// Builds what `config` describes, and the same from the resolved config, which the workdir keeps.
void build(const Config& config) {
  const Recipe recipe(config, /*synthetic=*/true, /*meta=*/true);
  const Config again = parse_config(resolved_yaml(config), "config.yaml", {});
  try {
    const Recipe same(again, /*synthetic=*/true, /*meta=*/true);
  } catch (const Error& error) {
    FAIL_CHECK("the resolved config cannot be read: " << error.what());
  }
}

void check_small(const std::vector<Override>& sets) {
  const Config config = parse_config(kDigitsRun, "x.yaml", sets);
  try {
    build(config);
  } catch (const Error& error) {
    // A plug-in may need more keys than these; the keys that it read count.
    INFO(error.what());
    CHECK(error.code() == Exit::usage);
  }
  check_reads(config);
}

}  // namespace

TEST_CASE("every key that a config of the repository reads has a row with its default") {
  const std::vector<std::string> files = configs_of_the_repository();
  REQUIRE(files.size() > 6);
  for (const std::string& file : files) {
    INFO(file);
    const Config config = load_config(file, {});
    build(config);
    check_reads(config);
  }
}

TEST_CASE("every key that a plug-in reads has a row with its default") {
  for (const PluginKind& kind : plugin_kinds()) {
    for (const HelpTable* plugin : plugins_of(kind)) {
      INFO(plugin->place);
      const std::string selector(kind.selector), name = plugin->plugin;
      if (kind.mapping == "evals.*")
        check_small({{"evals.a.type", name, "--set"},
                     {"evals.a.data", "{name: digits, split: test}", "--set"},
                     {"evals.a.log_steps", "2", "--set"}});
      else if (kind.mapping == "pp")
        check_small({{"input.pp", name + "()", "--set"}});
      else if (kind.mapping == "schedule")
        check_small({{"schedule.decay_type", name, "--set"}});
      else
        check_small({{kind.inside ? "input.data." + selector : selector, name, "--set"}});
    }
  }
}

}  // namespace bv::test

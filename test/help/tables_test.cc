// The key tables are complete and valid.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "lib/config/familiar_table.h"
#include "lib/config/load_config.h"
#include "lib/evals/evaluator.h"
#include "lib/help/catalog.h"
#include "lib/help/key_type.h"
#include "lib/input/op.h"
#include "lib/input/source.h"
#include "lib/model/loss.h"
#include "lib/model/model.h"
#include "lib/optim/optimizer.h"
#include "lib/optim/schedule.h"
#include "lib/tasks/task.h"
#include "lib/util/text.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::set<std::string> registered(std::string_view mapping) {
  const auto set = [](const std::vector<std::string>& names) {
    return std::set<std::string>(names.begin(), names.end());
  };
  if (mapping == "model") return set(Model::Registry::names());
  if (mapping == "input.data") return set(Source::Registry::names());
  if (mapping == "pp") return set(Op::Registry::names());
  if (mapping == "evals.*") return set(Evaluator::Registry::names());
  if (mapping == "optax") return set(Optimizer::Registry::names());
  if (mapping == "schedule") return set(Decay::Registry::names());
  if (mapping == "loss") return set(Loss::Registry::names());
  return set(Task::Registry::names());
}

}  // namespace

TEST_CASE("each plug-in has one table, and each table a plug-in") {
  for (const PluginKind& kind : plugin_kinds()) {
    std::set<std::string> described;
    for (const HelpTable* table : plugins_of(kind)) {
      described.insert(table->plugin);
      INFO(table->place);
      CHECK(table->text.about.size() > 20);
    }
    CHECK(described == registered(kind.mapping));
  }
  std::set<std::string_view> places;
  for (const KeyTable& table : key_tables()) {
    const bool plugin = table.place.find(": ") != std::string_view::npos;
    INFO(table.place);
    CHECK((!plugin || places.insert(table.place).second));
  }
}

TEST_CASE("names of other trainers are no names of plug-ins, and their replacements are") {
  const std::map<std::string, std::string> mappings = {
      {"model", "model"}, {"data source", "input.data"}, {"op", "pp"},
      {"loss", "loss"},   {"optimizer", "optax"},        {"decay_type", "schedule"},
      {"task", ""},       {"evaluator", "evals.*"}};
  const std::string table = test::replace_all(std::string(kFamiliarNames), "\n    ", " ");
  for (const std::string& line : split(table, '\n')) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 4) continue;
    INFO(line);
    const std::string kind = trim(fields[0]);
    const std::set<std::string> names = kind == "precision"
                                            ? std::set<std::string>{"auto", "bf16", "float32"}
                                            : registered(mappings.at(kind));
    CHECK(names.contains(trim(fields[2])));
    for (const std::string& word : split(trim(fields[1]), ' ')) CHECK(!names.contains(word));
  }
}

TEST_CASE("the texts of a key are whole, and each name stands once in a table") {
  for (const HelpTable& table : help_tables()) {
    std::set<std::string> names;
    for (const KeyText& key : table.keys) {
      INFO(table.place << ": " << key.name);
      for (const std::string& name : expand_braces(key.name)) CHECK(names.insert(name).second);
      CHECK_NOTHROW(parse_key_type(key.type));
      CHECK(!key.fallback.empty());
      CHECK(key.meaning.size() > 10);
      CHECK(std::string_view(".:)").find(key.meaning.back()) != std::string_view::npos);
      if (key.fallback != "required" && !key.fallback.starts_with("= "))
        CHECK_NOTHROW(parse_config("value: " + std::string(key.fallback), "default"));
    }
  }
}

TEST_CASE("a mapping that a type names has a table") {
  const auto check = [](const auto& self, const std::vector<KeyType>& type) -> void {
    for (const KeyType& option : type) {
      self(self, option.options);
      for (const auto& item : option.items) self(self, item);
      if (option.place.empty()) continue;
      INFO(option.place);
      CHECK(find_help_table(option.place) != nullptr);
    }
  };
  for (const HelpTable& table : help_tables()) {
    for (const KeyText& key : table.keys) {
      const std::vector<KeyType> type = parse_key_type(key.type);
      check(check, type);
      for (const KeyType& option : type) {
        const std::string path = key_path(table, key.name);
        INFO(path);
        if (option.kind == KeyType::Kind::mapping && option.place.empty() && option.options.empty())
          CHECK((find_help_table(path) != nullptr || path == "model" || path == "optax" ||
                 path == "task_kw"));
      }
    }
  }
}

}  // namespace bv::test

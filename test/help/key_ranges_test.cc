// The program rejects what the key tables exclude: for each key with a range, a config with a value
// just outside it is an error at that value.
#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/help/catalog.h"
#include "lib/help/key_type.h"
#include "lib/train/recipe.h"
#include "lib/util/text.h"

namespace bv::test {
namespace {

using Kind = KeyType::Kind;
using Texts = std::vector<std::string>;

constexpr const char* kSyntheticRun = R"(
num_classes: 10
total_steps: 20
log_training_steps: 2
input:
  data: {name: synthetic, split: train, image_size: 64, classes: 10, encoded: none}
  batch_size: 8
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
)";
constexpr const char* kBad = "OUT";  // the origin of the value outside the range

std::string text_of(double value) { return fmt::format("{}", value); }

bool allows(const KeyType& type, double value) {
  if (type.kind != Kind::integer && type.kind != Kind::number) return false;
  const bool low = type.least && (type.above_least ? value <= *type.least : value < *type.least);
  const bool high = type.most && (type.below_most ? value >= *type.most : value > *type.most);
  return !low && !high;
}

// Returns the numbers just outside the range of `type`.
std::vector<double> numbers_outside(const KeyType& type) {
  const double step = type.kind == Kind::integer ? 1 : 0.5;
  std::vector<double> bad;
  if (type.least) bad.push_back(type.above_least ? *type.least : *type.least - step);
  if (type.most) bad.push_back(type.below_most ? *type.most : *type.most + step);
  return bad;
}

std::string good_text(const KeyType& type) {
  if (type.kind == Kind::text) return "'.*'";
  return text_of(type.least ? std::max(*type.least, 1.0) : 1.0);
}

// Returns values that none of the alternatives allows, as YAML and as an argument of a call.
Texts values_outside(const std::vector<KeyType>& type) {
  Texts bad;
  for (const KeyType& option : type) {
    if (option.kind == Kind::integer || option.kind == Kind::number) {
      for (const double value : numbers_outside(option)) {
        if (std::none_of(type.begin(), type.end(),
                         [&](const KeyType& other) { return allows(other, value); }))
          bad.push_back(text_of(value));
      }
    }
    if (option.kind == Kind::list) {
      for (const std::string& item : values_outside(option.options))
        bad.push_back("[" + item + "]");
    }
    for (size_t i = 0; i < option.items.size(); ++i) {
      for (const std::string& item : values_outside(option.items[i])) {
        Texts items;
        for (const auto& other : option.items) items.push_back(good_text(other[0]));
        items[i] = item;
        bad.push_back("[" + join(items, ", ") + "]");
      }
    }
  }
  return bad;
}

// A call of the op with its required arguments, and `key`=`value`.
std::string call_with(const HelpTable& op, const std::string& name, const std::string& value) {
  Texts arguments;
  for (const KeyText& key : op.keys) {
    if (key.name == name) {
      arguments.push_back(name + "=" + value);
    } else if (key.fallback == "required") {
      const bool text = parse_key_type(key.type)[0].kind == Kind::text;
      const std::string example(key.example.empty() ? "1" : key.example);
      arguments.push_back(std::string(key.name) + "=" + (text ? "'" + example + "'" : example));
    }
  }
  return op.plugin + "(" + join(arguments, ", ") + ")";
}

using Overrides = std::vector<Override>;

Overrides value_in_list(const HelpTable& table, const std::string& name, const std::string& value) {
  if (table.place == "sharding_strategy: fsdp")
    return {{"sharding_strategy",
             fmt::format("[['.*', 'fsdp(axis=\"data\", {}={})']]", name, value), kBad}};
  const std::string kind = name == "k"         ? "agree"
                           : name == "epsilon" ? "euclidean"
                           : name == "t"       ? "kl"
                                               : "hard";
  return {{"evals.a", std::string(find_help_table("evals.*: distance")->text.example), "--set"},
          {"evals.a.distances", fmt::format("[{{kind: {}, {}: {}}}]", kind, name, value), kBad}};
}

// Returns the overrides that make a config in which `name`, a key of `table`, has `value` at the
// place kBad, and in which the keys around it are those of the table's example.
Overrides with_value(const HelpTable& table, const std::string& name, const std::string& value) {
  if (table.mapping == "pp") return {{"input.pp", call_with(table, name, value), kBad}};
  if (table.mapping == "evals.*.distances" || table.mapping == "sharding_strategy")
    return value_in_list(table, name, value);
  const auto set = [](const std::string& key, std::string_view to) {
    return Override{key, std::string(to), "--set"};
  };
  std::string mapping = table.mapping;
  const bool evaluator = mapping == "evals.*", within_one = mapping.starts_with("evals.*.");
  if (evaluator || within_one) mapping.replace(0, std::string("evals.*").size(), "evals.a");
  Overrides all;
  if (within_one)
    all.push_back(set("evals.a", find_help_table("evals.*: classification")->text.example));
  const bool flexible = mapping == "model.flexi.seqhw";
  if (flexible) all.push_back(set("model_name", "flexi_vit"));
  if (!mapping.empty() && mapping != "input" && !flexible && !table.text.example.empty())
    all.push_back(set(mapping, table.text.example));
  if (table.kind != nullptr) {
    const std::string selector(table.kind->selector);
    all.push_back(set(table.kind->inside ? mapping + "." + selector : selector, table.plugin));
  }
  all.push_back({mapping.empty() ? name : mapping + "." + name, value, kBad});
  return all;
}

// Whether building the config fails with a line about `name` at the place kBad.
bool refused(const Overrides& overrides, const std::string& name, std::string& said) {
  const Config config = parse_config(kSyntheticRun, "x.yaml", overrides);
  try {
    const Recipe recipe(config, /*synthetic=*/true, /*meta=*/true);
    said = "no error";
  } catch (const Error& error) {
    said = error.what();
  }
  for (const std::string& line : split(said, '\n')) {
    const bool here = line.starts_with(std::string(kBad) + ": error: ");
    const bool named = name.size() == 1 || line.find(name) != std::string::npos;
    if (here && named && line.find("missing") == std::string::npos &&
        line.find("unknown key") == std::string::npos)
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("values outside the range of a key are refused at their place") {
  int checked = 0;
  for (const HelpTable& table : help_tables()) {
    for (const KeyText& key : table.keys) {
      const Texts bad = values_outside(parse_key_type(key.type));
      for (const std::string& name : expand_braces(key.name)) {
        for (const std::string& value : bad) {
          std::string said;
          const bool is_refused = refused(with_value(table, name, value), name, said);
          INFO(table.place << ": " << name << ": " << value << "\n" << said);
          CHECK(is_refused);
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 250);
}

}  // namespace bv::test

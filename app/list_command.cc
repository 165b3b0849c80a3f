#include <cstdio>
#include <map>

#include "app/commands.h"
#include "app/json_output.h"
#include "lib/config/load_config.h"
#include "lib/evals/evaluator.h"
#include "lib/model/loss.h"
#include "lib/model/model.h"
#include "lib/model/variants.h"
#include "lib/optim/optimizer.h"
#include "lib/optim/schedule.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Names = std::vector<std::string>;

constexpr int kClasses = 1000, kImageSize = 224;  // for models whose parameters are counted

struct CountedVariant {
  std::string name;
  int64_t parameters = 0;
};

std::vector<CountedVariant> count_variants(const std::string& model) {
  const MetaDevice guard;  // allocates no memory
  std::vector<NamedVariant> variants = variants_of(model);
  if (variants.empty()) variants.push_back({"default", "{}"});
  std::vector<CountedVariant> counted;
  for (const NamedVariant& variant : variants) {
    const auto made = Model::Registry::make(
        model, parse_config(variant.yaml, model), Place(),
        ModelEnv{kClasses, /*height=*/kImageSize, /*width=*/kImageSize, /*channels=*/3});
    int64_t count = 0;
    for (const auto& [name, parameter] : named_parameters(*made)) count += parameter.numel();
    counted.push_back({variant.name, count});
  }
  return counted;
}

Names names_of(const std::string& kind) {
  const std::map<std::string, std::function<Names()>> kinds = {
      {"models", Model::Registry::names},    {"sources", Source::Registry::names},
      {"ops", Op::Registry::names},          {"optimizers", Optimizer::Registry::names},
      {"schedules", Decay::Registry::names}, {"losses", Loss::Registry::names},
      {"tasks", Task::Registry::names},      {"evals", Evaluator::Registry::names},
  };
  const auto found = kinds.find(kind);
  if (found != kinds.end()) return found->second();
  Names known;
  for (const auto& [name, list] : kinds) known.push_back(name);
  throw Error(Exit::usage, "--list", unknown_name_message("kind", kind, known));
}

void print_list_json(const std::string& kind, const Names& names) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const std::string& name : names) {
    nlohmann::ordered_json entry = {{"name", name}};
    if (kind == "models") {
      for (const CountedVariant& variant : count_variants(name))
        entry["variants"].push_back({{"name", variant.name}, {"parameters", variant.parameters}});
    }
    entries.push_back(entry);
  }
  nlohmann::ordered_json list = {{"kind", kind}};
  if (kind == "models") {
    list["image"] = {kImageSize, kImageSize, 3};
    list["num_classes"] = kClasses;
  }
  list["entries"] = entries;
  print_json(list);
}

}  // namespace

Exit list_command(const Arguments& arguments) {
  const std::string& kind = arguments.list;
  const Names names = names_of(kind);
  if (arguments.json) {
    print_list_json(kind, names);
    return Exit::ok;
  }
  if (kind == "models")
    std::printf("# parameters with images of %dx%dx3 and %d classes\n", kImageSize, kImageSize,
                kClasses);
  for (const std::string& name : names) {
    std::printf("%s\n", name.c_str());
    if (kind != "models") continue;
    for (const CountedVariant& variant : count_variants(name))
      std::printf("  %-12s %14s parameters\n", variant.name.c_str(),
                  human_count(variant.parameters).c_str());
  }
  return Exit::ok;
}

}  // namespace bv

#include <cstdio>
#include <map>

#include "app/commands.h"
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

// Prints the variants of a model, each with its number of parameters.
void print_variants(const std::string& model) {
  const MetaDevice guard;  // takes no memory
  std::vector<NamedVariant> variants = variants_of(model);
  if (variants.empty()) variants.push_back({"default", "{}"});
  for (const NamedVariant& variant : variants) {
    const auto made = Model::Registry::make(
        model, parse_config(variant.yaml, model), Place(),
        ModelEnv{/*num_classes=*/1000, /*height=*/224, /*width=*/224, /*channels=*/3});
    int64_t count = 0;
    for (const auto& [name, parameter] : named_parameters(*made)) count += parameter.numel();
    std::printf("  %-12s %14s parameters\n", variant.name.c_str(), human_count(count).c_str());
  }
}

}  // namespace

Exit list_command(const std::string& kind) {
  const std::map<std::string, std::function<std::vector<std::string>()>> kinds = {
      {"models", Model::Registry::names},    {"sources", Source::Registry::names},
      {"ops", Op::Registry::names},          {"optimizers", Optimizer::Registry::names},
      {"schedules", Decay::Registry::names}, {"losses", Loss::Registry::names},
      {"tasks", Task::Registry::names},      {"evals", Evaluator::Registry::names},
  };
  const auto found = kinds.find(kind);
  if (found == kinds.end()) {
    std::vector<std::string> known;
    for (const auto& [name, list] : kinds) known.push_back(name);
    throw Error(Exit::usage, "--list", unknown_name_message("kind", kind, known));
  }
  if (kind == "models") std::printf("# parameters with images of 224x224x3 and 1000 classes\n");
  for (const std::string& name : found->second()) {
    std::printf("%s\n", name.c_str());
    if (kind == "models") print_variants(name);
  }
  return Exit::ok;
}

}  // namespace bv

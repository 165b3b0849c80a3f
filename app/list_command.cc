#include <torch/version.h>

#include <cstdio>
#include <map>

#include "app/commands.h"
#include "lib/evals/evaluator.h"
#include "lib/model/loss.h"
#include "lib/train/optimizer.h"
#include "lib/train/schedule.h"
#include "lib/util/text.h"

namespace bv {

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
  for (const std::string& name : found->second()) std::printf("%s\n", name.c_str());
  return Exit::ok;
}

void print_version() {
  std::printf("bvtrain %s (LibTorch %s, %s)\n", BV_VERSION, TORCH_VERSION, __VERSION__);
}

}  // namespace bv

#include "lib/init/label_request.h"

#include <set>

#include "lib/init/yaml_text.h"
#include "lib/util/error.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {

LabelTask label_task(const std::string& name) {
  if (name == "multilabel") return LabelTask::multilabel;
  if (name == "regress") return LabelTask::regress;
  check(name == "classify", "no task '{}'", name);
  return LabelTask::classify;
}

std::string task_name(LabelTask task) {
  return task == LabelTask::multilabel ? "multilabel"
         : task == LabelTask::regress  ? "regress"
                                       : "classify";
}

void check_request(const LabelRequest& request) {
  std::set<std::string> seen;
  for (const std::string& name : request.columns) {
    if (name.empty()) throw Error(Exit::usage, "--label", "has an empty name");
    if (!seen.insert(name).second)
      throw Error(Exit::usage, "--label", fmt::format("names '{}' twice", printable(name)));
  }
  if (request.task != LabelTask::classify || request.columns.size() < 2) return;
  throw Error(Exit::usage, "--label",
              fmt::format("names {} columns, but one class per image is in one column; add --task "
                          "multilabel if the columns hold 0 and 1, or --task regress if they hold "
                          "numbers",
                          request.columns.size()));
}

std::vector<std::pair<std::string, std::string>> LabelKeys::yaml() const {
  std::vector<std::pair<std::string, std::string>> keys;
  if (!columns.empty())
    keys.emplace_back("label", list ? yaml_list(columns) : yaml_text(columns.at(0)));
  if (multilabel) keys.emplace_back("multilabel", "true");
  if (!classes.empty()) keys.emplace_back("classes", yaml_list(classes));
  return keys;
}

}  // namespace bv

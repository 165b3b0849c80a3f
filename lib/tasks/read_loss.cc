#include <iterator>
#include <string>
#include <vector>

#include "lib/model/loss.h"
#include "lib/tasks/task.h"

namespace bv {

std::string read_loss(const Config& config) {
  std::vector<std::string> known = Loss::Registry::names();
  known.insert(known.end(), std::begin(kNumberLosses), std::end(kNumberLosses));
  return config.word("loss", default_loss(config.get("task", "classify")), known);
}

}  // namespace bv

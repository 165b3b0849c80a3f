#include "lib/report/log_warnings.h"

#include "lib/report/log.h"

namespace bv {

void log_warnings(const Config& config) {
  for (const std::string& line : warnings(config)) log::warn("{}", line);
}

}  // namespace bv

#include "lib/distributed/open_files.h"

#include <sys/resource.h>

#include "lib/util/error.h"

namespace bv {

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void check_open_files(int ranks) {
  rlimit limit{};
  const auto needed = static_cast<rlim_t>(needed_open_files(ranks));
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw Error(Exit::usage, fmt::format("ulimit -n {}", limit.rlim_cur),
              fmt::format("{} ranks need {} open files in each process: raise this host's hard "
                          "limit (ulimit -Hn, LimitNOFILE=)",
                          ranks, needed));
}

}  // namespace bv

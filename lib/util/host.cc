#include "lib/util/host.h"

#include <unistd.h>

namespace bv {

std::string host_name() {
  char name[256] = {};  // POSIX allows 255 bytes; a longer name may lack the final zero
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace bv

#include "lib/ckpt/restored.h"

#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/error.h"

namespace bv {

std::string run_config(const Restored& checkpoint) {
  if (!checkpoint.meta.contains("config")) {
    throw Error(Exit::usage, checkpoint.folder + "/" + kManifestName, "has no config of a run");
  }
  return checkpoint.meta.at("config").get<std::string>();
}

}  // namespace bv

#include "app/commands.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/npz.h"
#include "lib/report/log.h"

namespace bv {

// params/<path> of the newest checkpoint, with the reference's names and shapes.
Exit export_command(const Arguments& arguments) {
  const Restored newest = Checkpointer::load(arguments.workdir);
  NamedTensors params;
  for (const auto& [name, tensor] : newest.tensors) {
    if (name.starts_with("params/")) params.emplace(name, tensor);
  }
  write_npz(arguments.output, params);
  log::info("Wrote {} parameters of step {} to {}", params.size(), newest.step, arguments.output);
  return Exit::ok;
}

}  // namespace bv

#include "app/commands.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/export/export.h"
#include "lib/report/log.h"

namespace bv {

// The weights of the newest checkpoint, or of a config's model_init, in another program's format.
Exit export_command(const Arguments& arguments) {
  std::optional<ImageSize> size;
  if (!arguments.image_size.empty()) size = parse_image_size(arguments.image_size);
  Trained trained;
  if (!arguments.workdir.empty()) {
    if (!arguments.config.empty() || !arguments.overrides.empty()) {
      throw Error(Exit::usage, "bvtrain export",
                  "--workdir has its own config; give either --workdir, or --config and --set");
    }
    trained = trained_from(Checkpointer::load(arguments.workdir), arguments.ema);
    if (size) trained.image = *size;
  } else if (!arguments.config.empty()) {
    if (arguments.ema) throw Error(Exit::usage, "--ema", "needs a --workdir");
    trained = trained_from(load_config(arguments.config, arguments.overrides), size);
  } else {
    throw Error(Exit::usage, "bvtrain export",
                "give --workdir, or --config and --set model_init=FILE");
  }
  export_weights(trained, arguments.format, arguments.output);
  log::info("Wrote {} parameters of {} as {} to {}", trained.params.size(), trained.origin,
            arguments.format, arguments.output);
  return Exit::ok;
}

}  // namespace bv

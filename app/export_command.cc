// bvtrain export: writes the weights of the newest checkpoint, or of a config's model_init, in
// another program's format (lib/export/export.h).
#include "app/commands.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/config/load_config.h"
#include "lib/export/export.h"
#include "lib/report/log.h"

namespace bv {

Exit export_command(const Arguments& arguments) {
  std::optional<ImageSize> size;
  if (!arguments.image_size.empty()) size = parse_image_size(arguments.image_size);
  TrainedModel trained;
  if (!arguments.workdir.empty()) {
    if (!arguments.config.empty() || !arguments.overrides.empty()) {
      throw Error(Exit::usage, "bvtrain export",
                  "--workdir has its own config; give either --workdir, or --config and --set");
    }
    trained = load_trained_model(Checkpointer::load(arguments.workdir), arguments.ema);
    if (size) trained.image = *size;
  } else if (!arguments.config.empty()) {
    if (arguments.ema) throw Error(Exit::usage, "--ema", "needs a --workdir");
    trained = load_trained_model(load_config(arguments.config, arguments.overrides), size);
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

// bvtrain export: writes the weights of the newest checkpoint, or of a config's model_init, in
// another program's format (lib/export/export.h).
#include "app/commands.h"
#include "app/output_format.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/config/load_config.h"
#include "lib/export/export.h"
#include "lib/report/log.h"

namespace bv {
namespace {

TrainedModel model_to_export(const Arguments& arguments) {
  std::optional<ImageSize> size;
  if (!arguments.image_size.empty()) size = parse_image_size(arguments.image_size);
  if (!arguments.workdir.empty()) {
    if (!arguments.config.empty() || !arguments.overrides.empty()) {
      throw Error(Exit::usage, "bvtrain export",
                  "--workdir has its own config; give either --workdir, or --config and --set");
    }
    TrainedModel trained = load_trained_model(
        Checkpointer::load(arguments.workdir, {.wanted = wanted_weights(arguments.ema)}),
        arguments.ema);
    if (size) set_image_size(trained, *size);
    return trained;
  }
  if (arguments.config.empty()) {
    throw Error(Exit::usage, "bvtrain export",
                "give --workdir, or --config and --set model_init=FILE");
  }
  if (arguments.ema) throw Error(Exit::usage, "--ema", "needs a --workdir");
  return load_trained_model(load_config(arguments.config, arguments.overrides), size);
}

}  // namespace

Exit export_command(const Arguments& arguments) {
  check_output_file(arguments.output);
  const std::string format = choose_format(arguments.output, arguments.format,
                                           {{"npz", ".npz"},
                                            {"safetensors", ".safetensors"},
                                            {"timm", ".safetensors"},
                                            {"onnx", ".onnx"}});
  TrainedModel trained = model_to_export(arguments);
  check_output_is_no_input(arguments.output, {arguments.config, trained.origin}, "export reads");
  trained.card.version = BV_VERSION;
  export_weights(trained, format, arguments.output);
  log::info("Wrote {} parameters of {} as {} to {}", trained.params.size(), trained.origin, format,
            arguments.output);
  return Exit::ok;
}

}  // namespace bv

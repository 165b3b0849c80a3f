#include "lib/export/export.h"

#include <algorithm>
#include <vector>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/export/weights_writer.h"
#include "lib/model/meta_device.h"
#include "lib/model/target_scale.h"
#include "lib/report/log.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

NamedTensors with_roots(const TrainedModel& trained) {
  NamedTensors all;
  for (const auto& [name, value] : trained.params) all.emplace("params/" + name, value);
  for (const auto& [name, value] : trained.buffers) all.emplace("buffers/" + name, value);
  return all;
}

std::unique_ptr<WeightsWriter> writer_for(const TrainedModel& trained, const std::string& format) {
  const auto model = trained.config.get<std::string>("model_name");
  std::vector<std::string> known;
  for (const std::string& name : WeightsWriter::Registry::names()) {
    if (name.starts_with(format + "/")) known.push_back(name.substr(format.size() + 1));
  }
  if (std::find(known.begin(), known.end(), model) == known.end()) {
    throw Error(Exit::usage, "--format " + format,
                fmt::format("model '{}' can't be written as {}; known: {} (npz and safetensors "
                            "hold every model)",
                            model, format, join(known, ", ")));
  }
  const Config keys = trained.config.section("model");
  keys.mark_read();  // training has checked them; a writer reads only a few
  auto writer = WeightsWriter::Registry::make(format + "/" + model, keys,
                                              trained.config.place("model_name"), trained);
  throw_problems(trained.config);
  return writer;
}

double trained_logit_scale(const TrainedModel& trained) {
  const MetaDevice on_meta;  // allocates no memory
  const Config& config = trained.config;
  const ModelEnv env = {config.get<int64_t>("num_classes"), trained.image.height,
                        trained.image.width, trained.image.channels};
  return logit_scale_of(*Model::Registry::make(config.get<std::string>("model_name"),
                                               config.section("model"), config.place("model_name"),
                                               env));
}

std::string shown(const ImageSize& size) {
  return fmt::format("{}x{}x{}", size.height, size.width, size.channels);
}

// Warns if the model is exported for other images than those of its training. `holds_size`: whether
// the format does.
void warn_of_other_images(const TrainedModel& trained, const std::string& format, bool holds_size) {
  const auto& size = trained.trained_on ? trained.trained_on : trained.resampled_from;
  if (!size || *size == trained.image) return;
  const std::string before = shown(*size), now = shown(trained.image);
  if (trained.trained_on && !holds_size) {
    log::warn(
        "a file in the format {} records the image size of the training, {}, and not {}: the same "
        "weights fit both",
        format, before, now);
  } else if (trained.card.pp) {
    log::warn(
        "the exported model takes images of {}, but was trained on {}: the preprocessing in its "
        "metadata, bvtrain.pp, is unchanged and may give images of the wrong size",
        now, before);
  }
}

}  // namespace

void export_weights(const TrainedModel& trained, const std::string& format,
                    const std::string& output) {
  const bool own = format == "npz" || format == "safetensors";
  warn_of_other_images(trained, format, /*holds_size=*/!own);
  if (!own) {
    TrainedModel folded = trained;  // other programs have no buffers for the scale
    if (folded.buffers.contains(kTargetMean))
      fold_target_scale(folded.params, folded.buffers, folded.origin, trained_logit_scale(trained));
    return writer_for(folded, format)->write(output);
  }
  const NamedTensors all = with_roots(trained);
  TrainedModel as_trained = trained;
  as_trained.image = trained.trained_on.value_or(trained.image);
  if (format == "npz") {
    // A character takes 4 bytes.
    const Metadata about = metadata_within(as_trained, limits::kNpzTextBytes / 4 - 1024, output);
    return write_npz(output, all, {{kModelCardArray, {metadata_json(about)}}});
  }
  const Metadata about = metadata_within(as_trained, safetensors_room(all), output);
  replace_file(output, [&](FileWriter& out) { write_safetensors(out, all, about); });
}

}  // namespace bv

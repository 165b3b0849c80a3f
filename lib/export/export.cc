#include "lib/export/export.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/npz.h"
#include "lib/ckpt/safetensors.h"
#include "lib/ckpt/weights_file.h"
#include "lib/export/writer.h"
#include "lib/model/model.h"
#include "lib/train/weights.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// What an npz may unpack to is limited by the model's size; here there is no model yet.
constexpr uint64_t kUnknownModelBytes = uint64_t{1} << 30;

NamedTensors below(const NamedTensors& all, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, value] : all) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), value);
  }
  return found;
}

// The square images that a vit's learned position embedding or a mixer's MLP over tokens was made
// for, where the file has the reference's names and no position for the class token.
std::optional<ImageSize> size_in_file(const std::string& path, const std::string& model) {
  if (model != "vit" && model != "mlp_mixer") return std::nullopt;
  const bool vit = model == "vit";
  // A model that is not built yet has no size to compare with; load_weights() compares later.
  const NamedTensors file = read_weights(path, kUnknownModelBytes);
  const auto counted =
      file.find(vit ? "pos_embedding" : "MixerBlock_0/token_mixing/Dense_0/kernel");
  const auto patch = file.find(vit ? "embedding/kernel" : "stem/kernel");
  if (counted == file.end() || patch == file.end()) return std::nullopt;
  if (counted->second.dim() != (vit ? 3 : 2) || patch->second.dim() != 4) return std::nullopt;
  const int64_t tokens = counted->second.size(vit ? 1 : 0);  // (1, N, D), (N, hidden)
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  if (side * side != tokens) return std::nullopt;
  return ImageSize{side * patch->second.size(0), side * patch->second.size(1),
                   patch->second.size(2)};
}

NamedTensors with_roots(const Trained& trained) {
  NamedTensors all;
  for (const auto& [name, value] : trained.params) all.emplace("params/" + name, value);
  for (const auto& [name, value] : trained.buffers) all.emplace("buffers/" + name, value);
  return all;
}

std::unique_ptr<WeightsWriter> writer_for(const Trained& trained, const std::string& format) {
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
  keys.mark_read();  // whoever trained the model has read them; a writer needs a few
  auto writer = WeightsWriter::Registry::make(format + "/" + model, keys,
                                              trained.config.place("model_name"), trained);
  throw_problems(trained.config);
  return writer;
}

}  // namespace

ImageSize parse_image_size(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const std::string& part : split(text, ',')) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool number = error == std::errc() && end == part.data() + part.size();
    sizes.push_back(number && value > 0 && value <= 65536 ? value : 0);
  }
  if (sizes.size() > 3 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    throw Error(Exit::usage, "--image-size " + text,
                "expected HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS, e.g. 224,224");
  }
  return {sizes.front(), sizes.size() > 1 ? sizes[1] : sizes[0], sizes.size() > 2 ? sizes[2] : 3};
}

Trained trained_from(const Restored& checkpoint, bool ema) {
  Trained trained;
  trained.origin = checkpoint.folder;
  trained.config = parse_config(checkpoint.meta.value("config", std::string("{}")),
                                checkpoint.folder + "/manifest.json");
  trained.params = below(checkpoint.tensors, "params/");
  trained.buffers = below(checkpoint.tensors, "buffers/");
  if (ema) {
    bool any = false;
    for (const auto& [name, value] : below(checkpoint.tensors, "ema/")) {
      any = true;
      (trained.params.count(name) ? trained.params : trained.buffers)[name] = value;
    }
    if (!any) throw Error(Exit::usage, checkpoint.folder, "has no averaged weights (--ema)");
  }
  const auto image = checkpoint.meta.find("image");
  if (image != checkpoint.meta.end() && image->is_array() && image->size() == 3)
    trained.image = {image->at(0), image->at(1), image->at(2)};
  return trained;
}

Trained trained_from(const Config& config, std::optional<ImageSize> size) {
  const auto path = config.get<std::string>("model_init", "");
  if (path.empty()) {
    throw Error(Exit::usage, "bvtrain export",
                "no weights: give --workdir, or --set model_init=FILE");
  }
  const DontLoad dont_load = read_dont_load(config);
  const auto name = config.get<std::string>("model_name");
  const auto classes = config.get<int64_t>("num_classes");
  throw_problems(config);
  peek_weights(path);  // before a large model is made
  if (!size) size = size_in_file(path, name);
  if (!size) {
    throw Error(Exit::usage, path,
                "does not tell the size of the model's images; give it: --image-size "
                "HEIGHT,WIDTH[,CHANNELS]");
  }
  const auto model =
      Model::Registry::make(name, config.section("model"), config.place("model_name"),
                            ModelEnv{classes, size->height, size->width, size->channels});
  throw_problems(config);
  init_parameters(*model, static_cast<uint64_t>(config.get<int64_t>("seed", 0)),
                  config.maybe<double>("init_head_bias"));
  load_weights(path, *model, dont_load.patterns, dont_load.place.text());
  Trained trained;
  trained.config = config;
  trained.origin = path;
  trained.image = *size;
  for (const auto& [path_of, value] : named_parameters(*model)) trained.params[path_of] = value;
  for (const auto& [path_of, value] : named_buffers(*model)) trained.buffers[path_of] = value;
  return trained;
}

void export_weights(const Trained& trained, const std::string& format, const std::string& output) {
  if (format == "npz") return write_npz(output, with_roots(trained));
  if (format != "safetensors") return writer_for(trained, format)->write(output);
  const NamedTensors all = with_roots(trained);
  write_through(output, [&](FileWriter& out) { write_safetensors(out, all); });
}

}  // namespace bv

#include "lib/train/export/export.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/npz.h"
#include "lib/ckpt/safetensors.h"
#include "lib/ckpt/weights_file.h"
#include "lib/model/model.h"
#include "lib/train/export/vit_weights.h"
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

// The images a square, learned position embedding was made for, where the file has the reference's
// names and no position for the class token.
std::optional<ImageSize> size_in_file(const std::string& path) {
  // A model that is not built yet has no size to compare with; load_weights() compares later.
  const NamedTensors file = read_weights(path, kUnknownModelBytes);
  const auto positions = file.find("pos_embedding"), patch = file.find("embedding/kernel");
  if (positions == file.end() || patch == file.end()) return std::nullopt;
  if (positions->second.dim() != 3 || patch->second.dim() != 4) return std::nullopt;
  const int64_t tokens = positions->second.size(1);
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
  const Config load = config.section("model_load");
  const auto dont_load = load.get("dont_load", std::vector<std::string>{});
  const auto name = config.get<std::string>("model_name");
  const auto classes = config.get<int64_t>("num_classes");
  throw_problems(config);
  if (!size) size = size_in_file(path);
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
  load_weights(path, *model, dont_load);
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
  if (format == "timm") return export_timm(vit_weights(trained, format), output);
  if (format == "onnx") return export_onnx(vit_weights(trained, format), output);
  check(format == "safetensors", "no format '{}'", format);
  const NamedTensors all = with_roots(trained);
  write_through(output, [&](FileWriter& out) { write_safetensors(out, all); });
}

}  // namespace bv

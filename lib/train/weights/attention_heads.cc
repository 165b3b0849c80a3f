#include "lib/train/weights/attention_heads.h"

#include "lib/model/transformer/transformer_shape.h"
#include "lib/report/log.h"
#include "lib/train/weights/stored_arguments.h"
#include "lib/util/error.h"

namespace bv {

int64_t stored_heads(const std::string& path) { return stored_arguments(path).heads; }

void require_whole_heads(int64_t stored, int64_t width, const std::string& path) {
  if (stored == 0 || width % stored == 0) return;
  throw Error(Exit::usage, path,
              fmt::format("its metadata or the config.json next to it states {} attention heads, "
                          "which do not divide the width {}; correct the number there",
                          stored, width));
}

void check_heads(const NamedTensors& file, const Shapes& wanted, const std::string& path) {
  const auto [heads, features] = heads_of(wanted);
  if (heads == 0 || (!is_timm(file) && !is_hugging_face(file))) return;
  const int64_t stored = stored_heads(path), width = heads * features;
  if (stored == heads) return;
  require_whole_heads(stored, width, path);
  if (stored > 0) {
    throw Error(Exit::usage, path,
                fmt::format("its weights have {} attention heads, but the config's model has {}; "
                            "write model.num_heads: {}",
                            stored, heads, stored));
  }
  const auto usual = usual_heads(width);
  if (usual == heads) return;
  log::warn(
      "{}: its arrays do not show how many attention heads its model has; they are read with "
      "model.num_heads: {}{}",
      path, heads,
      usual ? fmt::format(", but published models of width {} have {}", width, *usual) : "");
}

}  // namespace bv

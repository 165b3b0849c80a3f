// timm: timm/models/mlp_mixer.py (MlpMixer; timm 0.9 to 1.0).
#include "lib/ckpt/layouts/transformer_names.h"

namespace bv {

namespace {

constexpr NameRow kTimmMixerRows[] = {
    {"stem.proj", "stem", "kernel", Layout::patch},
    {"blocks.{}.norm1", "MixerBlock_{}/LayerNorm_0", "scale"},
    {"blocks.{}.mlp_tokens.fc1", "MixerBlock_{}/token_mixing/Dense_0", "kernel", Layout::linear},
    {"blocks.{}.mlp_tokens.fc2", "MixerBlock_{}/token_mixing/Dense_1", "kernel", Layout::linear},
    {"blocks.{}.norm2", "MixerBlock_{}/LayerNorm_1", "scale"},
    {"blocks.{}.mlp_channels.fc1", "MixerBlock_{}/channel_mixing/Dense_0", "kernel",
     Layout::linear},
    {"blocks.{}.mlp_channels.fc2", "MixerBlock_{}/channel_mixing/Dense_1", "kernel",
     Layout::linear},
    {"norm", "pre_head_layer_norm", "scale"},
    {"head", "head", "kernel", Layout::linear},
};

}  // namespace

bool is_timm_mixer(const NamedTensors& tree) { return tree.count("stem.proj.weight") > 0; }

NamedTensors from_timm_mixer(const NamedTensors& tree, const std::string& origin) {
  return from_torch(tree, kTimmMixerRows, /*heads=*/1, origin);
}

NamedTensors to_timm_mixer(const NamedTensors& mixer) { return to_torch(mixer, kTimmMixerRows); }

}  // namespace bv

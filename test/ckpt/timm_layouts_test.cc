// timm's MlpMixer and ResNetV2: names, layouts, and rejected files. scripts/golden/check_export.py
// checks that timm itself can load them.
#include <ATen/ATen.h>

#include "lib/ckpt/layouts/layouts.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"

namespace bv::test {
namespace {

// Returns parameters that all have different values.
NamedTensors filled(const Shapes& shapes) {
  NamedTensors tree;
  float next = 0;
  for (const auto& [name, shape] : shapes) {
    const int64_t count = at::empty(shape).numel();
    tree[name] = at::arange(count, at::kFloat).view(shape) / 4096 + next++;
  }
  return tree;
}

// Width 6, 4 tokens of 2x3 pixels, MLPs of 5 and 7.
NamedTensors mixer() {
  Shapes shapes = {{"stem/kernel", {2, 3, 1, 6}},
                   {"stem/bias", {6}},
                   {"pre_head_layer_norm/scale", {6}},
                   {"pre_head_layer_norm/bias", {6}},
                   {"head/kernel", {6, 9}},
                   {"head/bias", {9}}};
  for (const std::string block : {"MixerBlock_0/", "MixerBlock_11/"}) {
    for (const std::string norm : {"LayerNorm_0", "LayerNorm_1"}) {
      shapes[block + norm + "/scale"] = shapes[block + norm + "/bias"] = {6};
    }
    shapes[block + "token_mixing/Dense_0/kernel"] = {4, 5};
    shapes[block + "token_mixing/Dense_1/kernel"] = {5, 4};
    shapes[block + "channel_mixing/Dense_0/kernel"] = {6, 7};
    shapes[block + "channel_mixing/Dense_1/kernel"] = {7, 6};
    shapes[block + "token_mixing/Dense_0/bias"] = {5};
    shapes[block + "token_mixing/Dense_1/bias"] = {4};
    shapes[block + "channel_mixing/Dense_0/bias"] = {7};
    shapes[block + "channel_mixing/Dense_1/bias"] = {6};
  }
  return filled(shapes);
}

NamedTensors bit() {
  Shapes shapes = {{"root_block/conv_root/kernel", {7, 7, 3, 4}},
                   {"norm-pre-head/scale", {1, 1, 1, 8}},
                   {"norm-pre-head/bias", {1, 1, 1, 8}},
                   {"head/kernel", {8, 5}},
                   {"head/bias", {5}}};
  for (const std::string unit : {"block1/unit01/", "block2/unit12/"}) {
    shapes[unit + "conv1/kernel"] = {1, 1, 4, 2};
    shapes[unit + "conv2/kernel"] = {3, 3, 2, 2};
    shapes[unit + "conv3/kernel"] = {1, 1, 2, 8};
    shapes[unit + "conv_proj/kernel"] = {1, 1, 4, 8};
    for (const std::string norm : {"gn1", "gn2", "gn3"}) {
      shapes[unit + norm + "/scale"] = shapes[unit + norm + "/bias"] = {1, 1, 1, 2};
    }
  }
  return filled(shapes);
}

}  // namespace

TEST_CASE("layouts: timm's MlpMixer to and fro") {
  const NamedTensors ours = mixer();
  const NamedTensors timm = to_timm_mixer(ours);
  REQUIRE(is_timm_mixer(timm));
  CHECK_FALSE(is_timm_mixer(ours));
  CHECK(timm.size() == ours.size());
  CHECK(timm.at("stem.proj.weight").sizes() == at::IntArrayRef({6, 1, 2, 3}));
  CHECK(timm.at("blocks.11.norm2.weight").equal(ours.at("MixerBlock_11/LayerNorm_1/scale")));
  CHECK(timm.at("blocks.0.mlp_tokens.fc1.weight")
            .equal(ours.at("MixerBlock_0/token_mixing/Dense_0/kernel").t()));
  CHECK(timm.at("blocks.0.mlp_channels.fc2.bias")
            .equal(ours.at("MixerBlock_0/channel_mixing/Dense_1/bias")));
  CHECK(same_bits(from_timm_mixer(timm, "f"), ours));
  CHECK(same_bits(adapt_layout(timm, shapes_of(ours), "f"), ours));
}

TEST_CASE("layouts: timm's ResNetV2 to and fro") {
  const NamedTensors ours = bit();
  const NamedTensors timm = to_timm_bit(ours);
  REQUIRE(is_timm_bit(timm));
  CHECK_FALSE(is_timm_bit(ours));
  CHECK(timm.size() == ours.size());
  CHECK(timm.at("stem.conv.weight").sizes() == at::IntArrayRef({4, 3, 7, 7}));
  CHECK(timm.at("head.fc.weight").sizes() == at::IntArrayRef({5, 8, 1, 1}));
  CHECK(timm.at("norm.weight").equal(ours.at("norm-pre-head/scale").flatten()));
  CHECK(timm.at("stages.1.blocks.11.downsample.conv.weight")[7][2][0][0].item<float>() ==
        ours.at("block2/unit12/conv_proj/kernel")[0][0][2][7].item<float>());
  CHECK(timm.at("stages.0.blocks.0.conv2.weight")[1][0][2][1].item<float>() ==
        ours.at("block1/unit01/conv2/kernel")[2][1][0][1].item<float>());
  CHECK(same_bits(from_timm_bit(timm, "f"), ours));
  CHECK(same_bits(adapt_layout(timm, shapes_of(ours), "f"), ours));
}

TEST_CASE("layouts: names and shapes of timm that no map takes") {
  const auto with = [](const std::string& name, const at::Tensor& value) {
    NamedTensors timm = to_timm_bit(bit());
    timm[name] = value;
    return from_timm_bit(timm, "f");
  };
  const auto line = [&](const std::string& name, const at::Tensor& value) {
    return error_of([&] { with(name, value); });
  };
  CHECK(line("stem.conv.weight", at::zeros({4, 3})) ==
        "f: error: stem.conv.weight has shape (4, 3), expected 4 dimensions");
  CHECK(line("norm.bias", at::zeros({2, 4})) ==
        "f: error: norm.bias has shape (2, 4), expected 1 dimension");
  CHECK(line("head.fc.weight", at::zeros({5, 8})) ==
        "f: error: head.fc.weight has shape (5, 8), expected 4 dimensions");
  CHECK(line("stages.00.blocks.0.norm1.bias", at::zeros({2})) ==
        "f: error: two arrays of the file map to the same name 'block1/unit01/gn1/bias'");
  // Not a block number, or one that no model has: the name stays, and is listed as not in the
  // model.
  for (const std::string name :
       {"stages.0.blocks..norm1.bias", "stages.-1.blocks.0.norm1.bias",
        "stages.0.blocks.0.norm4.bias", "stages.99999999999999999999.blocks.0.norm1.bias",
        "stages.0.blocks.12345.norm1.bias", "stages.0", "stages.0.blocks.0.norm1.bias.x"}) {
    INFO(name);
    CHECK(with(name, at::zeros({2})).count(name) == 1);
  }
  // A head that is not a 1x1 convolution keeps its shape, so that the error names both shapes.
  CHECK(with("head.fc.weight", at::zeros({5, 8, 2, 2})).at("head/kernel").dim() == 4);
  CHECK(error_of(
            [] {
              to_timm_bit({{"block1/unit01/gn4/bias", at::zeros({2})}});
            },
            Exit::internal) != "");
}

}  // namespace bv::test

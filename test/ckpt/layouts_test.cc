// Names and layouts of other programs, compared with the reference's arrays, and converted to and
// fro.
#include "lib/ckpt/layouts/layouts.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/weights_file.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"
#include "test/support/golden.h"
#include "test/support/logged.h"

namespace bv::test {

namespace {

std::string golden(const std::string& name) { return golden_file(name); }

constexpr int64_t kWidth = 8, kHeads = 2, kMlp = 12, kBlocks = 2, kTokens = 4;

// Returns the parameters of a vit with all parts that a map knows. All have different values.
NamedTensors small_vit() {
  NamedTensors vit;
  float next = 0;
  const auto put = [&](const std::string& name, std::vector<int64_t> shape) {
    const at::Tensor value = at::empty(shape);
    vit[name] = at::arange(value.numel(), at::kFloat).view(shape) / 1024 + next;
    next += 16;
  };
  const auto dense = [&](const std::string& name, int64_t in, int64_t out) {
    put(name + "/kernel", {in, out});
    put(name + "/bias", {out});
  };
  const auto norm = [&](const std::string& name) {
    put(name + "/scale", {kWidth});
    put(name + "/bias", {kWidth});
  };
  const auto attention = [&](const std::string& name) {
    for (const char* part : {"query", "key", "value"}) {
      put(name + "/" + part + "/kernel", {kWidth, kHeads, kWidth / kHeads});
      put(name + "/" + part + "/bias", {kHeads, kWidth / kHeads});
    }
    put(name + "/out/kernel", {kHeads, kWidth / kHeads, kWidth});
    put(name + "/out/bias", {kWidth});
  };
  put("embedding/kernel", {3, 5, 3, kWidth});
  put("embedding/bias", {kWidth});
  put("pos_embedding", {1, kTokens, kWidth});
  put("cls", {1, 1, kWidth});
  for (int64_t i = 0; i < kBlocks; ++i) {
    const std::string block = fmt::format("Transformer/encoderblock_{}/", i);
    norm(block + "LayerNorm_0");
    norm(block + "LayerNorm_1");
    attention(block + "MultiHeadDotProductAttention_0");
    dense(block + "MlpBlock_0/Dense_0", kWidth, kMlp);
    dense(block + "MlpBlock_0/Dense_1", kMlp, kWidth);
  }
  norm("Transformer/encoder_norm");
  put("MAPHead_0/probe", {1, 1, kWidth});
  attention("MAPHead_0/MultiHeadDotProductAttention_0");
  norm("MAPHead_0/LayerNorm_0");
  dense("MAPHead_0/MlpBlock_0/Dense_0", kWidth, kMlp);
  dense("MAPHead_0/MlpBlock_0/Dense_1", kMlp, kWidth);
  dense("pre_logits", kWidth, 7);
  dense("head", 7, 3);
  return vit;
}

}  // namespace

TEST_CASE("layouts: an old vit file becomes the reference's tree") {
  if (golden("models/vit_oldformat.io.npz").empty()) return;
  const NamedTensors loaded = read_npz(golden("models/vit_oldformat.io.npz"), "loaded/");
  const NamedTensors ours = adapt_layout(read_weights(golden("models/vit_oldformat.ckpt.npz"), 0),
                                         shapes_of(loaded), "old.npz");
  CHECK(shapes_of(ours) == shapes_of(loaded));
  for (const auto& [name, value] : loaded) {
    INFO(name);
    if (name == "cls")
      CHECK(at::allclose(ours.at(name), value, 0, 1e-7));
    else
      CHECK(ours.at(name).equal(value));
  }
}

TEST_CASE("layouts: an old mixer file and TensorFlow's BiT become the arrays of the new files") {
  const auto [old, current] =
      GENERATE(std::pair("models/mixer_oldformat.ckpt.npz", "models/mixer.ckpt.npz"),
               std::pair("models/bit_paper_tfformat.ckpt.npz", "models/bit_paper.ckpt.npz"));
  if (golden(old).empty()) return;
  const NamedTensors wanted = read_npz(golden(current), "params/");
  CHECK(same_bits(adapt_layout(read_weights(golden(old), 0), shapes_of(wanted), old), wanted));
  CHECK(same_bits(adapt_layout(wanted, shapes_of(wanted), current), wanted));
}

TEST_CASE("layouts: bfloat16 as void, plain and with opt/target") {
  if (golden("models/bf16_void.npz").empty()) return;
  const NamedTensors tree = read_weights(golden("models/bf16_void.npz"), 0);
  CHECK(tree.size() == 1);
  CHECK(tree.at("a/kernel").scalar_type() == at::kBFloat16);
  const NamedTensors expected = read_npz(golden("models/bf16_void.npz"));
  CHECK(tree.at("a/kernel").to(at::kFloat).equal(expected.at("expected_f32")));
}

TEST_CASE("layouts: every vit of the reference stays as it is, and stacks and unstacks") {
  for (const char* name : {"vit_tok_learn", "vit_map_learn", "vit_gap_learn_rep", "vit_scan_tok"}) {
    const std::string file = golden(std::string("models/") + name + ".ckpt.npz");
    if (file.empty()) return;
    INFO(name);
    const NamedTensors tree = read_npz(file, "params/");
    CHECK(same_bits(adapt_layout(tree, shapes_of(tree), file), tree));
    const NamedTensors apart = unstack_blocks(tree, file);
    CHECK(apart.count("Transformer/encoderblock_0/LayerNorm_0/scale") == 1);
    const NamedTensors stacked = stack_blocks(tree, file);
    CHECK(stacked.count("Transformer/encoderblock/LayerNorm_0/scale") == 1);
    CHECK(same_bits(unstack_blocks(stacked, file), apart));
    CHECK(same_bits(stack_blocks(apart, file), stacked));
    CHECK(same_bits(adapt_layout(apart, shapes_of(stacked), file), stacked));
    CHECK(same_bits(adapt_layout(stacked, shapes_of(apart), file), apart));
  }
}

TEST_CASE("layouts: stacking needs every block, all of one shape") {
  NamedTensors tree = unstack_blocks(small_vit(), "f");
  tree.erase("Transformer/encoderblock_0/LayerNorm_0/scale");
  CHECK(error_of([&] { stack_blocks(tree, "f"); }) ==
        "f: error: Transformer/encoderblock_0/LayerNorm_0/scale is missing, but there are 1 such "
        "blocks");
  tree = small_vit();
  at::Tensor& half = tree["Transformer/encoderblock_1/LayerNorm_0/scale"];
  half = half.to(at::kHalf);
  CHECK(stack_blocks(tree, "f").at("Transformer/encoderblock/LayerNorm_0/scale").scalar_type() ==
        at::kFloat);
  tree["Transformer/encoderblock_1/LayerNorm_0/scale"] = at::ones({9});
  CHECK(error_of([&] { stack_blocks(tree, "f"); }) ==
        "f: error: Transformer/encoderblock_1/LayerNorm_0/scale has shape (9), but that of block 0 "
        "is (8): can't be stacked");
  // One name for every row of a huge axis would fill the memory.
  CHECK(error_of([] {
          unstack_blocks({{"Transformer/encoderblock/x", at::empty({int64_t{1} << 40, 0})}}, "f");
        }) ==
        "f: error: Transformer/encoderblock/x has shape (1099511627776, 0): its first axis can't "
        "be the encoder blocks");
}

TEST_CASE("layouts: children are renumbered in natural order at every level") {
  const at::Tensor one = at::ones({1});
  NamedTensors old;
  for (const char* name : {"Transformer/encoderblock_9/LayerNorm_2/bias", "probe",
                           "Transformer/encoderblock_10/LayerNorm_2/bias", "MlpBlock_5/a/kernel",
                           "Transformer/encoderblock_10/LayerNorm_11/bias", "LayerNorm_3/scale",
                           "MultiHeadDotProductAttention_7/out/bias", "a-b", "a_b/c", "unit_/x"}) {
    old[name] = one;
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : repair_vit(old, "f")) names.push_back(name);
  CHECK(names == std::vector<std::string>{
                     "MAPHead_0/LayerNorm_0/scale", "MAPHead_0/MlpBlock_0/a/kernel",
                     "MAPHead_0/MultiHeadDotProductAttention_0/out/bias", "MAPHead_0/probe",
                     "Transformer/encoderblock_0/LayerNorm_0/bias",
                     "Transformer/encoderblock_1/LayerNorm_0/bias",
                     "Transformer/encoderblock_1/LayerNorm_1/bias", "a-b", "a_b/c", "unit_/x"});
  old = {{"pos_embedding", one}, {"Transformer/pos_embedding", one}};
  CHECK(error_of([&] { repair_vit(old, "f"); }) ==
        "f: error: two arrays of the file map to the same name 'pos_embedding'");
}

TEST_CASE("layouts: old group norms of BiT lose their axes of size 1") {
  const at::Tensor norm = at::arange(4, at::kFloat), kernel = at::ones({1, 1, 1, 4});
  const NamedTensors tree = repair_bit({{"gn_root/scale", norm.view({1, 1, 1, 4})},
                                        {"block1/unit01/gn1/bias", norm},
                                        {"block1/unit01/conv1/kernel", kernel}});
  CHECK(tree.at("gn_root/scale").equal(norm));
  CHECK(tree.at("block1/unit01/gn1/bias").equal(norm));
  CHECK(tree.at("block1/unit01/conv1/kernel").equal(kernel));
}

TEST_CASE("layouts: the class token's position is added to it") {
  const at::Tensor positions = at::arange(17 * 2, at::kFloat).view({1, 17, 2});
  NamedTensors tree = {{"pos_embedding", positions}, {"cls", at::full({1, 1, 2}, 100.0)}};
  split_class_position(tree, 16, "f");
  CHECK(tree.at("cls").equal(at::tensor({100.0F, 101.0F}).view({1, 1, 2})));
  CHECK(tree.at("pos_embedding").equal(positions.slice(1, 1)));
  tree = {{"pos_embedding", positions}};
  split_class_position(tree, 17, "f");  // the model has 17 positions
  CHECK(tree.at("pos_embedding").size(1) == 17);
  split_class_position(tree, 36, "f");  // without a cls it is dropped
  CHECK(tree.at("pos_embedding").size(1) == 16);
  tree = {{"pos_embedding", at::zeros({1, 7, 2})}};
  split_class_position(tree, 9, "f");  // 6 is not a square
  CHECK(tree.at("pos_embedding").size(1) == 7);
  split_class_position(tree, 6, "f");  // but it is the model's grid
  CHECK(tree.at("pos_embedding").size(1) == 6);
}

TEST_CASE("layouts: a file's grid says whether the class token has a position") {
  const auto left = [](int64_t positions, int64_t model, TokenGrid stored, bool cls) {
    NamedTensors tree = {{"pos_embedding", at::ones({1, positions, 2})}};
    if (cls) tree["cls"] = at::zeros({1, 1, 2});
    split_class_position(tree, model, "f", stored);
    const int64_t kept = tree.at("pos_embedding").size(1);
    if (cls) CHECK(tree.at("cls").equal(at::full({1, 1, 2}, positions == kept ? 0.0F : 1.0F)));
    return kept;
  };
  // As in big_vision, 17 positions are those of 4x4 tokens and a class token, even if the model has
  // a grid of 1x17.
  CHECK(left(17, 17, {}, true) == 16);
  CHECK(left(17, 17, {1, 17}, true) == 17);
  CHECK(left(17, 36, {1, 17}, false) == 17);
  CHECK(left(7, 20, {2, 3}, true) == 6);
  CHECK(left(7, 0, {2, 3}, true) == 6);
  CHECK(left(17, 36, {3, 3}, true) == 16);  // the grid of another model
}

TEST_CASE("layouts: a warning says if a class token's position may be one of the model's grid") {
  const auto logged_for = [](int64_t positions, bool cls, TokenGrid stored) {
    NamedTensors tree = {{"pos_embedding", at::ones({1, 50, 2})}};
    if (cls) tree["cls"] = at::zeros({1, 1, 2});
    return logged([&] { split_class_position(tree, positions, "f", stored); });
  };
  CHECK(
      logged_for(50, true, {})
          .find(
              "f: pos_embedding has 50 positions, as many as the model; as in big_vision they are "
              "taken for the class token's and those of 7x7 patches, and resampled; if they are "
              "those of the model's patches, store pos_embedding as (1, rows, columns, 2)") !=
      std::string::npos);
  CHECK(logged_for(49, true, {}).empty());
  CHECK(logged_for(50, false, {}).empty());
  CHECK(logged_for(50, true, {5, 10}).empty());
  CHECK(logged_for(50, true, {7, 7}).empty());
}

TEST_CASE("layouts: the sum of a class token and its position has float32 precision") {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    INFO(type);
    const at::Tensor positions = at::full({1, 5, 2}, 0.01, type), cls = at::ones({1, 1, 2}, type);
    NamedTensors tree = {{"pos_embedding", positions}, {"cls", cls}};
    split_class_position(tree, 4, "f");
    const at::Tensor first = positions.narrow(1, 0, 1).to(at::kFloat);
    CHECK(tree.at("cls").equal(cls.to(at::kFloat) + first));
  }
}

TEST_CASE("layouts: timm's names to and fro, with block numbers of two digits") {
  NamedTensors vit = small_vit();
  for (const char* part : {"scale", "bias"}) {
    vit[std::string("Transformer/encoderblock_12/LayerNorm_1/") + part] = at::full({kWidth}, 5.0);
  }
  const NamedTensors timm = to_timm(vit);
  REQUIRE(is_timm(timm));
  CHECK(timm.at("patch_embed.proj.weight").sizes() == at::IntArrayRef({kWidth, 3, 3, 5}));
  CHECK(timm.at("blocks.1.attn.qkv.weight").sizes() == at::IntArrayRef({3 * kWidth, kWidth}));
  CHECK(timm.at("attn_pool.kv.bias").sizes() == at::IntArrayRef({2 * kWidth}));
  CHECK(timm.at("blocks.12.norm2.weight").equal(at::full({kWidth}, 5.0)));
  CHECK(timm.at("pos_embed").size(1) == kTokens + 1);
  CHECK(timm.at("pos_embed").select(1, 0).abs().sum().item<float>() == 0);
  // One element, checked by hand: output feature h * D/H + j of the key, input i.
  const int64_t h = 1, j = 2, i = 3, row = kWidth + h * (kWidth / kHeads) + j;
  CHECK(timm.at("blocks.0.attn.qkv.weight")[row][i].item<float>() ==
        vit.at("Transformer/encoderblock_0/MultiHeadDotProductAttention_0/key/kernel")[i][h][j]
            .item<float>());

  NamedTensors back = from_timm(timm, kHeads, "f");
  split_class_position(back, kTokens, "f");
  CHECK(same_bits(back, vit));
}

TEST_CASE("layouts: Hugging Face's names, with and without the prefix") {
  const NamedTensors vit = small_vit();
  const auto linear = [&](const std::string& name) { return vit.at(name).flatten(1).t(); };
  const std::string prefix = GENERATE("", "vit.");
  NamedTensors theirs;
  const auto put = [&](const std::string& name, const at::Tensor& value) {
    theirs[(name.starts_with("classifier") ? "" : prefix) + name] = value.contiguous();
  };
  put("embeddings.cls_token", vit.at("cls"));
  put("embeddings.position_embeddings",
      at::cat({at::zeros({1, 1, kWidth}), vit.at("pos_embedding")}, 1));
  put("embeddings.patch_embeddings.projection.weight",
      vit.at("embedding/kernel").permute({3, 2, 0, 1}));
  put("embeddings.patch_embeddings.projection.bias", vit.at("embedding/bias"));
  for (int i = 0; i < kBlocks; ++i) {
    const std::string to = fmt::format("encoder.layer.{}.", i);
    const std::string from = fmt::format("Transformer/encoderblock_{}/", i);
    for (const auto& [theirs_of, ours] : {std::pair("layernorm_before", "LayerNorm_0"),
                                          std::pair("layernorm_after", "LayerNorm_1")}) {
      put(to + theirs_of + ".weight", vit.at(from + ours + "/scale"));
      put(to + theirs_of + ".bias", vit.at(from + ours + "/bias"));
    }
    const std::string attention = from + "MultiHeadDotProductAttention_0/";
    for (const std::string part : {"query", "key", "value"}) {
      put(to + "attention.attention." + part + ".weight", linear(attention + part + "/kernel"));
      put(to + "attention.attention." + part + ".bias",
          vit.at(attention + part + "/bias").flatten());
    }
    put(to + "attention.output.dense.weight", vit.at(attention + "out/kernel").flatten(0, 1).t());
    put(to + "attention.output.dense.bias", vit.at(attention + "out/bias"));
    put(to + "intermediate.dense.weight", linear(from + "MlpBlock_0/Dense_0/kernel"));
    put(to + "intermediate.dense.bias", vit.at(from + "MlpBlock_0/Dense_0/bias"));
    put(to + "output.dense.weight", linear(from + "MlpBlock_0/Dense_1/kernel"));
    put(to + "output.dense.bias", vit.at(from + "MlpBlock_0/Dense_1/bias"));
  }
  put("layernorm.weight", vit.at("Transformer/encoder_norm/scale"));
  put("layernorm.bias", vit.at("Transformer/encoder_norm/bias"));
  put("pooler.dense.weight", linear("pre_logits/kernel"));
  put("pooler.dense.bias", vit.at("pre_logits/bias"));
  put("classifier.weight", linear("head/kernel"));
  put("classifier.bias", vit.at("head/bias"));
  put("embeddings.mask_token", at::zeros({1, 1, kWidth}));  // not a name that the map knows

  REQUIRE(is_hugging_face(theirs));
  NamedTensors wanted = vit;
  for (auto it = wanted.begin(); it != wanted.end();) {
    it = it->first.starts_with("MAPHead_0") ? wanted.erase(it) : std::next(it);
  }
  NamedTensors ours = adapt_layout(theirs, shapes_of(wanted), "f");
  CHECK(ours.erase("embeddings.mask_token") == 1);
  CHECK(same_bits(ours, wanted));
}

TEST_CASE("layouts: shapes that a map cannot take are named") {
  const NamedTensors timm = to_timm(small_vit());
  const auto with = [&](const std::string& name, const at::Tensor& value) {
    return error_of([&] {
      NamedTensors changed = timm;
      changed[name] = value;
      from_timm(changed, kHeads, "f");
    });
  };
  CHECK(with("patch_embed.proj.weight", at::zeros({8, 45})) ==
        "f: error: patch_embed.proj.weight has shape (8, 45), expected 4 dimensions");
  CHECK(with("blocks.0.attn.qkv.weight", at::zeros({25, 8})) ==
        "f: error: blocks.0.attn.qkv.weight has shape (25, 8): its first axis should hold 3 layers "
        "of one size");
  CHECK(with("blocks.0.attn.qkv.bias", at::zeros({})) ==
        "f: error: blocks.0.attn.qkv.bias has shape (): its first axis should hold 3 layers of one "
        "size");
  CHECK(with("blocks.0.attn.qkv.bias", at::zeros({9})) ==
        "f: error: blocks.0.attn.qkv.bias: 3 features can't be split into the model's 2 heads");
  CHECK(with("head.weight", at::zeros({3})) ==
        "f: error: head.weight has shape (3), expected 2 dimensions");
  CHECK(with("blocks.0.attn.proj.weight", at::zeros({8, 7})) ==
        "f: error: blocks.0.attn.proj.weight: 7 features can't be split into the model's 2 heads");
  NamedTensors deep = {{"Transformer/" + std::string(70000, '/'), at::ones({1})}};
  CHECK(error_of([&] {
          adapt_layout(deep, {{"Transformer/encoder_norm/scale", {1}}}, "f");
        }) ==
        "f: error: a name has more than 32 levels: Transformer" + std::string(29, '/') + "...");
}

TEST_CASE("layouts: positions are resampled as the reference does, but without its zeros") {
  const std::string file = golden("posemb.npz");
  if (file.empty()) return;
  const NamedTensors arrays = read_npz(file);
  int cases = 0;
  for (const auto& [name, wanted] : arrays) {
    if (!name.ends_with("/new")) continue;
    INFO(name);
    const at::Tensor old = arrays.at(name.substr(0, name.size() - 3) + "old");
    const at::Tensor ours = resample_positions(old, wanted.sizes().vec(), "f");
    CHECK((ours - wanted).abs().max().item<double>() <= 2e-6);
    ++cases;
  }
  CHECK(cases == 6);
  // For these pairs the reference gives zeros. Here the corners keep their values.
  const at::Tensor pairs = arrays.at("zoom_zero_pairs");
  for (int64_t i = 0; i < pairs.size(0); ++i) {
    const auto from = pairs[i][0].item<int64_t>(), to = pairs[i][1].item<int64_t>();
    INFO(from << " -> " << to);
    const at::Tensor old = at::rand({1, from * from, 3}) + 1;
    const at::Tensor ours = resample_positions(old, {1, to * to, 3}, "f").view({to, to, 3});
    const at::Tensor grid = old.view({from, from, 3});
    CHECK(ours[to - 1][to - 1].equal(grid[from - 1][from - 1]));
    CHECK(ours[0][to - 1].equal(grid[0][from - 1]));
    CHECK(ours.min().item<float>() >= old.min().item<float>());
  }
}

TEST_CASE("layouts: resampling keeps a linear ramp, also on grids that are not square") {
  const at::Tensor ramp = (at::arange(3).view({3, 1}) * 10 + at::arange(5).view({1, 5}))
                              .to(at::kFloat)
                              .view({1, 3, 5, 1});
  const at::Tensor finer = resample_positions(ramp, {1, 5, 9, 1}, "f");
  CHECK(at::allclose(
      finer.select(0, 0).select(2, 0),
      (at::arange(5).view({5, 1}) * 5 + at::arange(9).view({1, 9}) / 2.0).to(at::kFloat)));
  CHECK(resample_positions(at::ones({1, 1, 4}), {1, 9, 4}, "f").equal(at::ones({1, 9, 4})));
  CHECK(
      resample_positions(at::arange(9, at::kFloat).view({1, 9, 1}), {1, 1, 1}, "f").item<float>() ==
      0);
  CHECK(error_of([] {
          resample_positions(at::ones({1, 6, 4}), {1, 9, 4}, "f");
        }) ==
        "f: error: pos_embedding has shape (1, 6, 4) in the file but (1, 9, 4) in the model; 6 "
        "positions do not form a square");
  CHECK(error_of([] {
          resample_positions(at::ones({1, 4, 4}), {1, 9, 5}, "f");
        }) == "f: error: pos_embedding has shape (1, 4, 4) in the file but (1, 9, 5) in the model");
  CHECK(error_of([] {
          resample_positions(at::ones({1, 0, 4}), {1, 9, 4}, "f");
        }) == "f: error: pos_embedding has shape (1, 0, 4) in the file but (1, 9, 4) in the model");
}

}  // namespace bv::test

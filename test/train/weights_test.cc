// model_init with real models: the reference's arrays and logits, both layouts of the encoder,
// files of other programs, and files that do not fit.
#include "lib/train/weights/weights.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/model_card.h"
#include "lib/config/load_config.h"
#include "lib/model/target_scale.h"
#include "lib/util/file.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"
#include "test/support/golden.h"
#include "test/support/logged.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

std::unique_ptr<Model> build_model(const std::string& name, const std::string& yaml,
                                   int64_t classes, int64_t height, int64_t width) {
  auto model = make_model(name, yaml, {classes, height, width, 3});
  init_parameters(*model, 3, std::nullopt);
  return model;
}

std::unique_ptr<Model> build_case(const std::string& folder, const std::string& name) {
  const auto about = nlohmann::json::parse(read_file(folder + "/models/models.json")).at(name);
  const auto image = about.at("image").get<std::vector<int64_t>>();
  return build_model(about.at("model_name"), about.at("model").dump(), about.at("num_classes"),
                     image[1], image[2]);
}

at::Tensor logits_of(Model& model, const at::Tensor& image) {
  const c10::InferenceMode inference;
  Pass pass;
  return model.forward(image, pass);
}

NamedTensors copied_weights(const Model& model) {
  NamedTensors all;
  for (const auto& [name, value] : named_parameters(model)) all[name] = value.detach().clone();
  return all;
}

std::string load_error(const std::string& path, Model& model,
                       const std::vector<std::string>& dont_load = {}) {
  const NamedTensors before = copied_weights(model);
  const std::string line = error_of([&] { load_weights(path, model, dont_load); });
  CHECK((line.empty() || same_bits(copied_weights(model), before)));  // nothing was written
  return line;
}

const std::string kMu = "{variant: mu/8, pool_type: tok, depth: 2, head_zeroinit: false";

}  // namespace

TEST_CASE("weights: the reference's vits load with the same bits and give the reference's logits") {
  const auto folder = golden_folder("models/vit_gap_learn_rep.ckpt.npz");
  if (folder.empty()) return;
  for (const char* name : {"vit_gap_learn_rep", "vit_tok_learn", "vit_map_learn", "vit_scan_tok",
                           "vit_0_sincos_rep48", "vit_gap_sincos_nonsquare"}) {
    INFO(name);
    const auto model = build_case(folder, name);
    const std::string file = fmt::format("{}/models/{}.ckpt.npz", folder, name);
    load_weights(file, *model, {});
    CHECK(same_bits(copied_weights(*model), read_npz(file, "params/")));
    const NamedTensors io = read_npz(fmt::format("{}/models/{}.io.npz", folder, name));
    const at::Tensor wanted = io.at("logits");
    CHECK(at::allclose(logits_of(*model, io.at("image")), wanted, 1e-5,
                       2e-5 * wanted.abs().max().item<double>()));
  }
}

TEST_CASE("weights: an old vit file, and a transfer to larger images and other classes") {
  const auto folder = golden_folder("models/vit_oldformat.ckpt.npz");
  if (folder.empty()) return;
  const std::string root = folder + "/models/";
  const auto old = build_model("vit", kMu + "}", 10, 32, 32);
  load_weights(root + "vit_oldformat.ckpt.npz", *old, {});
  const NamedTensors old_io = read_npz(root + "vit_oldformat.io.npz");
  CHECK(at::allclose(logits_of(*old, old_io.at("image")), old_io.at("logits"), 0, 5e-5));

  const NamedTensors io = read_npz(root + "vit_transfer.io.npz");
  const auto model = build_model("vit", kMu + "}", 5, 48, 48);
  load_weights(root + "vit_transfer.init.ckpt.npz", *model, {});  // the values before the transfer
  load_weights(root + "vit_tok_square.ckpt.npz", *model, {"head/.*"});
  const NamedTensors loaded = copied_weights(*model);
  CHECK(loaded.at("head/kernel").equal(io.at("head/kernel")));
  CHECK(at::allclose(loaded.at("pos_embedding"), io.at("pos_embedding"), 0, 2e-6));
  CHECK(at::allclose(logits_of(*model, io.at("image")), io.at("logits"), 1e-5,
                     2e-5 * io.at("logits").abs().max().item<double>()));
}

TEST_CASE("weights: stacked and unrolled encoders read each other's files") {
  const MemoryFolder folder;
  const auto unrolled = build_model("vit", kMu + "}", 10, 32, 32);
  const auto stacked = build_model("vit", kMu + ", scan: true}", 10, 32, 32);
  const at::Tensor image = at::rand({2, 32, 32, 3}) * 2 - 1;
  write_npz(folder / "a.npz", copied_weights(*unrolled));
  load_weights(folder / "a.npz", *stacked, {});
  CHECK(at::allclose(logits_of(*stacked, image), logits_of(*unrolled, image), 1e-6, 1e-6));
  write_npz(folder / "b.npz", copied_weights(*stacked));
  const auto again = build_model("vit", kMu + "}", 10, 32, 32);
  load_weights(folder / "b.npz", *again, {});
  CHECK(same_bits(copied_weights(*again), copied_weights(*unrolled)));
  // The names in dont_load are those of the model.
  const auto partly = build_model("vit", kMu + ", scan: true}", 10, 32, 32);
  const NamedTensors fresh = copied_weights(*partly);
  init_parameters(*partly, 4, std::nullopt);
  const NamedTensors other = copied_weights(*partly);
  load_weights(folder / "a.npz", *partly, {"Transformer/encoderblock/LayerNorm_0/.*", "head/.*"});
  CHECK(copied_weights(*partly).at("head/kernel").equal(other.at("head/kernel")));
  CHECK_FALSE(copied_weights(*partly).at("cls").equal(at::ones({1, 1, 32})));
  CHECK(copied_weights(*partly).at("pos_embedding").equal(fresh.at("pos_embedding")));
}

TEST_CASE("weights: a timm file that is written and read gives the same model") {
  const MemoryFolder folder;
  for (const char* pool : {"tok", "map", "gap"}) {
    const std::string yaml =
        fmt::format("{{variant: mu/8, pool_type: {}, head_zeroinit: false}}", pool);
    const auto model = build_model("vit", yaml, 10, 32, 32);
    write_safetensors(folder / "t.safetensors", to_timm(copied_weights(*model)));
    const auto loaded = build_model("vit", yaml, 10, 32, 32);
    init_parameters(*loaded, 9, std::nullopt);
    load_weights(folder / "t.safetensors", *loaded, {});
    CHECK(same_bits(copied_weights(*loaded), copied_weights(*model)));
  }
}

TEST_CASE("weights: position embeddings are resampled to a model's grid that is not a square") {
  const MemoryFolder folder;
  const std::string path = folder / "w.safetensors";
  // Positions that grow by 10 from row to row and by 1 from column to column.
  const auto ramp = [](double rows, double columns, TokenGrid grid) {
    const at::Tensor y = at::linspace(0, 10 * (rows - 1), grid.rows).view({-1, 1});
    const at::Tensor x = at::linspace(0, columns - 1, grid.columns);
    return (y + x).view({1, -1, 1}).expand({1, grid.size(), 32}).contiguous();
  };
  const auto vit = [&](TokenGrid grid, const std::string& pool = "gap") {
    return build_model("vit", fmt::format("{{variant: mu/8, pool_type: {}}}", pool), 3,
                       8 * grid.rows, 8 * grid.columns);
  };
  // Returns what the model gets, and checks whether loading warns.
  const auto loaded = [&](const std::string& from, Model& model, bool warns) {
    const std::string lines = logged([&] { load_weights(from, model, {}); });
    CHECK((lines.find("it does not record the grid of its") != std::string::npos) == warns);
    return copied_weights(model);
  };
  const auto close = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && at::allclose(a, b, 0, 1e-4);
  };
  const TokenGrid wide = {2, 8}, square = {4, 4};
  const auto model = vit(wide);
  NamedTensors file = copied_weights(*model);

  // Files of other programs: squares.
  for (const int64_t side : {4, 5}) {
    INFO(side);
    const auto n = static_cast<double>(side);
    file["pos_embedding"] = ramp(n, n, {side, side});
    write_safetensors(path, file);
    CHECK(close(loaded(path, *model, side == 4).at("pos_embedding"), ramp(n, n, wide)));
  }
  file["pos_embedding"] = ramp(2, 8, wide).view({1, 2, 8, 32});  // an array that has a grid
  write_safetensors(path, file);
  CHECK(loaded(path, *model, false).at("pos_embedding").equal(ramp(2, 8, wide)));

  // Files and checkpoints of bvtrain record the size of the images.
  file["pos_embedding"] = ramp(2, 8, wide);
  ModelCard card;
  card.model_name = "vit";
  card.model = R"({"variant": "mu/8"})";
  card.num_classes = 3;
  card.loss = "softmax_xent";
  card.image = {16, 64, 3};
  write_safetensors(path, file, to_metadata(card));
  Snapshot snapshot;
  snapshot.step = 1;
  for (const auto& [name, value] : file) snapshot.tensors["params/" + name] = value;
  for (const auto& [name, value] : file) snapshot.tensors["ema/" + name] = value;
  snapshot.meta = {{"config", "{model_name: vit, model: {variant: mu/8}}"}, {"image", card.image}};
  const Workdir workdir(folder / "w");
  Checkpointer checkpointer(workdir);
  checkpointer.save(std::move(snapshot), true);
  checkpointer.wait();
  for (const std::string& from : {path, folder / "w", (folder / "w") + ":ema"}) {
    INFO(from);
    CHECK(loaded(from, *model, false).at("pos_embedding").equal(ramp(2, 8, wide)));
    CHECK(close(loaded(from, *vit(square), false).at("pos_embedding"), ramp(2, 8, square)));
    CHECK(close(loaded(from, *vit({3, 12}), false).at("pos_embedding"), ramp(2, 8, {3, 12})));
  }

  // One position more than 4x4 belongs to the class token, although the model has 17 tokens.
  const auto line = vit({1, 17}, "tok");
  file["cls"] = at::ones({1, 1, 32});
  file["pos_embedding"] = at::cat({at::full({1, 1, 32}, 7.0), ramp(4, 4, square)}, 1);
  write_safetensors(path, file);
  const NamedTensors with_class = loaded(path, *line, false);
  CHECK(with_class.at("cls").equal(at::full({1, 1, 32}, 8.0)));
  CHECK(close(with_class.at("pos_embedding").select(1, 0), at::zeros({1, 32})));
}

TEST_CASE("weights: a warning tells if they are tied to positions that the images do not have") {
  const MemoryFolder folder;
  const std::string path = folder / "w.safetensors";
  const auto cnn = [](int64_t height, int64_t width) {
    return build_model("cnn", "{widths: [8], dense: 16}", 3, height, width);
  };
  ModelCard card;
  card.model_name = "cnn";
  card.model = R"({"widths": [8], "dense": 16})";
  card.num_classes = 3;
  card.loss = "softmax_xent";
  card.image = {8, 8, 3};
  write_safetensors(path, copied_weights(*cnn(8, 8)), to_metadata(card));
  const auto warns = [&](Model& model) {
    const std::string lines = logged([&] { load_weights(path, model, {}); });
    return lines.find(path +
                      ": some of its weights are tied to positions in 8x8 images and do not fit "
                      "this model's images; use images of 8x8") != std::string::npos;
  };
  CHECK_FALSE(warns(*cnn(8, 8)));
  CHECK(warns(*cnn(4, 16)));  // as many features
}

TEST_CASE("weights: other types are converted, integers and other shapes are refused") {
  const MemoryFolder folder;
  const auto model = build_model("vit", "{variant: mu/8}", 3, 32, 32);
  NamedTensors file = copied_weights(*model);
  file["head/kernel"] = at::ones({32, 3}, at::kBFloat16);
  file["head/bias"] = at::full({3}, 0.5, at::kDouble);
  write_npz(folder / "a.npz", file);
  load_weights(folder / "a.npz", *model, {});
  CHECK(copied_weights(*model).at("head/kernel").equal(at::ones({32, 3})));
  CHECK(copied_weights(*model).at("head/bias").equal(at::full({3}, 0.5F)));
}

TEST_CASE("weights: a run refuses values that are not finite, unless they are not loaded") {
  const MemoryFolder folder;
  const std::string path = folder / "m.npz";
  const auto model = build_model("vit", "{variant: mu/8}", 3, 32, 32);
  NamedTensors file = copied_weights(*model);
  const auto refusal = [&](const std::vector<std::string>& dont_load = {}) {
    write_npz(path, file);
    return error_of([&] { require_finite(plan_weights(path, *model, dont_load), path); });
  };
  CHECK(refusal() == "");
  file.at("head/kernel")[2][1] = std::nanf("");
  CHECK(refusal() == path + ": error: 'head/kernel' has values that are not finite");
  file.at("head/bias") = at::full({3}, INFINITY, at::kHalf);
  CHECK(refusal() == path + ": error: 'head/bias', 'head/kernel' have values that are not finite");
  CHECK(refusal({"head/.*"}) == "");
}

TEST_CASE("weights: every name and shape that does not fit is in one line") {
  const MemoryFolder folder;
  const auto model = build_model("vit", "{variant: mu/8}", 3, 32, 32);
  const std::string path = folder / "a.npz";
  const std::string hint = " (model_load: {dont_load: [PATTERN, ...]} leaves names out)";
  const auto with = [&](const std::function<void(NamedTensors&)>& change,
                        const std::vector<std::string>& dont_load = {}) {
    NamedTensors file = copied_weights(*model);
    change(file);
    write_npz(path, file);
    const std::string line = load_error(path, *model, dont_load);
    if (line.empty()) return line;
    REQUIRE(line.starts_with(path + ": error: "));
    return line.substr(path.size() + 9);
  };
  CHECK(with([](NamedTensors&) {}) == "");
  CHECK(with([](NamedTensors& file) {
          file["head/kernel"] = at::zeros({32, 4});
        }) == "head/kernel has shape (32, 4) in the file but (32, 3) in the model" + hint);
  CHECK(with([](NamedTensors& file) { file["head/bias"] = at::zeros({3}, at::kLong); }) ==
        "head/bias has type int64 in the file" + hint);
  CHECK(with([](NamedTensors& file) {
          file.erase("embedding/bias");
          file.erase("head/bias");
          file["extra"] = file["more/x"] = at::zeros({1});
        }) ==
        "missing in the file: embedding/bias, head/bias; not in the model: extra, more/x" + hint);
  CHECK(with([](NamedTensors& file) {
          file["pos_embedding"] = at::zeros({1, 16, 31});
        }).starts_with("pos_embedding has shape (1, 16, 31) in the file but (1, 16, 32)"));
  CHECK(with([](NamedTensors& file) {
          file["pos_embedding"] = at::zeros({16, 32});
        }).starts_with("pos_embedding has shape (16, 32) in the file but (1, 16, 32)"));
  const std::vector<std::string> dont_load = {"head/.*", "extra"};
  CHECK(with(
            [](NamedTensors& file) {
              file["head/kernel"] = at::zeros({5, 5});
              file.erase("head/bias");
              file["extra"] = at::zeros({2});
            },
            dont_load) == "");
  // A pattern must match the whole name.
  CHECK(with([](NamedTensors& file) { file.erase("head/bias"); }, {"head", "bias"}) ==
        "missing in the file: head/bias" + hint);
  CHECK(with([](NamedTensors&) {}, {"("}) ==
        "model_load.dont_load: the pattern '(' is not a valid regular expression (ECMAScript "
        "grammar: no lookbehind, no (?i), no named groups, no back-references)");
}

TEST_CASE("weights: the last layer of a regression is not loaded without its scale of targets") {
  const MemoryFolder folder;
  const std::string yaml = "{variant: mu/8, head_zeroinit: false}";
  const auto model = build_model("vit", yaml, 2, 32, 32);
  add_target_scale(*model, 2);
  set_target_scale(*model, {50, -3}, {20, 0.5});
  const std::string bare = folder / "bare.npz", scaled = folder / "scaled.npz";
  NamedTensors file = copied_weights(*model);
  write_npz(bare, file);
  file["buffers/targets/mean"] = at::tensor({10.F, 1.F});
  file["buffers/targets/std"] = at::tensor({4.F, 2.F});
  write_npz(scaled, file);

  const std::string both =
      "model_init with model_load: {dont_load: ['buffers/targets/.*', 'head/.*']}";
  const std::string no_scale =
      "it has no target scale (buffers/targets/mean, buffers/targets/std), so its last layer and "
      "this model use different units. To train a new last layer, use " +
      both +
      "; to keep the file's last layer and train it in the units of the labels, use task_kw: "
      "{normalize_targets: false}";
  CHECK(load_error(bare, *model) == bare + ": error: " + no_scale);
  CHECK(load_error(bare, *model, {"buffers/targets/.*"}) == bare + ": error: " + no_scale);
  CHECK(load_error(bare, *model, {"buffers/.*", "head/bias"}) == bare + ": error: " + no_scale);
  CHECK(load_error(bare, *model, {"head/.*"}) ==
        bare +
            ": error: missing in the file: buffers/targets/mean, buffers/targets/std "
            "(model_load: {dont_load: [PATTERN, ...]} leaves names out)");
  CHECK(load_error(bare, *model, {"buffers/targets/.*", "head/.*"}) == "");
  for (const char* pattern : {"buffers/targets/.*", "buffers/targets/mean"}) {
    CHECK(load_error(scaled, *model, {pattern}) ==
          scaled +
              ": error: model_load.dont_load leaves out the target scale (buffers/targets/mean, "
              "buffers/targets/std), but loads the last layer that was trained with it; that layer "
              "would predict in other units. To leave out both, use " +
              both);
  }
  CHECK(target_scale(*model)->mean.equal(at::tensor({50.F, -3.F})));
  CHECK(load_error(scaled, *model) == "");
  CHECK(target_scale(*model)->mean.equal(file.at("buffers/targets/mean")));
  CHECK(target_scale(*model)->std.equal(file.at("buffers/targets/std")));

  // Other problems of the file are in the same line.
  file.erase("buffers/targets/std");
  file["head/kernel"] = at::zeros({32, 4});
  write_npz(bare, file);
  CHECK(load_error(bare, *model) ==
        bare +
            ": error: head/kernel has shape (32, 4) in the file but (32, 2) in the model "
            "(model_load: {dont_load: [PATTERN, ...]} leaves names out); " +
            no_scale);
}

TEST_CASE("weights: a model without a scale of targets takes it into its last layer") {
  const MemoryFolder folder;
  const std::string yaml = "{variant: mu/8, head_zeroinit: false}", path = folder / "a.npz";
  const auto regression = build_model("vit", yaml, 2, 32, 32);
  add_target_scale(*regression, 2);
  set_target_scale(*regression, {10, 1}, {4, 2});
  NamedTensors file = copied_weights(*regression);
  file["buffers/targets/mean"] = target_scale(*regression)->mean;
  file["buffers/targets/std"] = target_scale(*regression)->std;
  write_npz(path, file);

  const auto plain = build_model("vit", yaml, 2, 32, 32);
  CHECK(load_error(path, *plain, {"buffers/targets/.*"}) != "");
  CHECK(load_error(path, *plain) == "");
  const at::Tensor image = at::rand({3, 32, 32, 3}) * 2 - 1;
  CHECK(at::allclose(logits_of(*plain, image),
                     in_target_units(*regression, logits_of(*regression, image)), 1e-5, 1e-5));

  const auto classifier = build_model("vit", yaml, 5, 32, 32);
  const at::Tensor fresh = copied_weights(*classifier).at("head/kernel");
  CHECK(load_error(path, *classifier, {"head/.*"}) == "");
  CHECK(copied_weights(*classifier).at("head/kernel").equal(fresh));

  // A scale that fits nothing.
  for (const at::Tensor& mean : {at::zeros({3}), at::zeros({}), at::zeros({2, 2})}) {
    file["buffers/targets/mean"] = mean;
    write_npz(path, file);
    CHECK_THAT(load_error(path, *plain), Catch::Contains(" do not fit head/kernel (32, 2)"));
  }
}

TEST_CASE("weights: a damaged file is an error and leaves the model as it was") {
  const MemoryFolder folder;
  const auto model = build_model("vit", "{variant: mu/8}", 3, 32, 32);
  const NamedTensors ours = copied_weights(*model);
  std::mt19937 random(11);
  int refused = 0, loaded = 0;
  for (const char* format : {"npz", "safetensors", "timm"}) {
    const std::string good = folder / "good";
    if (format == std::string("npz"))
      write_npz(good, ours);
    else
      write_safetensors(good, format == std::string("timm") ? to_timm(ours) : ours);
    const std::string whole = read_file(good);
    for (int i = 0; i < 150; ++i) {
      // The header of safetensors is in the first kilobytes, the directory of npz in the last.
      const size_t cut = format == std::string("npz") ? whole.size() - 3000 : 0;
      const size_t end = format == std::string("npz") ? whole.size() : 3000;
      const std::string damaged =
          whole.substr(0, cut) + mutated(whole.substr(cut, end - cut), random) + whole.substr(end);
      std::ofstream(folder / "damaged", std::ios::binary) << damaged;
      const std::string line = load_error(folder / "damaged", *model);
      (line.empty() ? loaded : refused) += 1;
      CHECK(line.find('\n') == std::string::npos);
    }
  }
  CHECK(refused > 200);
}

}  // namespace bv::test

// Weights with another patch size: flexi_vit resizes them, other models reject them.
#include <ATen/ATen.h>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "lib/train/weights/weights.h"
#include "test/ckpt/support.h"

namespace bv::test {
namespace {

std::unique_ptr<Model> build_patched(const std::string& name, const std::string& patch,
                                     uint64_t seed) {
  const std::string yaml =
      fmt::format("{{variant: mu, patch_size: {}, pool_type: tok, head_zeroinit: false{}}}", patch,
                  name == "vit" ? "" : ", posemb_size: [4, 4], seqhw: 4");
  auto model =
      Model::Registry::make(name, parse_config(yaml, "m"), Place(), ModelEnv{5, 24, 24, 3});
  init_parameters(*model, seed, std::nullopt);
  return model;
}

NamedTensors weights_by_name(const Model& model) {
  NamedTensors all;
  for (const auto& [name, value] : named_parameters(model)) all[name] = value.detach();
  return all;
}

at::Tensor noise_logits(Model& model) {
  const c10::InferenceMode inference;
  const at::Tensor image = at::randn({2, 24, 24, 3}, at::detail::createCPUGenerator(3), at::kFloat);
  Pass pass;
  return model.forward(image, pass);
}

}  // namespace

TEST_CASE("weights: flexi_vit resizes patches of another size as it resizes its own") {
  const MemoryFolder folder;
  // With 4 tokens a side patches are 6x6: forward() resizes those of the first model to that.
  for (const std::string stored : {"[4, 4]", "[9, 9]", "[6, 6]"}) {
    INFO(stored);
    const auto model = build_patched("flexi_vit", stored, 1);
    const auto other = build_patched("flexi_vit", "[6, 6]", 2);
    write_npz(folder / "a.npz", weights_by_name(*model));
    load_weights(folder / "a.npz", *other, {});
    const at::Tensor expected = noise_logits(*model);
    CHECK(at::allclose(noise_logits(*other), expected, 1e-5,
                       1e-5 * expected.abs().max().item<double>()));
  }
  // A file of a vit, whose patches have another size.
  const auto vit = build_patched("vit", "[6, 6]", 1);
  const auto flexi = build_patched("flexi_vit", "[6, 6]", 2);
  write_npz(folder / "v.npz", weights_by_name(*vit));
  load_weights(folder / "v.npz", *flexi, {});
  CHECK(at::allclose(noise_logits(*flexi), noise_logits(*vit), 1e-5, 1e-5));
}

TEST_CASE("weights: patches that cannot be resized are named") {
  const MemoryFolder folder;
  const std::string file = folder / "a.npz";
  const auto line = [&](const std::string& model, const at::Tensor& kernel) {
    const auto target = build_patched(model, "[6, 6]", 1);
    NamedTensors all = weights_by_name(*target);
    all["embedding/kernel"] = kernel;
    write_npz(file, all);
    return error_of([&] { load_weights(file, *target, {}); });
  };
  const auto differs = [&](const std::string& shape) {
    return file + ": error: embedding/kernel has shape " + shape +
           " in the file but (6, 6, 3, 32) in the model (model_load: {dont_load: [PATTERN, ...]} "
           "leaves names out)";
  };
  CHECK(line("vit", at::zeros({8, 8, 3, 32})) == differs("(8, 8, 3, 32)"));
  CHECK(line("flexi_vit", at::zeros({8, 8, 3, 32})) == "");
  CHECK(line("flexi_vit", at::zeros({8, 8, 3, 16})) == differs("(8, 8, 3, 16)"));
  CHECK(line("flexi_vit", at::zeros({8, 8, 1, 32})) == differs("(8, 8, 1, 32)"));
  CHECK(line("flexi_vit", at::zeros({8, 24, 32})) == differs("(8, 24, 32)"));
  CHECK(line("flexi_vit", at::zeros({0, 8, 3, 32})) == differs("(0, 8, 3, 32)"));
  CHECK(line("flexi_vit", at::zeros({2000, 1, 3, 32})) == differs("(2000, 1, 3, 32)"));
}

}  // namespace bv::test

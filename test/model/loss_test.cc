#include "lib/model/loss.h"

#include <ATen/ATen.h>

#include <map>

#include "lib/ckpt/formats/npz.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

// Returns the largest |a - b| / (1 + |b|).
double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const at::Tensor x = a.detach().to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).abs() / (y.abs() + 1)).max().item<double>();
}

TEST_CASE("losses and their gradients equal the reference's, also for extreme logits") {
  const std::string file = golden_file("losses.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  for (const std::string name : {"sigmoid_xent", "softmax_xent"}) {
    const auto loss = Loss::Registry::make(name, Config(), Place());
    for (const std::string labels : {"onehot", "multihot", "soft"}) {
      INFO(name << " of " << labels);
      const at::Tensor logits = golden.at("logits").clone().requires_grad_(true);
      const at::Tensor values = (*loss)(logits, golden.at(labels));
      CHECK(relative_distance(values, golden.at(name + "/" + labels)) <= 2e-6);
      const at::Tensor mean = values.mean();
      CHECK(relative_distance(mean, golden.at(name + "_mean/" + labels)) <= 2e-6);
      mean.backward();
      CHECK(relative_distance(logits.grad(), golden.at("grad_" + name + "/" + labels)) <= 2e-6);
    }
  }
}

TEST_CASE("losses stay finite where the exponential overflows") {
  const at::Tensor logits = at::tensor({1e4f, -1e4f, 0.0f, 88.0f}).view({2, 2});
  const at::Tensor labels = at::tensor({0.0f, 1.0f, 1.0f, 0.0f}).view({2, 2});
  std::map<std::string, at::Tensor> losses;
  for (const std::string& name : Loss::Registry::names()) {
    INFO(name);
    at::Tensor leaf = logits.clone().requires_grad_(true);
    const at::Tensor values = (*Loss::Registry::make(name, Config(), Place()))(leaf, labels);
    CHECK(values.dim() == 1);
    REQUIRE(values.numel() == 2);
    CHECK(values.scalar_type() == at::kFloat);
    CHECK(values.isfinite().all().item<bool>());
    values.sum().backward();
    CHECK(leaf.grad().isfinite().all().item<bool>());
    losses[name] = values.detach();
  }
  for (const std::string name : {"sigmoid_xent", "softmax_xent"}) {
    INFO(name);
    const at::Tensor values = losses.at(name);
    CHECK(values[0].item<double>() == Approx(2e4));
    CHECK(values[1].item<double>() == Approx(name == "sigmoid_xent" ? 88 + std::log(2.0) : 88));
  }
}

}  // namespace
}  // namespace bv::test

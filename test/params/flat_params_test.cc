// The layout of the flat buffers, and copying in and out of them.
#include "lib/params/flat_params.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <map>

#include "test/train/tiny.h"

namespace bv {
namespace {

// Registration order: body/kernel, body/bias, head/kernel, head/bias.
struct Layout {
  explicit Layout(std::vector<int> groups) {
    for (const auto& [name, parameter] : named_parameters(model)) before[name] = parameter.clone();
    params.emplace(model, groups);
  }
  TinyModel model;
  NamedTensors before;
  std::optional<FlatParams> params;
};

std::vector<std::string> names(const FlatParams& params) {
  std::vector<std::string> all;
  for (const auto& entry : params.entries()) all.push_back(entry.name);
  return all;
}

}  // namespace

TEST_CASE("parameters are ordered by group, then in reverse, frozen ones last") {
  CHECK(names(*Layout({0, 0, 0, 0}).params) ==
        std::vector<std::string>{"head/bias", "head/kernel", "body/bias", "body/kernel"});
  CHECK(names(*Layout({1, 0, 1, 0}).params) ==
        std::vector<std::string>{"head/bias", "body/bias", "head/kernel", "body/kernel"});
  CHECK(names(*Layout({0, kFrozen, kFrozen, 1}).params) ==
        std::vector<std::string>{"body/kernel", "head/bias", "head/kernel", "body/bias"});
}

TEST_CASE("parameters move into one aligned buffer with their values, shapes and strides") {
  Layout layout({1, 0, 1, kFrozen});
  const FlatParams& params = *layout.params;
  CHECK(params.size() == 64 + 128 + 320 + 64);
  CHECK(params.trainable() == 64 + 128 + 320);
  CHECK(params.group_range(0) == std::pair<int64_t, int64_t>(0, 64));
  CHECK(params.group_range(1) == std::pair<int64_t, int64_t>(64, 512));
  const float* base = params.data().const_data_ptr<float>();
  bool permuted = false;
  for (const auto& entry : params.entries()) {
    INFO(entry.name);
    CHECK(entry.parameter.const_data_ptr<float>() == base + entry.offset);
    CHECK(reinterpret_cast<uintptr_t>(entry.parameter.const_data_ptr()) % 256 == 0);
    CHECK(entry.parameter.equal(layout.before.at(entry.name)));
    CHECK(entry.parameter.strides() == layout.before.at(entry.name).strides());
    CHECK(entry.parameter.requires_grad() == (entry.group != kFrozen));
    CHECK(entry.parameter.grad().defined() == (entry.group != kFrozen));
    CHECK_FALSE(entry.parameter.is_view());  // or its base would keep the model's own memory
    permuted = permuted || !entry.parameter.is_contiguous();
  }
  CHECK(permuted);  // or this test would not cover it
}

TEST_CASE("backward accumulates into the flat gradient buffer, in place") {
  Layout layout({0, 0, 0, 0});
  FlatParams& params = *layout.params;
  const void* memory = params.grads().const_data_ptr();
  const auto backward = [&] {
    Pass pass;
    layout.model.forward(tiny_batch(1).at("image"), pass).sum().backward();
  };
  backward();
  const at::Tensor once = params.grads().clone();
  CHECK(once.abs().sum().item<float>() > 0);
  backward();
  CHECK(params.grads().allclose(2 * once));
  for (const auto& entry : params.entries()) {
    const auto* address = static_cast<const float*>(memory) + entry.offset;
    CHECK(entry.parameter.grad().const_data_ptr<float>() == address);
  }
  params.zero_grad();
  CHECK(params.grads().abs().sum().item<float>() == 0);
}

TEST_CASE("tensors of other strides are copied in by name") {
  Layout layout({0, 0, 0, 0});
  NamedTensors values;
  for (const auto& [name, before] : layout.before) {
    values["params/" + name] = at::arange(before.numel(), at::kFloat).reshape(before.sizes());
    CHECK(values["params/" + name].is_contiguous());
  }
  values["chrono/time"] = at::ones({1});  // not under a prefix of ours
  copy_in(layout.params->views(layout.params->data(), "params/"), values, {"params/"}, "ckpt");
  for (const auto& entry : layout.params->entries()) {
    CHECK(entry.parameter.equal(values.at("params/" + entry.name)));
  }
}

TEST_CASE("what does not fit is named, all of it, and nothing is written") {
  Layout layout({0, 0, 0, 0});
  const at::Tensor before = layout.params->data().clone();
  const auto views = layout.params->views(layout.params->data(), "params/");
  NamedTensors other;
  for (const auto& [name, view] : views) other[name] = view.clone();
  other["params/body/bias"].fill_(9);
  other.erase("params/head/bias");
  other.erase("params/body/kernel");
  other["params/head/kernel"] = at::ones({24, 6});
  other["params/tail/bias"] = at::ones({2});
  CHECK_THROWS_WITH(
      copy_in(views, other, {"params/"}, "run/ckpt/step-10"),
      "run/ckpt/step-10: error: does not fit this config: missing params/body/kernel, "
      "params/head/bias; unexpected params/tail/bias; different params/head/kernel is Float "
      "(24, 6) there, Float (24, 5) here");
  CHECK(layout.params->data().equal(before));
}

TEST_CASE("shapes alone: parameters on the meta device") {
  const MetaDevice meta;
  class MetaModel : public Model {
   public:
    MetaModel() { add_parameter("kernel", {100, 3}, zeros()); }
    at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
  };
  MetaModel model;
  const std::vector<int> groups = {0};
  const FlatParams params(model, groups);
  CHECK(params.size() == 320);
  CHECK(params.data().is_meta());
}

TEST_CASE("what ranks share out they own once, with its values") {
  using ShardLevel;
  constexpr int kRanks = 3;
  const std::vector<int> groups = {1, 0, 1, kFrozen};
  for (const std::vector<Keep>& keep :
       {std::vector<Keep>(4, Keep::zero1), std::vector<Keep>(4, Keep::zero2),
        std::vector<Keep>(4, Keep::fsdp),
        std::vector<Keep>{Keep::fsdp, Keep::replicated, Keep::zero1, Keep::fsdp}}) {
    std::map<std::string, std::vector<int>> owners;  // of each element, how many
    int64_t state = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      TinyModel model;
      NamedTensors before;
      for (const auto& [name, value] : named_parameters(model)) before[name] = value.clone();
      const FlatParams params(model, groups, {rank, kRanks, keep, {"body/"}, 400});
      state += params.state_size();
      const at::Tensor buffer = params.new_buffer(at::kFloat);
      for (const auto& own : params.owned()) {
        CHECK(own.data % FlatParams::kAlign == 0);
        CHECK(own.state + own.count <= params.state_size());
        CHECK(own.grad + own.count <= params.grads().numel());
        buffer.narrow(0, own.state, own.count).add_(1);
        auto& counts = owners[own.entry->name];
        counts.resize(own.entry->numel);
        for (int64_t i = own.first; i < std::min(own.first + own.count, own.entry->numel); ++i)
          counts[i] += own.entry->segment >= 0 || rank == 0;
        // The parameter's memory from own.first on lies at own.data.
        const at::Tensor& value = before.at(own.entry->name);
        const int64_t n = std::min(own.count, own.entry->numel - own.first);
        if (n > 0)
          CHECK(params.data().narrow(0, own.data, n).equal(value.as_strided({n}, {1}, own.first)));
      }
      CHECK(buffer.max().item<float>() <= 1);  // nothing lies above something else
    }
    REQUIRE(owners.size() == 3);  // one is frozen
    for (const auto& [name, counts] : owners) {
      INFO(name);
      CHECK(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }));
    }
  }
}

TEST_CASE("lent memory comes back below the same tensors") {
  FreeableStorage loan(100, at::kCPU);
  const at::Tensor view = loan.tensor().narrow(0, 10, 5);
  CHECK_FALSE(loan.allocated());
  for (int i = 1; i < 4; ++i) {
    loan.allocate(/*zeroed=*/true);
    CHECK(view.sum().item<float>() == 0);
    loan.tensor().fill_(i);
    CHECK(view.sum().item<float>() == 5.0F * static_cast<float>(i));
    CHECK(FreeableStorage::bytes_now() == 400);
    loan.free();
    loan.free();
    CHECK(loan.tensor().const_data_ptr() == nullptr);
    CHECK(FreeableStorage::bytes_now() == 0);
  }
  CHECK(FreeableStorage::bytes_most() >= 400);
}

}  // namespace bv

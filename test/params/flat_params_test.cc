// The layout of the flat buffers, and copying in and out of them.
#include "lib/params/flat_params.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <map>

#include "lib/params/state_part.h"
#include "test/params/flat_views.h"
#include "test/support/tiny_model.h"

namespace bv::test {
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
  CHECK(params.trainable_size() == 64 + 128 + 320);
  CHECK(group_range(params, 0) == std::pair<int64_t, int64_t>(0, 64));
  CHECK(group_range(params, 1) == std::pair<int64_t, int64_t>(64, 512));
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
    CHECK_FALSE(
        entry.parameter.is_view());  // otherwise its base would keep the memory of the model
    permuted = permuted || !entry.parameter.is_contiguous();
  }
  CHECK(permuted);  // otherwise this test would not cover it
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
}

TEST_CASE("tensors with other strides are copied in by name") {
  Layout layout({0, 0, 0, 0});
  NamedTensors values;
  for (const auto& [name, before] : layout.before) {
    values["params/" + name] = at::arange(before.numel(), at::kFloat).reshape(before.sizes());
    CHECK(values["params/" + name].is_contiguous());
  }
  values["chrono/time"] = at::ones({1});  // its prefix is not one of the parameters' state
  copy_in(flat_views(*layout.params, layout.params->data(), "params/"), values, {"params/"},
          "ckpt");
  for (const auto& entry : layout.params->entries()) {
    CHECK(entry.parameter.equal(values.at("params/" + entry.name)));
  }
}

TEST_CASE("everything that does not fit is named, and nothing is written") {
  Layout layout({0, 0, 0, 0});
  const at::Tensor before = layout.params->data().clone();
  const auto views = flat_views(*layout.params, layout.params->data(), "params/");
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
      "params/head/bias; unexpected params/tail/bias; different params/head/kernel is float32 "
      "(24, 6) in the checkpoint but float32 (24, 5) in the model");
  CHECK(layout.params->data().equal(before));
}

TEST_CASE("a long list of what does not fit is cut") {
  std::vector<std::pair<std::string, at::Tensor>> views;
  for (int i = 0; i < 300; ++i) views.emplace_back(fmt::format("opt/mu/{:03}", i), at::zeros({1}));
  CHECK_THROWS_WITH(copy_in(views, {}, {"opt/"}, "run/ckpt/step-10"),
                    "run/ckpt/step-10: error: does not fit this config: missing opt/mu/000, "
                    "opt/mu/001, opt/mu/002, opt/mu/003, opt/mu/004, opt/mu/005, opt/mu/006, "
                    "opt/mu/007, ... (300 in all)");
}

TEST_CASE("parameters on the meta device have shapes only") {
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

TEST_CASE("every element of a sharded parameter is owned by one rank, with its value") {
  constexpr int kRanks = 3;
  const std::vector<int> groups = {1, 0, 1, kFrozen};
  for (const std::vector<ShardLevel>& levels :
       {std::vector<ShardLevel>(4, ShardLevel::zero1),
        std::vector<ShardLevel>(4, ShardLevel::zero2), std::vector<ShardLevel>(4, ShardLevel::fsdp),
        std::vector<ShardLevel>{ShardLevel::fsdp, ShardLevel::replicated, ShardLevel::zero1,
                                ShardLevel::fsdp}}) {
    std::map<std::string, std::vector<int>> owners;  // the number of owners of each element
    int64_t state = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      TinyModel model;
      NamedTensors before;
      for (const auto& [name, value] : named_parameters(model)) before[name] = value.clone();
      const FlatParams params(model, groups, {rank, kRanks, levels, {"body/"}, 400});
      state += params.state_size();
      const at::Tensor buffer = params.new_buffer(at::kFloat);
      for (const auto& own : params.owned_slices()) {
        CHECK(own.data % FlatParams::kAlign == 0);
        CHECK(own.state + own.count <= params.state_size());
        CHECK(own.grad + own.count <= params.grads().numel());
        buffer.narrow(0, own.state, own.count).add_(1);
        auto& counts = owners[own.entry->name];
        counts.resize(own.entry->numel);
        for (int64_t i = own.first; i < std::min(own.first + own.count, own.entry->numel); ++i)
          counts[i] += own.entry->segment >= 0 || rank == 0;
        // data() at own.data holds the parameter's memory from own.first on.
        const at::Tensor& value = before.at(own.entry->name);
        const int64_t n = std::min(own.count, own.entry->numel - own.first);
        if (n > 0)
          CHECK(params.data().narrow(0, own.data, n).equal(value.as_strided({n}, {1}, own.first)));
      }
      CHECK(buffer.max().item<float>() <= 1);  // no two slices overlap
    }
    REQUIRE(owners.size() == 3);  // one is frozen
    for (const auto& [name, counts] : owners) {
      INFO(name);
      CHECK(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }));
    }
  }
}

TEST_CASE("freeable storage gets new memory under the same tensors") {
  FreeableStorage storage(100, at::kCPU);
  const at::Tensor view = storage.tensor().narrow(0, 10, 5);
  CHECK_FALSE(storage.allocated());
  for (int i = 1; i < 4; ++i) {
    storage.allocate(/*zeroed=*/true);
    CHECK(view.sum().item<float>() == 0);
    storage.tensor().fill_(i);
    CHECK(view.sum().item<float>() == 5.0F * static_cast<float>(i));
    CHECK(FreeableStorage::bytes_now() == 400);
    storage.free();
    storage.free();
    CHECK(storage.tensor().const_data_ptr() == nullptr);
    CHECK(FreeableStorage::bytes_now() == 0);
  }
  CHECK(FreeableStorage::bytes_most() >= 400);
}

}  // namespace bv::test

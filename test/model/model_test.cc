#include "lib/model/model.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/model/init.h"
#include "lib/model/model_size_limit.h"
#include "lib/util/error.h"

namespace bv::test {
namespace {

class Sample : public Model {
 public:
  explicit Sample(bool head = true) {
    kernel = add_parameter("body/kernel", {3, 3, 2, 5}, normal(1), {3, 0, 1, 2});
    add_parameter("inner_0/scale", {4}, ones());
    if (head) add_parameter("head/bias", {5}, zeros());
    add_buffer("body/mean", at::zeros({5}));
  }
  at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
  at::Tensor kernel;
};

TEST_CASE("parameters have paths, logical shapes and the requested memory order") {
  Sample model;
  const auto all = named_parameters(model);
  REQUIRE(all.size() == 3);
  CHECK(all[0].first == "body/kernel");
  CHECK(all[1].first == "inner_0/scale");
  CHECK(all[2].first == "head/bias");
  CHECK(model.kernel.sizes() == at::IntArrayRef({3, 3, 2, 5}));
  CHECK(model.kernel.permute({3, 0, 1, 2}).is_contiguous());
  CHECK(all[0].second.is_same(model.kernel));
  CHECK(model.kernel.requires_grad());
  REQUIRE(named_buffers(model).size() == 1);
  CHECK(named_buffers(model)[0].first == "body/mean");
}

TEST_CASE("a model for weights from anywhere may not be far larger than they are") {
  const ModelSizeLimit limit(1000, "w.npz");
  CHECK_NOTHROW(Sample());
  Module owner;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    owner.add_parameter(name, shape, zeros());
  };
  CHECK_NOTHROW(add("small", {5}));
  const std::vector<std::vector<int64_t>> too_large = {
      {int64_t{1} << 61, 16}, {int64_t{1} << 40}, {-1}};
  for (const auto& shape : too_large) CHECK_THROWS_AS(add("large", shape), Error);
  const MetaDevice no_memory;
  const auto add_many = [&] {
    for (int i = 0; i < 200'000; ++i) add(std::to_string(i), {1});
  };
  CHECK_THROWS_AS(add_many(), Error);
}

TEST_CASE("the initial values of a parameter depend only on the seed and its name") {
  Sample with_head, without_head(false);
  init_parameters(with_head, 11, std::nullopt);
  init_parameters(without_head, 11, std::nullopt);
  CHECK(with_head.kernel.equal(without_head.kernel));
  CHECK(named_parameters(with_head)[1].second.equal(at::ones({4})));
  init_parameters(without_head, 12, std::nullopt);
  CHECK_FALSE(with_head.kernel.equal(without_head.kernel));
}

TEST_CASE("init_head_bias fills head/bias, and needs one") {
  Sample model, headless(false);
  init_parameters(model, 1, -6.5);
  CHECK(named_parameters(model)[2].second.equal(at::full({5}, -6.5)));
  CHECK_THROWS_WITH(init_parameters(headless, 1, -6.5),
                    "error: init_head_bias is given, but the model has no parameter 'head/bias'");
}

TEST_CASE("under MetaDevice nothing is allocated and initialising does nothing") {
  const MetaDevice guard;
  Sample model;
  CHECK(model.kernel.is_meta());
  CHECK(model.kernel.permute({3, 0, 1, 2}).is_contiguous());
  init_parameters(model, 1, 2.0);
  CHECK(named_parameters(model)[1].second.is_meta());
}

TEST_CASE("MetaDevice ends with its guard") {
  {
    const MetaDevice guard;
    CHECK(MetaDevice::active());
  }
  CHECK_FALSE(MetaDevice::active());
}

}  // namespace
}  // namespace bv::test

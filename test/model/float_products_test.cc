// Compares float32 matrix products of each library with their formula in float64.
#include "lib/model/kernels/float_products.h"

#include "test/model/against_formula.h"

namespace bv::test {

TEST_CASE("products of float32 matrices take operands of any strides") {
  const at::Tensor number = at::ones({1}), row = noise({1, 170}, at::kFloat, 5);
  const Tensors inputs = {noise({300, 170}, at::kFloat, 1), noise({170, 300}, at::kFloat, 1).t(),
                          row.expand({300, 170}), noise({300, 4, 170}, at::kFloat, 6).select(1, 2)};
  const auto far = [](const at::Tensor& found, const at::Tensor& exact) {
    REQUIRE(found.sizes() == exact.sizes());
    return ((found.to(at::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
  };
  for (const int64_t out : {1, 128, 200}) {
    const Tensors weights = {noise({out, 170}, at::kFloat, 2), noise({170, out}, at::kFloat, 2).t(),
                             noise({out, 200}, at::kFloat, 2).narrow(1, 3, 170)};
    const Tensors gradients = {number.expand({300, out}), noise({300, out}, at::kFloat, 4),
                               noise({out, 300}, at::kFloat, 4).t(),
                               noise({1, out}, at::kFloat, 4).expand({300, out})};
    const at::Tensor bias = noise({out}, at::kFloat, 3);
    for (const at::Tensor& x : inputs) {
      const at::Tensor wide = x.to(at::kDouble);
      for (const at::Tensor& weight : weights) {
        INFO(out << " outputs, strides " << x.strides() << " and " << weight.strides());
        const at::Tensor exact = wide.mm(weight.to(at::kDouble).t());
        CHECK(far(float_product(x, weight), exact) < 1e-5);
        CHECK(far(float_product(x, weight, bias), exact + bias) < 1e-5);
        CHECK(far(onednn_product(x, weight, bias), exact + bias) < 1e-5);
      }
      for (const at::Tensor& grad : gradients) {
        INFO(out << " outputs, strides " << x.strides() << " and " << grad.strides());
        const at::Tensor exact = grad.to(at::kDouble).t().mm(wide);
        for (const at::Tensor& weight : weights)
          CHECK(far(float_weight_gradient(grad, x, weight), exact) < 1e-5);
        CHECK(far(onednn_transposed_product(grad, x), exact) < 1e-5);
      }
    }
  }
}

}  // namespace bv::test

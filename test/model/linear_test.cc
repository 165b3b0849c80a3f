// Compares dense layers, forward and backward, with their formula in float64.
#include "lib/model/kernels/linear.h"

#include "test/model/against_formula.h"

namespace bv::test {

TEST_CASE("a linear layer agrees with its formula, forward and backward") {
  const auto layer = [](const Tensors& in) { return linear(in[0], in[1], in[2]); };
  const auto exact_layer = [](const Tensors& in) { return in[0].matmul(in[1].t()) + in[2]; };
  struct Shape {
    std::vector<int64_t> x;
    int64_t out;
  };
  for (const Shape& shape : std::vector<Shape>{{{2, 3}, 4},
                                               {{400, 64}, 96},
                                               {{3, 197, 48}, 80},
                                               {{2, 5, 33, 65}, 129},
                                               {{1, 2000}, 1000},
                                               {{2, 331, 100}, 129},
                                               {{331, 129}, 100}}) {
    const int64_t in = shape.x.back();
    std::vector<int64_t> grad = shape.x;
    grad.back() = shape.out;
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      // As a kernel (in, out), which a layer passes as the transposed matrix.
      const Tensors all = {noise(shape.x, type, 1), noise({in, shape.out}, type, 2).t(),
                           noise({shape.out}, type, 3), noise(grad, type, 4)};
      const Tensors exact = results(exact_layer, all, at::kDouble);
      INFO(shape.x << " to " << shape.out << " in " << type);
      for (const double far : errors(results(layer, all, type), exact))
        CHECK(far < (type == at::kFloat ? 2e-6 : 0x1p-7));
      if (type == at::kFloat) continue;
      // The gradients of the float32 weights are not rounded.
      const auto wide = [](const Tensors& in) {
        return linear_in_float32(in[0], in[1].to(at::kFloat), in[2].to(at::kFloat));
      };
      for (const double far : errors(results(wide, all, type), exact)) CHECK(far < 0x1p-8);
      if (!fits_linear_in_bf16(all[0])) continue;
      const auto narrow = [](const Tensors& in) {
        return linear_in_bf16(in[0], in[1].to(at::kFloat), in[2].to(at::kFloat));
      };
      for (const double far : errors(results(narrow, all, type), exact)) CHECK(far < 0x1p-8);
    }
  }
}

TEST_CASE("a linear layer takes inputs and gradients of any strides, and frozen operands") {
  const auto layer = [](const Tensors& in) { return linear(in[0], in[1], in[2]); };
  const auto exact_layer = [](const Tensors& in) { return in[0].matmul(in[1].t()) + in[2]; };
  const at::Tensor number = at::ones({1}), row = noise({1, 170}, at::kFloat, 5);
  const Tensors inputs = {noise({170, 300}, at::kFloat, 1).t(), row.expand({300, 170}),
                          noise({300, 4, 170}, at::kFloat, 6).select(1, 2)};
  for (const int64_t out : {128, 200}) {
    for (const at::Tensor& x : inputs) {
      const Tensors gradients = {number.expand({300, out}), noise({300, out}, at::kFloat, 4),
                                 noise({1, out}, at::kFloat, 4).expand({300, out})};
      for (const at::Tensor& grad : gradients) {
        const Tensors all = {x, noise({out, 170}, at::kFloat, 2), noise({out}, at::kFloat, 3),
                             grad};
        INFO(out << " outputs, strides " << x.strides() << " and " << grad.strides());
        for (const double far :
             errors(results(layer, all, at::kFloat), results(exact_layer, all, at::kDouble)))
          CHECK(far < 1e-5);  // the rounding errors of equal rows add up
      }
    }
  }
  const at::Tensor x = noise({300, 170}, at::kFloat, 1);
  for (size_t trained = 0; trained < 3; ++trained) {
    Tensors in = {x, noise({128, 170}, at::kFloat, 2), noise({128}, at::kFloat, 3)};
    in[trained].set_requires_grad(true);
    const at::Tensor grad = noise({300, 128}, at::kFloat, 4);
    const at::Tensor found = torch::autograd::grad({layer(in)}, {in[trained]}, {grad})[0];
    const at::Tensor exact = torch::autograd::grad({exact_layer(in)}, {in[trained]}, {grad})[0];
    CHECK(at::allclose(found, exact, 1e-4, 1e-4));
  }
}

}  // namespace bv::test

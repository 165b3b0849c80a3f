#include "lib/model/kernels/device/dense_products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "lib/device/cuda.h"
#include "lib/device/operator_record.h"
#include "lib/model/kernels/device/device_product.h"

namespace bv {
namespace {

// Launches the product. Returns false, and does nothing, if the device's library does not support
// it.
bool start(const DeviceProduct& product, const at::Tensor& result) {
  static auto* const compute = cuda_function<ComputeProduct>("bvtrain_cuda_product");
  if (!compute(product, cuda_stream(result.device()))) return false;
  const double m = static_cast<double>(product.m), n = static_cast<double>(product.n),
               k = static_cast<double>(product.k), aux = product.aux ? 2 : 0;
  note_operator({"bvtrain::product", 2 * m * n * k,
                 2 * (m + n) * k + (static_cast<double>(result.element_size()) + aux) * m * n});
  return true;
}

// y = x weight^T. By columns, y is (out, n), x is (in, n), and the weight is (in, out).
DeviceProduct forward_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& y) {
  const int64_t n = x.size(0), in = x.size(1), out = weight.size(0);
  return {.m = out,
          .n = n,
          .k = in,
          .a = weight.const_data_ptr(),
          .lda = in,
          .transpose_a = true,
          .b = x.const_data_ptr(),
          .ldb = in,
          .d = y.data_ptr(),
          .ldd = out,
          // A bias is only read here.
          .bias = const_cast<void*>(bias.const_data_ptr())};
}

// dx = grad weight. By columns, dx is (in, n), grad is (out, n), and the weight is (in, out).
DeviceProduct backward_product(const at::Tensor& grad, const at::Tensor& weight,
                               const at::Tensor& dx) {
  const int64_t n = grad.size(0), out = weight.size(0), in = weight.size(1);
  return {.m = in,
          .n = n,
          .k = out,
          .a = weight.const_data_ptr(),
          .lda = in,
          .b = grad.const_data_ptr(),
          .ldb = out,
          .d = dx.data_ptr(),
          .ldd = in};
}

at::Tensor matrix_like(const at::Tensor& like, int64_t columns) {
  return at::empty({like.size(0), columns}, like.options());
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor y = matrix_like(x, weight.size(0));
  DeviceProduct product = forward_product(x, weight, bias, y);
  product.epilogue = Epilogue::bias;
  return start(product, y) ? y : at::linear(x, weight, bias);
}

at::Tensor gelu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::Tensor* before) {
  const at::Tensor y = matrix_like(x, weight.size(0));
  DeviceProduct product = forward_product(x, weight, bias, y);
  product.epilogue = before ? Epilogue::gelu_aux_bias : Epilogue::gelu_bias;
  if (before) {
    *before = at::empty_like(y);
    product.aux = before->data_ptr();
    product.ld_aux = product.m;
  }
  if (start(product, y)) return y;
  const at::Tensor plain = linear_product(x, weight, bias);
  if (before) *before = plain;
  return at::gelu(plain, "tanh");
}

at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight) {
  const at::Tensor dx = matrix_like(grad, weight.size(1));
  return start(backward_product(grad, weight, dx), dx) ? dx : at::mm(grad, weight);
}

at::Tensor gelu_input_gradient(const at::Tensor& grad, const at::Tensor& weight,
                               const at::Tensor& before, at::Tensor* sum) {
  const at::Tensor dx = matrix_like(grad, weight.size(1));
  DeviceProduct product = backward_product(grad, weight, dx);
  product.aux = const_cast<void*>(before.const_data_ptr());  // it is only read here
  product.ld_aux = product.m;
  if (sum) {
    *sum = at::empty({product.m}, grad.options());
    product.epilogue = Epilogue::dgelu_bgrad;
    product.bias = sum->data_ptr();
    if (start(product, dx)) return dx;
    product.bias = nullptr;
  }
  product.epilogue = Epilogue::dgelu;
  const at::Tensor result =
      start(product, dx) ? dx : at::gelu_backward(input_gradient(grad, weight), before, "tanh");
  if (sum) *sum = sum_of_rows(result);
  return result;
}

at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x, at::Tensor* sum) {
  // grad^T x. By columns, the result is (in, out), x is (in, n), and grad is (out, n).
  const int64_t n = x.size(0), in = x.size(1), out = grad.size(1);
  const at::Tensor result = at::empty({out, in}, x.options().dtype(at::kFloat));
  DeviceProduct product{.m = in,
                        .n = out,
                        .k = n,
                        .a = x.const_data_ptr(),
                        .lda = in,
                        .b = grad.const_data_ptr(),
                        .ldb = out,
                        .transpose_b = true,
                        .d = result.data_ptr(),
                        .ldd = in,
                        .d_float = true};
  if (sum) {
    *sum = at::empty({out}, result.options());
    product.epilogue = Epilogue::bgrad_b;
    product.bias = sum->data_ptr();
    if (start(product, result)) return result;
    *sum = sum_of_rows(grad);
    product.epilogue = Epilogue::none;
    product.bias = nullptr;
  }
  return start(product, result) ? result : at::mm(grad.t(), x).to(at::kFloat);
}

at::Tensor sum_of_rows(const at::Tensor& matrix) {
  return at::sum(matrix, at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat);
}

}  // namespace bv

// Matrix products on the emulated GPU, in place of cuBLASLt: lib/cuda/products.cc.
#include <ATen/ATen.h>

#include <cstdlib>
#include <string>

#include "lib/cuda/export.h"
#include "lib/model/kernels/device/device_product.h"
#include "test/emulated_cuda/memory.h"
#include "test/emulated_cuda/recording.h"
#include "test/emulated_cuda/tensors.h"

namespace bv::emulation {
namespace {

constexpr uintptr_t kAlignment = 16;

// Returns the matrix (rows, columns) that is stored by columns, at its place in the emulation.
at::Tensor matrix_at(const void* device, int64_t rows, int64_t columns, int64_t ld,
                     at::ScalarType type) {
  if (reinterpret_cast<uintptr_t>(device) % kAlignment != 0)
    throw std::runtime_error("a matrix of a product is not aligned");
  return at::from_blob(DeviceMemory::get().host(device), {rows, columns}, {1, ld},
                       at::TensorOptions(type));
}

at::Tensor bias_at(const DeviceProduct& product) {
  const int64_t size = product.epilogue == Epilogue::bgrad_b ? product.n : product.m;
  return matrix_at(product.bias, size, 1, size, product.d_float ? at::kFloat : at::kBFloat16);
}

void compute(const DeviceProduct& product) {
  const Unseen unseen;
  const auto factor = [](const void* from, int64_t rows, int64_t columns, int64_t ld, bool turn) {
    const at::Tensor stored = turn ? matrix_at(from, columns, rows, ld, at::kBFloat16).t()
                                   : matrix_at(from, rows, columns, ld, at::kBFloat16);
    return stored.to(at::kFloat);
  };
  const at::Tensor a = factor(product.a, product.m, product.k, product.lda, product.transpose_a);
  const at::Tensor b = factor(product.b, product.k, product.n, product.ldb, product.transpose_b);
  const at::Tensor d = matrix_at(product.d, product.m, product.n, product.ldd,
                                 product.d_float ? at::kFloat : at::kBFloat16);
  const auto aux = [&] {
    return matrix_at(product.aux, product.m, product.n, product.ld_aux, at::kBFloat16);
  };
  const auto with_bias = [&] { return (at::mm(a, b) + bias_at(product)).to(at::kBFloat16); };
  const auto dgelu = [&] { return at::gelu_backward(at::mm(a, b), aux().to(at::kFloat), "tanh"); };
  switch (product.epilogue) {
    case Epilogue::none:
      d.copy_(at::mm(a, b));
      break;
    case Epilogue::bias:
      d.copy_(with_bias());
      break;
    case Epilogue::gelu_bias:
      d.copy_(at::gelu(with_bias().to(at::kFloat), "tanh"));
      break;
    case Epilogue::gelu_aux_bias:
      aux().copy_(with_bias());
      d.copy_(at::gelu(aux().to(at::kFloat), "tanh"));
      break;
    case Epilogue::dgelu:
      d.copy_(dgelu());
      break;
    case Epilogue::dgelu_bgrad: {
      const at::Tensor gradient = dgelu();
      d.copy_(gradient);
      bias_at(product).copy_(gradient.sum(1, /*keepdim=*/true));
      break;
    }
    case Epilogue::bgrad_b:
      d.copy_(at::mm(a, b));
      bias_at(product).copy_(b.sum(0).unsqueeze(1));
      break;
  }
}

// Whether a variable of the environment has the epilogue's number.
bool names(const char* variable, Epilogue epilogue) {
  const char* const numbers = std::getenv(variable);
  return numbers && std::string(numbers).find(
                        static_cast<char>('0' + static_cast<int>(epilogue))) != std::string::npos;
}

}  // namespace
}  // namespace bv::emulation

BV_EXPORT bool bvtrain_cuda_product(const bv::DeviceProduct& product, void*) {
  // The library may lack an epilogue. A wrong one computes without it.
  if (bv::emulation::names("BVTRAIN_EMULATED_MISSING_EPILOGUES", product.epilogue)) return false;
  bv::DeviceProduct computed = product;
  if (bv::emulation::names("BVTRAIN_EMULATED_WRONG_EPILOGUES", product.epilogue))
    computed.epilogue = bv::Epilogue::none;
  bv::emulation::submit([computed] { bv::emulation::compute(computed); });
  return true;
}

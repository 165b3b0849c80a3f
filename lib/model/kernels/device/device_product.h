// A product of two bfloat16 matrices on a CUDA device, as the plug-in computes it: by cuBLASLt
// (lib/cuda/products.cc), which can add a bias, apply GELU or sum the bias gradient in the same
// kernel. No tensors here, because the plug-in's sources and tests include this file.
#pragma once

#include <cstdint>

namespace bv {

// What happens to the product A B. GELU is the tanh approximation. `bias` and `aux` are members of
// DeviceProduct.
enum class Epilogue : int32_t {
  none,
  bias,           // D = A B + bias, one number of bias for each row
  gelu_bias,      // D = gelu(A B + bias)
  gelu_aux_bias,  // the same; writes A B + bias to aux
  dgelu,          // D = A B * gelu'(aux)
  dgelu_bgrad,    // the same; writes the sum of each row of D to bias
  bgrad_b,        // D = A B; writes the sum of each column of B to bias
};

// D = epilogue(A B) with A (m, k), B (k, n) and D (m, n). All matrices are stored by columns:
// element (i, j) is at i + j * ld. A row-major matrix (rows, columns) is one of (columns, rows) by
// columns. A, B, aux and a bias that is read are bfloat16. Addresses must be multiples of 16 bytes,
// leading dimensions (ld) multiples of 8.
struct DeviceProduct {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;  // a is stored as (k, m)
  const void* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;  // b is stored as (n, k)
  void* d = nullptr;
  int64_t ldd = 0;
  // D, and the sums that go to bias, are float32 instead of bfloat16. With `none` and bgrad_b only.
  bool d_float = false;
  Epilogue epilogue = Epilogue::none;
  void* bias = nullptr;  // (m), or (n) for bgrad_b; read, or written by dgelu_bgrad and bgrad_b
  void* aux = nullptr;   // (m, n); read, or written by gelu_aux_bias
  int64_t ld_aux = 0;
};

// The plug-in's function bvtrain_cuda_product. It starts the product on a CUDA stream. Returns
// false, and does nothing, if the library has no algorithm for this combination of types, sizes and
// epilogue. The same product is bit-identical in every call.
using ComputeProduct = bool(const DeviceProduct& product, void* stream);

}  // namespace bv

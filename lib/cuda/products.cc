// Matrix products by cuBLASLt, for lib/model/kernels/device/device_product.h. The layouts are
// those for which Hopper kernels exist (NVIDIA's Transformer Engine uses the same).
//
// Everything here may be called while a CUDA graph is captured: it does not synchronize, and its
// memory comes from LibTorch. Results are reproducible: the same product always uses the same
// algorithm, and a split-K reduction is a separate pass.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/scratch.h"
#include "lib/model/kernels/device/device_product.h"

namespace bv {
namespace {

constexpr size_t kWorkspace = 32 << 20;  // bytes; NVIDIA recommends this size for Hopper

// Throws std::runtime_error. is_out_of_memory() recognizes its last words. cuBLASLt returns
// NOT_INITIALIZED if there is no memory for its handle.
void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool no_memory =
      status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED;
  throw std::runtime_error(std::string("CUDA: ") + what + ": " + cublasLtGetStatusName(status) +
                           (no_memory ? ": out of memory" : ""));
}

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    (void)destroy(object);
  }
};

template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)),
               "an attribute of a product");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_cublas(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "a preference of a product");
}

cublasLtEpilogue_t epilogue_of(const DeviceProduct& product) {
  switch (product.epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::gelu_aux_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::dgelu_bgrad:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::bgrad_b:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw std::logic_error("an unknown epilogue");
}

// Returns the operation's descriptor. Bias and aux have the type of D, which is cuBLASLt's default.
Operation operation_of(const DeviceProduct& product) {
  cublasLtMatmulDesc_t made = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  Operation operation(made);
  const auto transposed = [](bool is) { return is ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(product.transpose_a));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(product.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  if (product.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  if (product.aux != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.aux);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.ld_aux);
  }
  return operation;
}

Layout layout_of(cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld) {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), ld),
               "the layout of a matrix");
  return Layout(made);
}

struct Descriptors {
  explicit Descriptors(const DeviceProduct& product)
      : operation(operation_of(product)),
        a(product.transpose_a ? layout_of(CUDA_R_16BF, product.k, product.m, product.lda)
                              : layout_of(CUDA_R_16BF, product.m, product.k, product.lda)),
        b(product.transpose_b ? layout_of(CUDA_R_16BF, product.n, product.k, product.ldb)
                              : layout_of(CUDA_R_16BF, product.k, product.n, product.ldb)),
        d(layout_of(product.d_float ? CUDA_R_32F : CUDA_R_16BF, product.m, product.n,
                    product.ldd)) {}
  Operation operation;
  Layout a, b, d;
};

// Returns the largest power of two, at most 256, that divides the address.
uint32_t alignment(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(number & -number);
}

// The device's handle. It lives as long as the process.
cublasLtHandle_t handle_of(int device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = (*handles)[device];
  if (handle == nullptr) check_cublas(cublasLtCreate(&handle), "the library cannot be used");
  return handle;
}

// An algorithm and the bytes of workspace that it needs; nullopt if there is none.
using Algorithm = std::optional<std::pair<cublasLtMatmulAlgo_t, size_t>>;
using Key = std::array<int64_t, 17>;

// Whether cuBLASLt cannot compute this product, but LibTorch's operators may. Internal errors count
// only if CUDA reports no error: otherwise the device itself has failed, and every operator would.
bool is_refusal(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return true;
    case CUBLAS_STATUS_INTERNAL_ERROR:
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return cudaPeekAtLastError() == cudaSuccess;
    default:
      return false;
  }
}

Algorithm find_algorithm(cublasLtHandle_t handle, const DeviceProduct& product,
                         const Descriptors& all) {
  cublasLtMatmulPreference_t made = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&made), "preferences");
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspace});
  // Partial sums in float32, added in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product.d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product.d));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, all.operation.get(), all.a.get(), all.b.get(),
                                     all.d.get(), all.d.get(), preference.get(), 1, &found, &count);
  // For some unsupported combinations of types and epilogues, cuBLASLt returns "invalid value".
  if (is_refusal(status)) return std::nullopt;
  check_cublas(status, "the choice of an algorithm");
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return std::pair(found.algo, found.workspaceSize);
}

Key key_of(int device, const DeviceProduct& product) {
  return {device,
          product.m,
          product.n,
          product.k,
          product.lda,
          product.ldb,
          product.ldd,
          product.ld_aux,
          product.transpose_a,
          product.transpose_b,
          product.d_float,
          static_cast<int64_t>(product.epilogue),
          alignment(product.a),
          alignment(product.b),
          alignment(product.d),
          alignment(product.bias),
          alignment(product.aux)};
}

// Caches the algorithm that cuBLASLt prefers for each kind of product, so it is queried once.
class Algorithms {
 public:
  Algorithm of(const Key& key, const DeviceProduct& product, const Descriptors& all) {
    cublasLtHandle_t handle = handle_of(static_cast<int>(key[0]));
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_.emplace(key, find_algorithm(handle, product, all)).first->second;
  }
  // From now on of() returns none for this key.
  void forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    known_[key] = std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Algorithm> known_;
};

// Whether the epilogue is faster than separate kernels. On GPUs before Hopper, epilogues that do
// more than add a bias are often slower.
bool is_worth_it(int device, Epilogue epilogue) {
  if (epilogue == Epilogue::none || epilogue == Epilogue::bias) return true;
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "the compute capability");
  return major >= 9;
}

}  // namespace
}  // namespace bv

BV_EXPORT bool bvtrain_cuda_product(const bv::DeviceProduct& product, void* stream) {
  using namespace bv;
  static auto* const algorithms = new Algorithms;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "the current device");
  if (!is_worth_it(device, product.epilogue)) return false;
  const Descriptors all(product);
  const Key key = key_of(device, product);
  const Algorithm chosen = algorithms->of(key, product, all);
  if (!chosen) return false;
  const auto& [algorithm, bytes] = *chosen;
  const Scratch workspace(std::max<size_t>(bytes, 1), stream);
  const float one = 1, zero = 0;
  const cublasStatus_t status =
      cublasLtMatmul(handle_of(device), all.operation.get(), &one, product.a, all.a.get(),
                     product.b, all.b.get(), &zero, product.d, all.d.get(), product.d, all.d.get(),
                     &algorithm, workspace.get(), bytes, static_cast<cudaStream_t>(stream));
  if (is_refusal(status)) {
    algorithms->forget(key);
    return false;
  }
  check_cublas(status, "a product");
  return true;
}

#include "lib/model/kernels/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstring>

#include "lib/device/cpu_bf16.h"
#include "lib/device/cpu_isa.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/deterministic_backward.h"
#include "lib/model/kernels/attention_parts.h"
#include "lib/model/kernels/small_products.h"
#include "lib/model/kernels/transpose.h"

namespace bv {
namespace {

using c10::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The (l, d) numbers of one head: row i begins at data + i * stride.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
};

// A tensor (n, heads, l, d) whose last stride is 1.
template <class T>
class Heads {
 public:
  explicit Heads(const at::Tensor& t)
      : data_(t.data_ptr<std::remove_const_t<T>>()),
        heads_(t.size(1)),
        outer_(t.stride(0)),
        inner_(t.stride(1)),
        row_(t.stride(2)) {}
  HeadRows<T> operator[](int64_t i) const {
    return {data_ + (i / heads_) * outer_ + (i % heads_) * inner_, row_};
  }

 private:
  T* data_;
  int64_t heads_, outer_, inner_, row_;
};

struct Sizes {
  int64_t n, heads, l, m, d;
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(d)); }
};

Sizes sizes_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(0), q.size(1), q.size(2), k.size(2), q.size(3)};
}

// S is the type of the operands in memory, and T that of the products. If they differ, rows are
// converted one head at a time.
template <class S, class T>
constexpr bool kConverts = !std::is_same_v<S, T>;

template <class S, class T>
T* memory_for(ThreadMemory& memory, int64_t count) {
  return kConverts<S, T> ? memory.take<T>(count) : nullptr;
}

// Returns the matrix (count, d) in type T: `rows` or a copy in `memory`.
template <class S, class T>
HeadRows<const T> rows_in(const HeadRows<const S>& rows, int64_t count, int64_t d, T* memory) {
  if constexpr (kConverts<S, T>) {
    store_scaled(rows.data, rows.stride, nullptr, count, d, memory, d);
    return {memory, d};
  } else {
    return rows;
  }
}

// The length of a row of `count` numbers with the padding that whole vectors and products need.
template <class T>
int64_t row_length(int64_t count) {
  return terms<T>((count + simd::kLanes - 1) & -simd::kLanes);
}

// The number of rows of the l x m matrix that are computed at a time: they must fit the L2 cache.
int64_t block_rows(int64_t columns) { return columns <= 512 ? 64 : 32; }

template <class T>
struct Packed {
  const T* data;
  int64_t stride;
};

// Returns the matrix (count, d) as the right operand of a product. If T needs a packed operand, it
// is packed into `memory`, (terms(count), d).
template <class T>
Packed<T> packed_rows(const HeadRows<const T>& rows, int64_t count, int64_t d, T* memory) {
  if constexpr (!kPairs<T>) return {rows.data, rows.stride};
  pack_pairs(rows.data, rows.stride, count, d, d, memory);
  std::fill(memory + even(count) * d, memory + terms<T>(count) * d, T(0.0f));
  return {memory, d};
}

// to = the matrix (count, d), transposed, as the right operand (d, ld) of a product; columns from
// `count` on are 0. Products of whole vectors are faster.
template <class T>
void transpose_operand(const HeadRows<const T>& rows, int64_t count, int64_t d, int64_t ld, T* to) {
  constexpr int64_t kPerWord = kPairs<T> ? 2 : 1;
  transpose_words<T>(rows.data, rows.stride, count, d, ld, to);
  for (int64_t i = 0; i < d / kPerWord; ++i)
    std::fill(to + (i * ld + count) * kPerWord, to + (i + 1) * ld * kPerWord, T(0.0f));
}

template <class S, class T>
void forward_heads(const Sizes& s, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& out, float* log_sums, int64_t begin, int64_t end) {
  const AmxUse use;
  const int64_t ldm = row_length<T>(s.m), block = std::min(block_rows(s.m), s.l);
  ThreadMemory memory;
  T* const keys = memory.take<T>(s.d * ldm);
  T* const pairs = memory.take<T>(terms<T>(s.m) * s.d);
  auto* const scores = memory.take<float>(block * ldm);
  T* const weights = memory.take<T>(block * ldm);
  auto* const sums = memory.take<float>(block * s.d);
  auto* const norms = memory.take<float>(block);
  T* const query_rows = memory_for<S, T>(memory, s.l * s.d);
  T* const other_rows = memory_for<S, T>(memory, s.m * s.d);
  const Heads<const S> queries(q), all_keys(k), values(v);
  const Heads<S> outs(out);
  for (int64_t head = begin; head < end; ++head) {
    transpose_operand<T>(rows_in<S, T>(all_keys[head], s.m, s.d, other_rows), s.m, s.d, ldm, keys);
    const HeadRows<const T> query = rows_in<S, T>(queries[head], s.l, s.d, query_rows);
    const Packed<T> value =
        packed_rows<T>(rows_in<S, T>(values[head], s.m, s.d, other_rows), s.m, s.d, pairs);
    for (int64_t i = 0; i < s.l; i += block) {
      const int64_t rows = std::min(block, s.l - i);
      multiply<T>(rows, ldm, s.d, query.data + i * query.stride, query.stride, keys, ldm, scores,
                  ldm);
      softmax_rows(scores, rows, s.m, ldm, s.scale(), weights, norms, log_sums + head * s.l + i);
      multiply<T>(rows, s.d, terms<T>(s.m), weights, ldm, value.data, value.stride, sums, s.d);
      const HeadRows<S> o = outs[head];
      store_scaled(sums, s.d, norms, rows, s.d, o.data + i * o.stride, o.stride);
    }
  }
}

template <class S>
struct BackwardTensors {
  Heads<const S> q, k, v, out, grad;
  Heads<S> dq, dk, dv;
  const float* log_sums;  // (n * heads, l)
};

// Iterates over the columns of P = softmax(q k^T) in blocks, as rows of P^T. With dS, the gradient
// of the scores: dv = P^T grad, dk = dS^T q, and dq^T = k^T dS^T, which is summed over the blocks.
template <class S, class T>
class BackwardHead {
 public:
  explicit BackwardHead(const Sizes& s)
      : s_(s),
        ldl_(row_length<T>(s.l)),
        ldk_(terms<T>(s.m)),
        block_(std::min(block_rows(s.l), even(s.m))) {
    queries_ = memory_.take<T>(s.d * ldl_);
    grads_ = memory_.take<T>(s.d * ldl_);
    query_pairs_ = memory_.take<T>(terms<T>(s.l) * s.d);
    grad_pairs_ = memory_.take<T>(terms<T>(s.l) * s.d);
    keys_ = memory_.take<T>(s.d * ldk_);
    scores_ = memory_.take<float>(block_ * ldl_);
    slopes_ = memory_.take<float>(block_ * ldl_);
    p_ = memory_.take<T>(block_ * ldl_);
    ds_ = memory_.take<T>(block_ * ldl_);
    ds_pairs_ = memory_.take<T>(terms<T>(block_) * ldl_);
    sums_ = memory_.take<float>(block_ * s.d);
    dq_ = memory_.take<float>(s.d * ldl_);
    log_sums_ = memory_.take<float>(ldl_);
    deltas_ = memory_.take<float>(ldl_);
    query_rows_ = memory_for<S, T>(memory_, s.l * s.d);
    grad_rows_ = memory_for<S, T>(memory_, s.l * s.d);
    key_rows_ = memory_for<S, T>(memory_, s.m * s.d);
    value_rows_ = memory_for<S, T>(memory_, s.m * s.d);
  }

  void run(const BackwardTensors<S>& all, int64_t head) {
    const HeadRows<const T> q = rows_in<S, T>(all.q[head], s_.l, s_.d, query_rows_),
                            k = rows_in<S, T>(all.k[head], s_.m, s_.d, key_rows_),
                            v = rows_in<S, T>(all.v[head], s_.m, s_.d, value_rows_),
                            grad = rows_in<S, T>(all.grad[head], s_.l, s_.d, grad_rows_);
    transpose_operand<T>(q, s_.l, s_.d, ldl_, queries_);
    transpose_operand<T>(grad, s_.l, s_.d, ldl_, grads_);
    transpose<T>(k.data, k.stride, s_.m, s_.d, ldk_, keys_);
    const Packed<T> query = packed_rows<T>(q, s_.l, s_.d, query_pairs_);
    const Packed<T> gradient = packed_rows<T>(grad, s_.l, s_.d, grad_pairs_);
    std::memcpy(log_sums_, all.log_sums + head * s_.l, sizeof(float) * s_.l);
    std::fill(log_sums_ + s_.l, log_sums_ + ldl_, kNothing);
    const HeadRows<const S> out = all.out[head], above = all.grad[head];
    row_products(above.data, above.stride, out.data, out.stride, s_.l, s_.d, deltas_);
    std::fill(deltas_ + s_.l, deltas_ + ldl_, 0.0f);
    for (int64_t j = 0; j < s_.m; j += block_) {
      const int64_t rows = std::min(block_, s_.m - j);
      multiply<T>(rows, ldl_, s_.d, k.data + j * k.stride, k.stride, queries_, ldl_, scores_, ldl_);
      multiply<T>(rows, ldl_, s_.d, v.data + j * v.stride, v.stride, grads_, ldl_, slopes_, ldl_);
      softmax_slopes(scores_, slopes_, rows, ldl_, s_.scale(), log_sums_, deltas_, p_, ds_);
      product_rows(rows, p_, gradient, all.dv[head], j);
      product_rows(rows, ds_, query, all.dk[head], j);
      const T* right = ds_;
      if constexpr (kPairs<T>) {
        pack_pairs(ds_, ldl_, rows, ldl_, ldl_, ds_pairs_);
        std::fill(ds_pairs_ + even(rows) * ldl_, ds_pairs_ + terms<T>(rows) * ldl_, T(0.0f));
        right = ds_pairs_;
      }
      multiply<T>(s_.d, ldl_, terms<T>(rows), keys_ + j, ldk_, right, ldl_, dq_, ldl_,
                  /*add=*/j > 0);
    }
    const HeadRows<S> dq = all.dq[head];
    store_transposed(dq_, ldl_, s_.l, s_.d, dq.data, dq.stride);
  }

 private:
  // Rows j, j + 1, ... of `to` become the product of left (rows, l) and right (l, d).
  void product_rows(int64_t rows, const T* left, const Packed<T>& right, const HeadRows<S>& to,
                    int64_t j) {
    multiply<T>(rows, s_.d, terms<T>(s_.l), left, ldl_, right.data, right.stride, sums_, s_.d);
    store_scaled(sums_, s_.d, nullptr, rows, s_.d, to.data + j * to.stride, to.stride);
  }

  const Sizes s_;
  const int64_t ldl_, ldk_, block_;
  ThreadMemory memory_;
  T *queries_, *grads_, *query_pairs_, *grad_pairs_, *keys_, *p_, *ds_, *ds_pairs_;
  T *query_rows_, *grad_rows_, *key_rows_, *value_rows_;
  float *scores_, *slopes_, *sums_, *dq_, *log_sums_, *deltas_;
};

// Returns an empty tensor (n, heads, l, d), in memory (n, l, heads, d).
at::Tensor empty_heads(const Sizes& s, int64_t l, const at::Tensor& like) {
  return at::empty({s.n, l, s.heads, s.d}, like.options()).transpose(1, 2);
}

// Returns softmax(q k^T / sqrt(d)) v. Sets log_sums (n * heads, l), float32, for the backward.
template <class S, class T>
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  at::Tensor& log_sums) {
  const Sizes s = sizes_of(q, k);
  const at::Tensor out = empty_heads(s, s.l, q);
  log_sums = at::empty({s.n * s.heads, s.l}, at::kFloat);
  at::parallel_for(0, s.n * s.heads, 1, [&](int64_t begin, int64_t end) {
    forward_heads<S, T>(s, q, k, v, out, log_sums.data_ptr<float>(), begin, end);
  });
  return out;
}

struct QueriesKeysValues {
  at::Tensor q, k, v;  // q (n, heads, l, d), k and v (n, heads, m, d)
};

// Writes the gradients of `inputs` to `gradients`. The last dimension of each of these tensors must
// be contiguous. `out` and `log_sums` are what attend() computed.
template <class S, class T>
void attend_backward(const QueriesKeysValues& inputs, const at::Tensor& out,
                     const at::Tensor& log_sums, const at::Tensor& grad_out,
                     const QueriesKeysValues& gradients) {
  const at::Tensor grad = grad_out.stride(-1) == 1 ? grad_out : grad_out.contiguous();
  const Sizes s = sizes_of(inputs.q, inputs.k);
  using Const = Heads<const S>;
  const BackwardTensors<S> all = {Const(inputs.q),
                                  Const(inputs.k),
                                  Const(inputs.v),
                                  Const(out),
                                  Const(grad),
                                  Heads<S>(gradients.q),
                                  Heads<S>(gradients.k),
                                  Heads<S>(gradients.v),
                                  log_sums.data_ptr<float>()};
  at::parallel_for(0, s.n * s.heads, 1, [&](int64_t begin, int64_t end) {
    const AmxUse use;
    BackwardHead<S, T> one(s);
    for (int64_t head = begin; head < end; ++head) one.run(all, head);
  });
}

template <class S, class T>
class FlashAttention : public torch::autograd::Function<FlashAttention<S, T>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) {
    at::Tensor log_sums;
    const at::Tensor out = attend<S, T>(q, k, v, log_sums);
    context->save_for_backward({q, k, v, out, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1];
    const Sizes s = sizes_of(q, k);
    const QueriesKeysValues gradients = {empty_heads(s, s.l, q), empty_heads(s, s.m, q),
                                         empty_heads(s, s.m, q)};
    attend_backward<S, T>({q, k, saved[2]}, saved[3], saved[4], grads[0], gradients);
    return {gradients.q, gradients.k, gradients.v};
  }
};

// Returns the parts of qkv (n, l, 3, heads, d) as views.
QueriesKeysValues parts_of(const at::Tensor& qkv) {
  const std::vector<at::Tensor> parts = qkv.unbind(2);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

template <class S, class T>
class SelfFlashAttention : public torch::autograd::Function<SelfFlashAttention<S, T>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv) {
    const QueriesKeysValues parts = parts_of(qkv);
    at::Tensor log_sums;
    const at::Tensor out = attend<S, T>(parts.q, parts.k, parts.v, log_sums);
    context->save_for_backward({qkv, out, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = at::empty_like(saved[0], at::MemoryFormat::Contiguous);
    attend_backward<S, T>(parts_of(saved[0]), saved[1], saved[2], grads[0], parts_of(gradient));
    return {gradient};
  }
};

// The minimum multiply-accumulates of a head's product for which this kernel computes float32. In
// smaller products, oneDNN's overhead per call outweighs its speed. In bfloat16, LibTorch's
// overhead is larger than oneDNN's.
constexpr int64_t kAttentionLeastMacs = 1 << 16;

// Returns whether this kernel supports these operands. It does not broadcast.
bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (plain_kernels() || q.numel() == 0 || k.numel() == 0 || q.size(3) % 2 != 0) return false;
  if (q.size(0) != k.size(0) || q.size(1) != k.size(1) || q.size(3) != k.size(3) ||
      k.sizes() != v.sizes())
    return false;
  for (const at::Tensor* each : {&q, &k, &v}) {
    if (!each->is_cpu() || each->scalar_type() != q.scalar_type() || each->stride(3) != 1)
      return false;
  }
  if (q.scalar_type() == at::kFloat)
    return q.size(2) * k.size(2) * q.size(3) >= kAttentionLeastMacs && can_multiply<float>();
  return q.scalar_type() == at::kBFloat16 &&
         (multiplies_bf16_in_float32() ? can_multiply<float>() : can_multiply<BFloat16>());
}

// Calls LibTorch's attention. If results must be reproducible, its backward is deterministic or
// throws. LibTorch's bf16 kernel throws if the CPU has AMX, but ATEN_CPU_CAPABILITY forbids
// AVX-512.
at::Tensor by_libtorch(const QueriesKeysValues& x) {
  const bool throws =
      x.q.is_cpu() && x.q.scalar_type() == at::kBFloat16 && has_amx() && cpu_isa() < CpuIsa::avx512;
  const at::Tensor mixed = throws
                               ? std::get<0>(at::_scaled_dot_product_attention_math(x.q, x.k, x.v))
                               : at::scaled_dot_product_attention(x.q, x.k, x.v);
  require_deterministic_backward(mixed);
  return mixed;
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!fits(q, k, v)) return by_libtorch({q, k, v});
  if (q.scalar_type() == at::kFloat) return FlashAttention<float, float>::apply(q, k, v);
  return multiplies_bf16_in_float32() ? FlashAttention<BFloat16, float>::apply(q, k, v)
                                      : FlashAttention<BFloat16, BFloat16>::apply(q, k, v);
}

at::Tensor self_attention(const at::Tensor& qkv) {
  const QueriesKeysValues parts = parts_of(qkv);
  if (!fits(parts.q, parts.k, parts.v)) return by_libtorch(parts);
  if (qkv.scalar_type() == at::kFloat) return SelfFlashAttention<float, float>::apply(qkv);
  return multiplies_bf16_in_float32() ? SelfFlashAttention<BFloat16, float>::apply(qkv)
                                      : SelfFlashAttention<BFloat16, BFloat16>::apply(qkv);
}

}  // namespace bv

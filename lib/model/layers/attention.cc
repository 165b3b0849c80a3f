#include "lib/model/layers/attention.h"

#include <ATen/ops/cat.h>

#include <array>
#include <vector>

#include "lib/model/kernels/attention.h"
#include "lib/model/layers/compute.h"
#include "lib/model/layers/stacked.h"

namespace bv {

Attention Attention::add(Module& owner, const std::string& name, int64_t features, int64_t heads,
                         int64_t layers) {
  const int64_t size = features / heads;
  const auto projection = [&](const char* which) {
    const std::string path = name + '/' + which;
    return Dense{add_stacked(owner, layers, path + "/kernel", {features, heads, size},
                             xavier_uniform(features, features), {1, 2, 0}),
                 add_stacked(owner, layers, path + "/bias", {heads, size}, zeros())};
  };
  Attention attention;
  attention.query = projection("query");
  attention.key = projection("key");
  attention.value = projection("value");
  attention.out = {add_stacked(owner, layers, name + "/out/kernel", {heads, size, features},
                               xavier_uniform(features, features), {2, 0, 1}),
                   add_stacked(owner, layers, name + "/out/bias", {features}, zeros())};
  return attention;
}

namespace {

// Joins three layers that have the same input. Returns one layer with kernel (D, 3H, D/H) and bias
// (3H, D/H).
Dense joined(const std::array<const Dense*, 3>& layers) {
  std::vector<at::Tensor> kernels, biases;
  for (const Dense* layer : layers) {
    kernels.push_back(layer->kernel.permute({1, 2, 0}));  // (H, D/H, D), as in memory
    biases.push_back(layer->bias);
  }
  return {at::cat(kernels).permute({2, 0, 1}), at::cat(biases)};
}

// Whether one product for query, key and value is faster than three. It needs a copy of the
// weights, 3 D^2 numbers. In training it is worthwhile, because backward is also faster. In
// evaluation it is worthwhile if the copy is no larger than the result, 3 n l D numbers. One
// product and three products have different rounding errors. remat() calls the layer once with
// gradients and once without, so the choice must not depend on GradMode.
bool worth_joining(const at::Tensor& x, const Pass& pass) {
  const int64_t features = x.size(-1);
  return pass.train || x.numel() >= features * features;
}

}  // namespace

at::Tensor Attention::operator()(const at::Tensor& queries, const at::Tensor& tokens,
                                 Pass& pass) const {
  const int64_t heads = query.kernel.size(1), size = query.kernel.size(2);
  const auto split = [&](const at::Tensor& input, const Dense& projection) {  // (n, H, l, D/H)
    return projection(input, pass).unflatten(-1, {heads, size}).transpose(1, 2);
  };
  const at::Tensor x = to_compute(queries, pass);
  at::Tensor mixed;
  if (queries.is_same(tokens) && worth_joining(x, pass)) {
    mixed = self_attention(joined({&query, &key, &value})(x, pass).unflatten(-1, {3, heads, size}));
  } else {
    const at::Tensor y = queries.is_same(tokens) ? x : to_compute(tokens, pass);
    mixed = attention(split(x, query), split(y, key), split(y, value));
  }
  count_macs(pass, 2 * x.numel() * tokens.size(1));
  const at::Tensor kernel = out.kernel.flatten(0, 1);  // (D, D)
  return matmul(mixed.transpose(1, 2).flatten(2), kernel, out.bias, compute_type(pass), pass);
}

}  // namespace bv

#include "lib/ckpt/command/checkpoint_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/ckpt/tensor_form.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"

namespace bv {
namespace {

// The tensors have the same dtype and shape, but may be laid out differently in memory.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

TensorDifference difference(const std::string& name, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor before = a.to(at::kDouble);
  const at::Tensor change = b.to(at::kDouble).sub(before);
  const double size = before.norm().item<double>(), changed = change.norm().item<double>();
  // If the only difference is 0 and -0, the relative difference is 0, even if `before` is all
  // zeros.
  const double relative = changed == 0 ? 0 : changed / size;
  return {name, relative, change.abs().max().item<double>()};
}

// The order of CheckpointDiff::changed.
bool comes_first(const TensorDifference& a, const TensorDifference& b) {
  const bool a_nan = std::isnan(a.relative), b_nan = std::isnan(b.relative);
  return a_nan || b_nan ? a_nan && !b_nan : a.relative > b.relative;
}

Config config_of(const Restored& checkpoint) {
  return parse_config_json(checkpoint.meta.value("config", std::string("{}")),
                           checkpoint.folder + "/" + kManifestName);
}

}  // namespace

CheckpointDiff diff_checkpoints(const Restored& a, const Restored& b) {
  CheckpointDiff diff;
  diff.config = config_changes(config_of(a), config_of(b));
  for (const auto& [name, x] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end()) {
      diff.only_a.push_back(name);
      continue;
    }
    const at::Tensor& y = found->second;
    if (x.scalar_type() != y.scalar_type() || x.sizes() != y.sizes())
      diff.other_form.push_back({name, tensor_form(x), tensor_form(y)});
    else if (!same_bits(x, y))
      diff.changed.push_back(difference(name, x, y));
  }
  for (const auto& [name, y] : b.tensors) {
    if (!a.tensors.contains(name)) diff.only_b.push_back(name);
  }
  diff.tensors = a.tensors.size() + diff.only_b.size();
  std::stable_sort(diff.changed.begin(), diff.changed.end(), comes_first);
  return diff;
}

}  // namespace bv

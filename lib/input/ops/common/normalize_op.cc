#include "lib/input/ops/common/normalize_op.h"

#include "lib/util/text.h"

namespace bv {

std::vector<double> NormalizeOp::numbers(const Config& args, std::string_view key,
                                         std::vector<double> fallback) {
  if (!args.is_list(key)) {
    if (fallback.size() == 1) return {args.get<double>(key, fallback[0])};
    return args.get(key, fallback);
  }
  auto list = args.get<std::vector<double>>(key);
  if (list.empty()) args.fail(key, "must not be an empty list");
  return list;
}

void NormalizeOp::read_mean_std(const Config& args, const std::vector<double>& mean,
                                const std::vector<double>& std) {
  const std::vector<double> means = numbers(args, "mean", mean);
  const std::vector<double> stds = numbers(args, "std", std);
  keys_ = InOutKeys(args);
  if (means.size() != stds.size()) {
    args.fail("std", fmt::format("must have as many numbers as mean ({}), got {}", means.size(),
                                 stds.size()));
  }
  for (size_t c = 0; c < means.size(); ++c) {
    normalization_.low.push_back(static_cast<float>(means[c]));
    normalization_.range.push_back(static_cast<float>(stds[c]));
    if (normalization_.range.back() == 0) args.fail("std", "must not be 0");
  }
}

at::Tensor NormalizeOp::map(const at::Tensor& x, bool batched, std::span<Rng>) const {
  const auto channels = static_cast<int64_t>(normalization_.low.size());
  const at::IntArrayRef shape = x.sizes().slice(batched ? 1 : 0);
  if (channels > 1 && (shape.empty() || shape.back() != channels)) {
    throw misuse(fmt::format("must have {} channels for {} numbers, has shape {}", channels,
                             channels, shape_text(shape)));
  }
  if (shape.size() == 1 && x.scalar_type() == at::kByte && keys_.in == "image") {
    throw misuse("is still encoded (1-d uint8): put 'decode' before this op");
  }
  return normalize(x, normalization_);
}

}  // namespace bv

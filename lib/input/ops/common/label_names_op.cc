#include "lib/input/ops/common/label_names_op.h"

#include "lib/device/dtype_name.h"
#include "lib/input/ops/common/text_tensor.h"

namespace bv {

LabelNamesOp::LabelNamesOp(const char* name, std::string_view lines, const Config& args)
    : TensorOp(name) {
  keys_ = InOutKeys(args, "label");
  if (!args.has("key") && !args.has("outkey")) keys_.out = "labels";
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    names_.push_back(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

at::Tensor LabelNamesOp::map(const at::Tensor& x, bool, std::span<Rng>) const {
  if (!c10::isIntegralType(x.scalar_type(), false)) {
    throw misuse(fmt::format("must be class numbers, is {}", dtype_name(x.scalar_type())));
  }
  if (x.dim() > 1) {
    throw misuse(fmt::format("must be one number or a list of them, has {} dimensions", x.dim()));
  }
  const at::Tensor labels = x.to(at::kLong).contiguous();
  std::vector<std::string> found;
  for (int64_t i = 0; i < labels.numel(); ++i) {
    const int64_t label = labels.const_data_ptr<int64_t>()[i];
    if (label < 0 || label >= std::ssize(names_)) throw bad_label(label, std::ssize(names_));
    found.emplace_back(names_[label]);
  }
  return x.dim() == 0 ? text_tensor(found[0]) : text_tensor(found);
}

}  // namespace bv

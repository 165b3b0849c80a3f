// onehot(depth, key="labels", key_result=None, multi=True, on=1.0, off=0.0): class numbers to
// vectors.
//   key_result  None: the same as key
//   multi       True: a list of numbers makes one vector; False: one vector for each number
// Takes a number or a list of numbers of any integer dtype, gives float32 with a last dimension
// `depth`. A number of `depth` or more is an error (big_vision: all values are `off`). A negative
// number is an error in a list with multi, and gives all `off` otherwise. Draws nothing.
// Follows big_vision's pp/ops_general.py `get_onehot`.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/input/ops/common/tensor_op.h"

namespace bv {
namespace {

class Onehot : public TensorOp {
 public:
  explicit Onehot(const Config& args) : TensorOp("onehot"), depth_(args.get<int64_t>("depth")) {
    keys_.in = args.get("key", "labels");
    keys_.out = args.maybe<std::string>("key_result").value_or(keys_.in);
    multi_ = args.get<bool>("multi", true);
    on_ = args.get<double>("on", 1.0);
    off_ = args.get<double>("off", 0.0);
    if (depth_ < 1 || depth_ > kMaxDepth) {
      args.fail("depth", fmt::format("must be within 1 .. {}, got {}", kMaxDepth, depth_));
    }
  }

  std::optional<int64_t> class_count() const override {
    return keys_.in == "label" ? std::optional(depth_) : std::nullopt;
  }

 private:
  static constexpr int64_t kMaxDepth = int64_t{1} << 24;

  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng>) const override {
    if (!c10::isIntegralType(x.scalar_type(), false)) {
      throw misuse(fmt::format("must be integers, is {}", c10::toString(x.scalar_type())));
    }
    const int64_t rank = x.dim() - (batched ? 1 : 0);
    const bool merge = multi_ && rank > 0;
    if (merge && rank != 1) {
      throw misuse(fmt::format("must be one number or a list of them, has {} dimensions", rank));
    }
    const at::Tensor labels = x.to(at::kLong).contiguous();
    std::vector<int64_t> shape(labels.sizes().begin(), labels.sizes().end());
    const int64_t per_row = merge ? shape.back() : 1;  // number of labels in one row
    if (merge) {
      shape.back() = depth_;
    } else {
      shape.push_back(depth_);
    }
    at::Tensor out = at::empty(shape, labels.options().dtype(at::kFloat));
    float* row = out.mutable_data_ptr<float>();
    std::fill(row, row + out.numel(), static_cast<float>(off_));
    // big_vision scatters ones, multiplies by (on - off) and adds off. In float32 that is not
    // exactly `on`.
    const float on =
        merge ? static_cast<float>(on_ - off_) + static_cast<float>(off_) : static_cast<float>(on_);
    const int64_t* label = labels.const_data_ptr<int64_t>();
    for (int64_t r = 0; r < out.numel() / depth_; ++r, row += depth_) {
      for (int64_t k = 0; k < per_row; ++k, ++label) {
        if (*label >= depth_ || (*label < 0 && merge)) throw bad_label(*label, depth_);
        if (*label >= 0) row[*label] = on;
      }
    }
    return out;
  }

  const int64_t depth_;
  bool multi_ = true;
  double on_ = 1, off_ = 0;
};

const Register<Op, Onehot> registered("onehot");

}  // namespace
}  // namespace bv

// The op onehot. Draws no random numbers.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {
namespace {

const KeyTable onehot_keys(
    "pp: onehot",
    {"Encodes a class number as a one-hot vector, and a list of numbers as one vector with several "
     "ones. It takes a number of any integer type, or a list of any integer type but uint8, which "
     "is for strings, and gives float32. A number of depth or more is an error.",
     "onehot(num_classes, key='label', key_result='labels')", "pp/ops_general.py get_onehot"},
    {{"depth", "int 1..16777216", "required",
      "Number of classes: the length of the vector. The name num_classes stands for the config's "
      "value of that key."},
     {"key", "string", "labels",
      "The feature with the class numbers. Data sets usually call it 'label'."},
     {"key_result", "string", "= key", "Name of the result."},
     {"multi", "bool", "true",
      "How to encode a list of class numbers. True makes one vector for all these classes; False "
      "makes one vector for each number. With True, a negative number in a list is an error; "
      "otherwise its vector is off everywhere."},
     {"on", "float", "1", "The value at the classes that the example has."},
     {"off", "float", "0", "The value at all other classes."}});

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
      const bool targets = keys_.in == "label" && at::isFloatingType(x.scalar_type());
      throw misuse(fmt::format("must be integers, is {}{}", dtype_name(x.scalar_type()),
                               targets ? ": labels with a decimal point are regression targets, "
                                         "classes are integers such as 0"
                                       : ""));
    }
    const int64_t rank = x.dim() - (batched ? 1 : 0);
    if (rank == 1 && x.scalar_type() == at::kByte) {
      throw misuse(
          "must be class numbers, is a string; the op lookup turns strings into numbers, and the "
          "sources csv and webdataset do so for class names");
    }
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
    check_result(at::IntArrayRef(shape).slice(batched ? 1 : 0), sizeof(float));
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

const Register<Op, Onehot> registered_onehot("onehot");

}  // namespace
}  // namespace bv

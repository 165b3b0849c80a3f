// The op pad_to_shape. Draws no random numbers.
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable pad_to_shape_keys(
    "pp: pad_to_shape",
    {"Pads a feature with values at its edges, for example an image before "
     "random_crop. By default it changes 'image', which may have any type and must "
     "have as many dimensions as shape. A feature larger than shape is an error.",
     "pad_to_shape([40, 40, 3], where='both')", "pp/ops_general.py get_pad_to_shape"},
    {{"shape", "list of (int -1..2147483648 | null)", "required",
      "Size of each dimension of the result. None or -1 leaves a dimension as it "
      "is. The result may take at most 4 GiB per example.",
      "[40, 40, -1]"},
     {"pad_value", "float", "0",
      "The padding value. It must fit the type of the feature: whole for integers, "
      "and from 0 to 255 for uint8."},
     {"where", "'before' | 'after' | 'both'", "after",
      "Where to pad each dimension. 'both' pads half before and half after, and "
      "one more after if their number is odd."}},
    in_out_key_texts());

// Where the input is placed in the output, both row-major, in elements.
struct PaddedLayout {
  std::vector<int64_t> in, out, before;  // per dimension; the batch dimension comes first
};

// Merges trailing dimensions that are not padded into one, so that they are copied in one piece.
void merge_whole_dimensions(PaddedLayout& layout) {
  while (layout.in.size() > 1 && layout.in.back() == layout.out.back()) {
    const int64_t whole = layout.in.back();
    for (std::vector<int64_t>* numbers : {&layout.in, &layout.out, &layout.before}) {
      numbers->pop_back();
      numbers->back() *= whole;
    }
  }
}

// Copies the input, from dimension `dim` on, to its place in the output.
template <class T>
void paste(const PaddedLayout& layout, size_t dim, const T* in, T* out) {
  int64_t in_step = 1, out_step = 1;
  for (size_t d = dim + 1; d < layout.in.size(); ++d) {
    in_step *= layout.in[d];
    out_step *= layout.out[d];
  }
  out += layout.before[dim] * out_step;
  if (dim + 1 == layout.in.size()) {
    std::copy(in, in + layout.in[dim], out);
    return;
  }
  for (int64_t i = 0; i < layout.in[dim]; ++i) {
    paste(layout, dim + 1, in + i * in_step, out + i * out_step);
  }
}

// Returns the argument `shape` with -1 for None.
std::vector<int64_t> read_shape(const Config& args) {
  std::vector<int64_t> shape;
  for (const auto& side : args.get<std::vector<std::optional<int64_t>>>("shape")) {
    shape.push_back(side.value_or(-1));
  }
  return shape;
}

class PadToShape : public TensorOp {
 public:
  explicit PadToShape(const Config& args)
      : TensorOp("pad_to_shape"),
        shape_(read_shape(args)),
        pad_value_(args.get<double>("pad_value", 0)),
        where_(args.word("where", "after", {"before", "after", "both"})) {
    keys_ = InOutKeys(args);
    for (const int64_t side : shape_) {
      if (side < -1)
        args.problem("shape", fmt::format("sides must be -1 (as it is) or more, got {}", side));
      if (side > kLargest)
        args.problem("shape", fmt::format("sides must be at most {}, got {}", kLargest, side));
    }
  }

 private:
  static constexpr int64_t kLargest = int64_t{1} << 31;

  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng>) const override {
    const at::IntArrayRef shape = x.sizes().slice(batched ? 1 : 0);
    if (shape.size() != shape_.size()) {
      throw misuse(fmt::format("must have {} dimensions as the shape to pad to, has shape {}",
                               shape_.size(), shape_text(shape)));
    }
    PaddedLayout layout;
    const auto add = [&](int64_t in, int64_t out, int64_t before) {
      layout.in.push_back(in);
      layout.out.push_back(out);
      layout.before.push_back(before);
    };
    add(batched ? x.size(0) : 1, batched ? x.size(0) : 1, 0);
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t side = shape_[d] < 0 ? shape[d] : shape_[d];
      const int64_t missing = side - shape[d];
      if (missing < 0) {
        throw bad_example(fmt::format("shape {} is larger than the shape to pad to, {}",
                                      shape_text(shape), shape_text(shape_)));
      }
      add(shape[d], side, where_ == "after" ? 0 : where_ == "before" ? missing : missing / 2);
    }
    check_result(at::IntArrayRef(layout.out).slice(1), x.element_size());
    const at::IntArrayRef shape_out = at::IntArrayRef(layout.out).slice(batched ? 0 : 1);
    const at::Tensor in = x.contiguous();
    at::Tensor out = at::empty(shape_out, in.options());
    merge_whole_dimensions(layout);
    AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, in.scalar_type(),
                               "pad_to_shape", [&] {
                                 scalar_t* values = out.mutable_data_ptr<scalar_t>();
                                 std::fill(values, values + out.numel(), pad_value<scalar_t>());
                                 if (in.numel() > 0)
                                   paste(layout, 0, in.const_data_ptr<scalar_t>(), values);
                               });
    return out;
  }

  template <class T>
  T pad_value() const {
    if constexpr (std::is_integral_v<T>) {
      // The integers that both a double and T hold exactly.
      const auto least = std::max<double>(std::numeric_limits<T>::min(), -0x1p53);
      const auto most = std::min<double>(std::numeric_limits<T>::max(), 0x1p53);
      if (pad_value_ != std::floor(pad_value_) || pad_value_ < least || pad_value_ > most) {
        throw misuse(fmt::format("can't be padded with {}, which its type {} can't hold",
                                 pad_value_, dtype_name(c10::CppTypeToScalarType<T>::value)));
      }
    }
    return static_cast<T>(pad_value_);
  }

  const std::vector<int64_t> shape_;
  const double pad_value_;
  const std::string where_;
};

const Register<Op, PadToShape> registered_pad_to_shape("pad_to_shape");

}  // namespace
}  // namespace bv

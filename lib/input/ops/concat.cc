// The op concat. Draws no random numbers.
#include <ATen/ops/cat.h>

#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable concat_keys(
    "pp: concat",
    {"Concatenates features along an axis. All must have the same type, which the result keeps, "
     "and the same shape except along that axis.",
     "concat(['left', 'right'], 'both', axis=1)", "pp/ops_general.py get_concat"},
    {{"inkeys", "list of string", "required", "The features to join, at least one, in this order.",
      "['left', 'right']"},
     {"outkey", "string", "= the first of inkeys",
      "Name of the result. The joined features stay in the example."},
     {"axis", "int", "-1",
      "Axis to concatenate along. 0 is the first, -1 the last: the channels of an image."}});

class Concat : public Op {
 public:
  explicit Concat(const Config& args)
      : inkeys_(args.get<std::vector<std::string>>("inkeys")),
        outkey_(args.maybe<std::string>("outkey")),
        axis_(args.get<int64_t>("axis", -1)) {
    if (inkeys_.empty()) args.fail("inkeys", "must not be an empty list");
  }

  void apply(Example& example, Rng&) const override { join(example, 0); }
  bool leaves(std::string_view key) const override {
    return outkey_ != key && std::ranges::find(inkeys_, key) == inkeys_.end();
  }
  std::optional<std::string> makes_from(std::string_view key) const override {
    return outkey_.value_or(inkeys_[0]) == key ? std::optional(bv::join(inkeys_, "+"))
                                               : std::nullopt;
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng>) const override { join(batch, 1); }

 private:
  // lead: the number of dimensions before those of one example (1 for a batch).
  void join(Example& example, int64_t lead) const {
    std::vector<at::Tensor> parts;
    for (const std::string& key : inkeys_) parts.push_back(require_tensor(example, key, "concat"));
    const at::IntArrayRef first = parts[0].sizes().slice(lead);
    const auto rank = static_cast<int64_t>(first.size());
    if (axis_ < -rank || axis_ >= rank) {
      throw Error::bare(Exit::usage, fmt::format("concat: '{}' has shape {}, so no axis {}",
                                                 inkeys_[0], shape_text(first), axis_));
    }
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    for (size_t i = 1; i < parts.size(); ++i) check_fits(parts, i, axis, lead);
    example[outkey_.value_or(inkeys_[0])] = at::cat(parts, axis + lead);
  }

  void check_fits(const std::vector<at::Tensor>& parts, size_t i, int64_t axis,
                  int64_t lead) const {
    const at::IntArrayRef first = parts[0].sizes().slice(lead),
                          shape = parts[i].sizes().slice(lead);
    bool fits = parts[i].scalar_type() == parts[0].scalar_type() && shape.size() == first.size();
    for (int64_t d = 0; fits && d < std::ssize(shape); ++d)
      fits = d == axis || shape[d] == first[d];
    if (fits) return;
    throw Error::bare(
        Exit::usage,
        fmt::format("concat: '{}' has shape {} and type {}, which do not fit '{}' with {} and {}",
                    inkeys_[i], shape_text(shape), dtype_name(parts[i].scalar_type()), inkeys_[0],
                    shape_text(first), dtype_name(parts[0].scalar_type())));
  }

  const std::vector<std::string> inkeys_;
  const std::optional<std::string> outkey_;
  const int64_t axis_;
};

const Register<Op, Concat> registered_concat("concat");

}  // namespace
}  // namespace bv

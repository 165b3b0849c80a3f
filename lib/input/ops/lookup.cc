// The op lookup. Draws no random numbers.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <mutex>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/ops/common/lookup_table.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/path.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable lookup_keys(
    "pp: lookup",
    {"Replaces a string with its number in a table file. It takes a string (1-d uint8) or several "
     "(2-d uint8), and gives one int64 number or a list of them. A string that the table lacks is "
     "an error; with default=-1 its number is -1, as in big_vision. It reads and writes 'image' "
     "unless key, or inkey and outkey, are given.",
     "lookup('ids.txt', sep=',', inkey='id', outkey='row')", "pp/ops_general.py get_lookup"},
    {{"mapping", "string", "required",
      "Local file of the table: an .npz file, or UTF-8 text with one entry per line. It is read at "
      "the first example, and must not be larger than 1 GiB. A string that is listed with two "
      "different numbers is an error.",
      "'data/ids.txt'"},
     {"npzkey", "string", "fnames",
      "The array of strings in the .npz file. The number of a string is its index, from 0. It has "
      "no effect for a text file."},
     {"sep", "string", "none",
      "Separator between a string and its number in a line: with ',' a line is \"cat,17\". Without "
      "it, a line is a string, and its number is the line number, from 0. It has no effect for an "
      ".npz file.",
      "','"},
     {"default", "int", "none",
      "The number for a string that the table lacks. If no default is given, such a string is an "
      "error. The op onehot turns -1 into a vector that is off everywhere, so that the example has "
      "no class.",
      "-1"}},
    in_out_key_texts());

class Lookup : public TensorOp {
 public:
  explicit Lookup(const Config& args)
      : TensorOp("lookup"),
        mapping_(require_path(args, "mapping")),
        npzkey_(args.get("npzkey", "fnames")),
        sep_(args.maybe<std::string>("sep")),
        default_(args.maybe<int64_t>("default")) {
    keys_ = InOutKeys(args);
    if (sep_ && sep_->empty()) args.fail("sep", "must not be empty");
  }
  bool has_batched() const override { return false; }  // strings differ in length

 private:
  at::Tensor map(const at::Tensor& x, bool, std::span<Rng>) const override {
    if (!is_text(x)) {
      throw misuse(fmt::format(
          "must be a string (1-d uint8) or several (2-d uint8), has shape {} and type {}",
          shape_text(x.sizes()), dtype_name(x.scalar_type())));
    }
    std::call_once(read_, [&] { read(); });
    const std::vector<std::string> texts = read_texts(x);
    at::Tensor out = at::empty({static_cast<int64_t>(texts.size())}, at::kLong);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto found = table_.find(texts[i]);
      if (found == table_.end() && !default_) throw unknown(texts[i]);
      out.mutable_data_ptr<int64_t>()[i] = found == table_.end() ? *default_ : found->second;
    }
    return x.dim() == 1 ? out.squeeze(0) : out;
  }

  void read() const {
    try {
      table_ = read_lookup_table(mapping_, npzkey_, sep_);
    } catch (const Error& error) {
      // A bare error: the pipeline adds the place of the call.
      throw Error::bare(Exit::usage, fmt::format("lookup: {}: {}", error.where(), error.message()));
    }
  }

  Error unknown(const std::string& text) const {
    constexpr size_t kMostCompared = 10'000;  // to compare more takes long, for each such example
    std::vector<std::string> known;
    for (const auto& [name, number] : table_) {
      if (table_.size() <= kMostCompared) known.push_back(name);
    }
    std::sort(known.begin(), known.end());
    const std::string near = nearest(text, known);
    return bad_example(fmt::format("'{}' is not in {}{}; default=-1 would give it the number -1",
                                   printable(text), mapping_,
                                   near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  }

  const std::string mapping_, npzkey_;
  const std::optional<std::string> sep_;
  const std::optional<int64_t> default_;
  mutable std::once_flag read_;  // read() is retried if it throws
  mutable LookupTable table_;
};

const Register<Op, Lookup> registered_lookup("lookup");

}  // namespace
}  // namespace bv

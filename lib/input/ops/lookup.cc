// lookup(mapping, npzkey="fnames", sep=None): text to its number in a table; -1 if it has none.
// Example: "lookup('ids.txt', sep=',', inkey='id', outkey='row')".
//   mapping  a text file with one string per line, or an .npz file. It is read at the first use
//   npzkey   the array of strings in the .npz file; a string's number is its index
//   sep      the lines are "<string><sep><number>"; None: a string's number is its line's, from 0
// Keys: key, or inkey and outkey; "image" by default. Takes text (common/text_tensor.h), gives 0-d
// int64 for one text and (texts,) int64 for several. Draws nothing.
// Follows big_vision's pp/ops_general.py `get_lookup`.
#include <ATen/ops/empty.h>

#include <mutex>

#include "lib/input/ops/common/lookup_table.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/path.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class Lookup : public TensorOp {
 public:
  explicit Lookup(const Config& args)
      : TensorOp("lookup"),
        mapping_(require_path(args, "mapping")),
        npzkey_(args.get("npzkey", "fnames")),
        sep_(args.maybe<std::string>("sep")) {
    keys_ = InOutKeys(args);
    if (sep_ && sep_->empty()) args.fail("sep", "must not be empty");
  }
  bool has_batched() const override { return false; }  // texts differ in length

 private:
  at::Tensor map(const at::Tensor& x, bool, std::span<Rng>) const override {
    if (!is_text(x)) {
      throw misuse(fmt::format("must be text (1-d or 2-d uint8), has shape {} and type {}",
                               shape_text(x.sizes()), c10::toString(x.scalar_type())));
    }
    std::call_once(read_, [&] { read(); });
    const std::vector<std::string> texts = read_texts(x);
    at::Tensor out = at::empty({static_cast<int64_t>(texts.size())}, at::kLong);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto found = table_.find(texts[i]);
      out.mutable_data_ptr<int64_t>()[i] = found == table_.end() ? -1 : found->second;
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

  const std::string mapping_, npzkey_;
  const std::optional<std::string> sep_;
  mutable std::once_flag read_;  // read() is tried again if it throws
  mutable LookupTable table_;
};

const Register<Op, Lookup> registered("lookup");

}  // namespace
}  // namespace bv

// lookup: text to its number in a table, -1 if it is not there. pp: "lookup('classes.txt',
// key='label')", "lookup('ids.txt', sep=',', inkey='id', outkey='row')"
//   mapping  a text file, a line per string; or an .npz file
//   npzkey   its array of strings, default "fnames"
//   sep      the lines are string<sep>number; default: a string's number is its line's, from 0
// Reference section 12.2. int64. The file is read at the first use.
#include <ATen/ops/empty.h>

#include <mutex>

#include "lib/input/ops/common/lookup_table.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/input/ops/common/text.h"
#include "lib/input/path.h"

namespace bv {
namespace {

class Lookup : public TensorOp {
 public:
  explicit Lookup(const Config& args)
      : TensorOp("lookup"),
        mapping_(need_path(args, "mapping")),
        npzkey_(args.get("npzkey", "fnames")),
        sep_(args.maybe<std::string>("sep")) {
    keys_ = InOut(args);
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
      // The pipeline puts the place of the call in front.
      throw Error::bare(Exit::usage, fmt::format("lookup: {}: {}", error.where(), error.message()));
    }
  }

  const std::string mapping_, npzkey_;
  const std::optional<std::string> sep_;
  mutable std::once_flag read_;  // an exception leaves it open for the next try
  mutable LookupTable table_;
};

const Register<Op, Lookup> registered("lookup");

}  // namespace
}  // namespace bv

#include "lib/evals/common/collected.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "lib/evals/common/ranks.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Rows that grow batch by batch. Their memory is reserved once and takes physical pages as it
// fills.
class GrowingRows {
 public:
  void add(const at::Tensor& values, int64_t most) {
    if (!rows_.defined()) {
      std::vector<int64_t> shape = values.sizes().vec();
      shape[0] = most;
      rows_ = at::empty(shape, values.scalar_type());
    }
    check(values.sizes().slice(1) == rows_.sizes().slice(1), "outputs or labels change shape");
    rows_.narrow(0, size_, values.size(0)).copy_(values);
    size_ += values.size(0);
  }
  // Returns the rows of all ranks on rank 0, and frees those of this rank.
  at::Tensor gather(Group& group, const at::Tensor& places) {
    at::Tensor all = gather_rows_on_first(group, rows_.narrow(0, 0, size_), places);
    rows_ = at::Tensor();
    return all;
  }
  at::Tensor own() const { return rows_.narrow(0, 0, size_); }

 private:
  at::Tensor rows_;
  int64_t size_ = 0;
};

}  // namespace

int64_t first_bad(const at::Tensor& outputs, const at::Tensor& places) {
  const at::Tensor bad = at::isfinite(outputs).all(1).logical_not();
  if (!bad.any().item<bool>()) return kNoPlace;
  return places.masked_select(bad).min().item<int64_t>();
}

void refuse_bad(int64_t place, EvalInput& input, Group& group, const std::string& evaluator) {
  // The maximum of the negated places gives the first bad example over all ranks.
  const int64_t first = -group.all_max(std::array{-place}, "evaluation outputs").at(0);
  if (first == kNoPlace) return;
  throw Error(Exit::diverged, "",
              fmt::format("evaluator '{}': the model's output for {} is NaN or infinite", evaluator,
                          input.data().describe(first)));
}

Collected collect_outputs(
    EvalInput& input, const EvalContext& context, const std::string& evaluator,
    const std::function<CollectedRows(const Batch& batch, const at::Tensor& outputs)>& labels_of) {
  GrowingRows outputs, labels, places;
  int64_t bad = kNoPlace;
  input.for_each(context, [&](const Batch& batch) {
    const at::Tensor all = context.predict(batch, {}).at(kLogitsOutput).to(at::kFloat);
    if (all.dim() != 2) {
      throw Error(Exit::usage, "",
                  fmt::format("evaluator '{}': the model's outputs are {}, not one row of numbers "
                              "per example",
                              evaluator, shape_text(all.sizes())));
    }
    const CollectedRows taken = labels_of(batch, all);
    const at::Tensor own = all.index_select(0, taken.rows);
    const at::Tensor ids = batch.at("_id").index_select(0, taken.rows);
    if (bad == kNoPlace) bad = first_bad(own, ids);
    outputs.add(own, input.examples());
    labels.add(taken.labels, input.examples());
    places.add(ids, input.examples());
  });
  Group& group = *context.group;
  refuse_bad(bad, input, group, evaluator);
  const at::Tensor own_places = places.own();
  const at::Tensor size = at::zeros({1}, at::kLong).fill_(own_places.size(0));
  sum_over_ranks(group, size);
  Collected collected;
  collected.size = size.item<int64_t>();
  if (collected.size == 0) {
    throw Error(Exit::usage, "",
                fmt::format("evaluator '{}': no example of its data has a label", evaluator));
  }
  collected.outputs = outputs.gather(group, own_places);
  collected.labels = labels.gather(group, own_places);
  collected.places = gather_rows_on_first(group, own_places, own_places);
  return collected;
}

void share_values(Group& group, std::vector<double>& values) {
  if (group.size() == 1 || values.empty()) return;
  const at::Tensor all = at::empty({std::ssize(values)}, at::kDouble);
  auto* data = all.mutable_data_ptr<double>();
  std::copy(values.begin(), values.end(), data);
  group.broadcast(all, 0, "evaluation values");
  std::copy(data, data + values.size(), values.begin());
}

}  // namespace bv

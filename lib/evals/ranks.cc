#include "lib/evals/ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <tuple>

namespace bv {
namespace {

// All ranks' bytes one behind the other: (ranks, most rows, bytes of a row) uint8.
at::Tensor gather_bytes(dist::Group& group, const at::Tensor& rows, int64_t most) {
  const at::Tensor dense = rows.contiguous();
  const int64_t k = rows.size(0);
  const int64_t width = k == 0 ? 0 : static_cast<int64_t>(dense.nbytes()) / k;
  const int64_t widest = group.all_max(std::array{width}, "evaluation rows").at(0);
  const at::Tensor own = at::zeros({most, widest}, at::kByte);
  if (k > 0) std::memcpy(own.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
  const at::Tensor all = at::empty({group.size(), most, widest}, at::kByte);
  group.all_gather(all, own, "evaluation rows").wait();
  return all;
}

}  // namespace

void sum_over_ranks(dist::Group* group, const at::Tensor& tensor) {
  if (group && group->size() > 1) group->all_reduce_sum(tensor, "evaluation sums").wait();
}

at::Tensor gather_rows(dist::Group* group, const at::Tensor& rows, const at::Tensor& ids) {
  if (!group || group->size() == 1) return rows;
  const at::Tensor counts = at::empty({group->size()}, at::kLong);
  group->all_gather(counts, at::full({1}, rows.size(0), at::kLong), "evaluation counts").wait();
  const auto* count = counts.const_data_ptr<int64_t>();
  const int64_t most = *std::max_element(count, count + group->size());
  const auto stack = [&](const at::Tensor& own) {
    const at::Tensor bytes = gather_bytes(*group, own, most);
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < group->size(); ++r) parts.push_back(bytes[r].narrow(0, 0, count[r]));
    auto shape = own.sizes().vec();
    shape[0] = -1;
    return at::cat(parts).view(own.scalar_type()).view(shape);
  };
  const at::Tensor order = std::get<1>(stack(ids).view({-1}).sort());
  return stack(rows).index_select(0, order);
}

}  // namespace bv

#include "lib/evals/common/ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <tuple>

namespace bv {
namespace {

// Returns the number of rows of each rank: (ranks) int64.
at::Tensor count_rows(Group& group, const at::Tensor& rows) {
  const at::Tensor counts = at::empty({group.size()}, at::kLong);
  group.all_gather(counts, at::full({1}, rows.size(0), at::kLong), "evaluation counts").wait();
  return counts;
}

// Returns the bytes of a row. A rank without rows gets it from the others.
int64_t row_bytes(Group& group, const at::Tensor& rows) {
  const int64_t k = rows.size(0);
  const int64_t width = k == 0 ? 0 : static_cast<int64_t>(rows.nbytes()) / k;
  return group.all_max(std::array{width}, "evaluation rows").at(0);
}

// Returns the rows of all ranks, ordered by rank.
at::Tensor stack_rows(Group& group, const at::Tensor& rows, const at::Tensor& counts) {
  const auto* count = counts.const_data_ptr<int64_t>();
  const int64_t most = *std::max_element(count, count + group.size());
  const int64_t width = row_bytes(group, rows);
  const at::Tensor dense = rows.contiguous();
  const at::Tensor own = at::zeros({most, width}, at::kByte);
  if (rows.size(0) > 0) std::memcpy(own.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
  const at::Tensor all = at::empty({group.size(), most, width}, at::kByte);
  group.all_gather(all, own, "evaluation rows").wait();
  std::vector<at::Tensor> parts;
  for (int64_t r = 0; r < group.size(); ++r) parts.push_back(all[r].narrow(0, 0, count[r]));
  auto shape = rows.sizes().vec();
  const at::Tensor whole = at::cat(parts);
  if (whole.size(0) == 0) return rows;  // no rank has a row
  shape[0] = -1;
  return whole.view(rows.scalar_type()).view(shape);
}

}  // namespace

void sum_over_ranks(Group& group, const at::Tensor& tensor) {
  if (group.size() > 1) group.all_reduce_sum(tensor, "evaluation sums").wait();
}

at::Tensor gather_rows(Group& group, const at::Tensor& rows, const at::Tensor& ids) {
  if (group.size() == 1) return rows;
  const at::Tensor counts = count_rows(group, rows);
  const at::Tensor order = std::get<1>(stack_rows(group, ids, counts).view({-1}).sort());
  return stack_rows(group, rows, counts).index_select(0, order);
}

at::Tensor gather_rows_on_first(Group& group, const at::Tensor& rows, const at::Tensor& ids) {
  if (group.size() == 1) return rows;
  const at::Tensor counts = count_rows(group, rows);
  const at::Tensor order = std::get<1>(stack_rows(group, ids, counts).view({-1}).sort());
  // The place of each row in the result: the inverse of `order`.
  const at::Tensor places = at::empty_like(order);
  places.index_copy_(0, order, at::arange(order.numel()));
  const int64_t width = row_bytes(group, rows);
  at::Tensor all;
  if (group.rank() == 0) all = at::empty({order.numel(), width}, at::kByte);
  int64_t first = 0;
  for (int r = 0; r < group.size(); ++r) {
    const int64_t k = counts.const_data_ptr<int64_t>()[r];
    at::Tensor part = at::empty({k, width}, at::kByte);
    if (r == group.rank()) {
      const at::Tensor dense = rows.contiguous();
      if (k > 0) std::memcpy(part.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
    }
    if (r > 0 && k > 0) group.broadcast(part, r, "evaluation rows");
    if (all.defined() && k > 0) all.index_copy_(0, places.narrow(0, first, k), part);
    first += k;
  }
  if (!all.defined()) return all;
  auto shape = rows.sizes().vec();
  if (all.size(0) == 0) return rows;  // no rank has a row
  shape[0] = -1;
  return all.view(rows.scalar_type()).view(shape);
}

}  // namespace bv

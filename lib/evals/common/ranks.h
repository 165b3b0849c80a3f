// Collectives of evaluators: sums, and rows in the order of the data. All ranks of the group must
// call them.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/distributed/group.h"

namespace bv {

// Sums `tensor` over ranks, in place on every rank.
void sum_over_ranks(Group& group, const at::Tensor& tensor);

// Gathers the rows of all ranks in the order of the data. rows: (k, ...) of any type; k may differ
// from rank to rank. ids: (k) int64, the places of the rows in the data; no two ranks may have the
// same one. Returns the rows of all ranks by ascending id, on every rank.
at::Tensor gather_rows(Group& group, const at::Tensor& rows, const at::Tensor& ids);
// The same on rank 0 only; returns an undefined tensor on the others. Ranks other than 0 hold the
// rows of one rank at a time, so it needs less memory.
at::Tensor gather_rows_on_first(Group& group, const at::Tensor& rows, const at::Tensor& ids);

}  // namespace bv

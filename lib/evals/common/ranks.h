// What evaluators need of the other ranks: sums, and rows in the order of the data. `group` may be
// null: a group of one.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/distributed/group.h"

namespace bv {

// In place: element by element the sum over ranks, on every rank.
void sum_over_ranks(Group* group, const at::Tensor& tensor);

// rows: (k, ...) of any type, ids: (k) int64, their places in the data, all different over ranks; k
// differs from rank to rank. Returns all ranks' rows in ascending order of ids, on every rank.
at::Tensor gather_rows(Group* group, const at::Tensor& rows, const at::Tensor& ids);
// The same on rank 0 alone; undefined on the others, which hold one rank's rows at a time.
at::Tensor gather_rows_on_first(Group* group, const at::Tensor& rows, const at::Tensor& ids);

}  // namespace bv

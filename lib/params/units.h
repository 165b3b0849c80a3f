// Memory of shared-out parameters and gradients (zero2, fsdp): it is there while it is needed.
//
// Forward: a unit's parameters are gathered when it is entered, those of the next one meanwhile,
// and freed when it is left. Backward: gathered again when the gradient of its result is there,
// those of the one before it meanwhile, and freed when the gradient of its input is. What belongs
// to no unit is there from begin() to end(). Gradients get memory with the first of their segment;
// with the last one they are summed over ranks into each rank's part, and their memory is given
// back: with gradient accumulation for each part of the batch.
//
// Collectives follow the order of the graph, which is the same on all ranks.
#pragma once

#include <deque>
#include <vector>

#include "lib/distributed/group.h"
#include "lib/model/model.h"
#include "lib/params/flat_params.h"

namespace bv {

class Units : public UnitHooks {
 public:
  // Both must outlive this.
  Units(FlatParams& params, Group& group);
  ~Units() override;

  void begin() override;
  void end() override;
  void enter(int unit, const at::Tensor& x) override;
  void leave(int unit, const at::Tensor& y) override;

  void begin_gradients(bool add);  // before backward; `add`: to the sums that are there
  void finish_gradients();         // behind it: sums what never got full, and waits for all

  // Brings every whole parameter of data() up to date from the ranks' parts (zero1, zero2).
  void spread();

 private:
  struct Work {  // of a segment, by its index
    Group::Pending gathered, summed;
    bool gathering = false;
    int parameters = 0, missing = 0;
    bool summing = false;
    at::Tensor to_add;  // this rank's part of what is summed, while it is under way
    std::string gather_name, sum_name;
  };
  void gather(int unit);  // begins it, if it is not there or on its way
  void need(int unit);    // there when it returns
  void release(int unit);
  void first_gradient(int segment);
  void last_gradient(int segment);
  void sum(int segment);
  void settle(size_t most);  // waits until at most so many sums are under way
  at::Tensor part_of(const at::Tensor& flat, int64_t place, int segment) const;
  void hook(const FlatParams::Entry& entry);

  FlatParams& params_;
  Group& group_;
  const int rest_;                         // stands for what belongs to no unit
  std::vector<std::vector<int>> of_unit_;  // segments with lent parameters
  std::vector<Work> work_;
  std::vector<bool> comes_again_;  // in this pass's backward
  bool add_ = false;
  std::deque<int> summing_;
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

}  // namespace bv

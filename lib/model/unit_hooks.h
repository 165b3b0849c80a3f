// How a model reports its progress to a run that shards the model's parameters over ranks. Such a
// run has the parameters of a unit in memory only while the unit computes
// (lib/params/sharded_units.h). Model::units() names the units.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

class Model;
struct Pass;

class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // Called before each forward pass.
  virtual void begin() = 0;
  // Called once at the end, after the last forward pass and its backward pass. Also called while an
  // exception unwinds the stack: then it must not throw.
  virtual void end() = 0;
  // Called before unit `unit` (an index into Model::units()) computes; x is its input.
  virtual void enter(int unit, const at::Tensor& x) = 0;
  // Called after unit `unit` has computed; y is its output.
  virtual void leave(int unit, const at::Tensor& y) = 0;
};

// Connects a pass with the hooks of its model (Model::hooks), if there are any. Forward passes and
// their backward passes must run within the lifetime of this object.
class UnitScope {
 public:
  UnitScope(const Model& model, Pass& pass);
  ~UnitScope() noexcept(false);  // throws what UnitHooks::end() throws
  UnitScope(const UnitScope&) = delete;

 private:
  UnitHooks* hooks_;
};

}  // namespace bv

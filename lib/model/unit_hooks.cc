#include "lib/model/unit_hooks.h"

#include "lib/model/model.h"

namespace bv {

UnitScope::UnitScope(const Model& model, Pass& pass) : hooks_(model.hooks) {
  pass.hooks = hooks_;
  if (hooks_) hooks_->begin();
}

UnitScope::~UnitScope() noexcept(false) {
  if (hooks_) hooks_->end();
}

}  // namespace bv

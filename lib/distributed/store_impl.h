// Private to lib/distributed: the c10d store inside a Store, which c10d's process groups need.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lib/distributed/store.h"

namespace bv {

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> keys;  // with the run's prefix
};

}  // namespace bv

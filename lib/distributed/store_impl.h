// Inside the room: what a Store holds, for the process group that needs c10d's own type.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lib/distributed/store.h"

namespace bv {

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> keys;  // under the run's prefix
};

}  // namespace bv

#pragma once

namespace bv::log {

// While an object of this class exists, the messages of this thread are dropped: for a rehearsal of
// work that logs them itself.
class Muted {
 public:
  Muted();
  ~Muted();
  Muted(const Muted&) = delete;
  Muted& operator=(const Muted&) = delete;
};

}  // namespace bv::log

// A separate token for each start under torchrun. All ranks of a start need the same token, and no
// two starts may have the same: the store of torchrun's agent outlives a start and keeps its keys,
// such as heartbeats and the report of a failure. torchrun itself provides nothing of the kind.
// Each agent counts TORCHELASTIC_RESTART_COUNT for itself, from 0 on a node that has joined late,
// and does not count restarts after a change of membership.
//
// So rank 0 draws a random token and offers it in the store. Another rank may find the offer of an
// earlier start there, whose rank 0 is gone. Therefore it announces itself, and takes the offer
// once rank 0 has answered.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

class StartToken {
 public:
  // `address` is layout.address, resolved. With torchrun, rank 0 waits up to `seconds` for the
  // store and makes its offer. A thread then answers the other ranks until this object is
  // destroyed. Every other rank waits up to `seconds` for the store, and then up to `seconds` for
  // the answer. With other launchers token() is layout.token, and nothing is opened. Throws
  // Error(Exit::peer) if the store or rank 0 does not answer, or if the store is lost. Throws
  // Interrupted (lib/distributed/store.h) if `stop` returns true meanwhile.
  StartToken(const RankLayout& layout, const std::string& address, double seconds,
             const std::function<bool()>& stop);
  ~StartToken();
  StartToken(const StartToken&) = delete;

  const std::string& token() const { return token_; }

 private:
  struct Answers;
  std::string token_;
  std::unique_ptr<Answers> answers_;  // on rank 0 with torchrun
};

}  // namespace bv

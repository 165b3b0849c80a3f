// The ranks of a run and their collectives, by Gloo on the CPU and by NCCL on CUDA. The only thing
// of this room that most code knows.
//
// A group of one is the identity: it opens nothing, sends nothing and counts nothing, so that no
// caller asks for the size. All ranks call the same collectives in the same order, from one thread.
// When a rank is dead, stopped or does not come, the others' processes end with exit code 7 and a
// line that names it (lib/distributed/watch/watch.h): no call here returns an error for that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"
#include "lib/distributed/watch/judge.h"
#include "lib/util/error.h"

namespace bv {

struct GroupOptions {
  Bounds bounds;
  // Gloo's threads: as many collectives run at the same time.
  int threads = 2;
  // Asked while the ranks come together: whether this process is to end.
  std::function<bool()> stop = {};
  int cuda = -1;            // this rank's CUDA device, if it has one: its tensors go by NCCL
  bool even_alone = false;  // a group of one opens, too: to try the backends
};
// BVTRAIN_STARTUP_TIMEOUT, BVTRAIN_STEP_TIMEOUT, BVTRAIN_SILENCE, BVTRAIN_HEARTBEAT and
// BVTRAIN_PHASE_TIMEOUT, in seconds. Throws Error(Exit::usage) naming the variable.
GroupOptions group_options(const EnvironmentMap& environment);

class Group {
 public:
  struct Impl;

  static std::shared_ptr<Group> alone();
  // Rank 0 of `size` ranks that are not there, for --dry-run: it has a rank and a size, and must
  // not be asked for a collective.
  static std::shared_ptr<Group> pretend(int size);
  // Waits for all ranks. One group a process. Throws Error(Exit::usage) for an address that can't
  // be bound or resolved, Error(Exit::peer) where no store answers in time; Interrupted
  // (lib/distributed/store.h) where options.stop() says so.
  static std::shared_ptr<Group> join(const RankLayout& place, const GroupOptions& options);
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool open() const { return impl_ != nullptr; }  // calls collectives

  // A collective under way. Its tensors must not be touched before wait(). Movable; what is not
  // waited for goes on by itself.
  class [[nodiscard]] Pending {
   public:
    struct State;
    Pending();
    explicit Pending(std::unique_ptr<State> state);
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    // At once if there is nothing to wait for; a second call returns. On CUDA it is the current
    // stream that waits.
    void wait();

   private:
    std::unique_ptr<State> state_;
  };

  // `what` names the collective in messages. Tensors are contiguous, of one device, and one of
  // float32, float64, bfloat16, int64, int32, uint8. Order of summation is fixed by size() alone:
  // two runs of the same size have the same bits.
  Pending all_reduce_sum(at::Tensor tensor, const char* what);  // in place
  // Flat buffers: part r of `input` (size() equal parts) is summed over ranks into rank r's
  // `output`, in rank order. Gloo's own sends twice the bytes: here each part goes to its rank
  // alone, (N-1)/N of `input` a rank, the least there is.
  Pending reduce_scatter_sum(at::Tensor output, at::Tensor input, const char* what);
  // `output` holds size() equal parts, part r is rank r's `input`.
  Pending all_gather(at::Tensor output, at::Tensor input, const char* what);
  void broadcast(at::Tensor tensor, int root, const char* what);  // in place
  // Element by element the largest over ranks: the control word.
  std::vector<int64_t> all_max(std::span<const int64_t> values, const char* what);
  // Every rank's text, by rank.
  std::vector<std::string> gather_text(const std::string& text, const char* what);
  void barrier(const char* what);

  // A training step ended: for heartbeats, time-outs and the warning about slow ranks.
  void note_step(int64_t step);
  // A long phase ("start", "checkpoint", "evaluation") in which this rank may keep others waiting
  // longer than a step may; it ends with the object, and goes back to the one around it.
  class [[nodiscard]] Phase {
   public:
    Phase(Group& group, const std::string& name);
    ~Phase();
    Phase(const Phase&) = delete;

   private:
    Group& group_;
    std::string outer_;
  };

  int64_t collectives() const;  // begun so far; 0 in a group of one
  // Sent by this rank in collectives so far, headers not counted: by the algorithms' own formulas
  // (ring: 2 (N-1)/N of an all_reduce, (N-1)/N of a reduce_scatter and an all_gather).
  int64_t bytes_sent() const;

  // The good end: a barrier, then connections, then the store. Exactly once, on all ranks; after it
  // the group is one of one.
  void finish();

 private:
  Group(int rank, int size, std::shared_ptr<Impl> impl);
  int rank_, size_;
  std::shared_ptr<Impl> impl_;  // null in a group of one
};

// Throws Error(Exit::usage) where ranks differ in a value, e.g. {"config", hash}, naming the key,
// the ranks and both values: "config: error: ranks 2, 3 have 'b1', rank 0 has 'a0'".
void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts);

// For a process that ends by an error: if it is in an unfinished group, tells the others why
// (exit code and line), ends the process with that code, and does not return. Else does nothing.
void leave_group(Exit code, const std::string& line);

}  // namespace bv

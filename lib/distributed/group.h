// The ranks (processes) of a run and their collectives: Gloo for tensors on the CPU, NCCL for
// tensors on CUDA devices. The other folders of lib/ include no other header of lib/distributed,
// except that lib/cuda includes nccl_impl.h. app/ also includes launch/, watch/, store.h,
// open_files.h and check_agreement.h.
//
// All code takes a Group&. A run of one process uses Group::single(), whose collectives are the
// identity, so callers need no special case for it; some check size() to skip work that only
// several ranks need. All ranks must call the same collectives in the same order, each from one
// thread.
//
// No collective returns an error for a failed rank. When a rank is dead, stopped or late, the
// processes of the others end with exit code 7 and a line that names it
// (lib/distributed/watch/watch.h), except at the end of a complete run (Group::finish()).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/distributed/group_options.h"
#include "lib/distributed/launch/rank_layout.h"
#include "lib/util/error.h"

namespace bv {

class Group {
 public:
  struct Impl;

  // Returns the process-wide group of one: rank 0, size 1. It opens nothing, and its collectives
  // are the identity. It is never destroyed.
  static Group& single();
  // Returns rank 0 of a group of `size` ranks that is never joined, for --dry-run. It has a rank
  // and a size for planning. With size > 1 any collective is Error(internal).
  static std::shared_ptr<Group> planned(int size);
  // Joins the group that `layout` describes and waits for all ranks. A process can join one group
  // at a time. With layout.size == 1 it returns single(), unless options.even_alone asks for an
  // open group even then. Throws Error(Exit::usage) if an address can't be resolved or bound,
  // Error(Exit::peer) if no store answers in time, and Interrupted (lib/distributed/store.h) if
  // options.stop() returns true.
  static std::shared_ptr<Group> join(const RankLayout& layout, const GroupOptions& options);
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Whether collectives communicate: from join() to finish(). False for single() and planned().
  bool open() const { return impl_ != nullptr; }

  // A collective in progress. Its tensors must not be touched before wait() returns. Movable. If it
  // is destroyed without wait(), the collective continues.
  class [[nodiscard]] Pending {
   public:
    struct State;
    Pending();
    explicit Pending(std::unique_ptr<State> state);
    Pending(Pending&&) noexcept;
    Pending& operator=(Pending&&) noexcept;
    ~Pending();
    // Blocks until the collective has ended; for tensors on CUDA the current stream waits instead.
    // Does nothing the second time, or if nothing is in progress. Throws c10::Error if the CUDA
    // device of this rank has failed.
    void wait();

   private:
    std::unique_ptr<State> state_;
  };

  // The parameter `what` names the collective in messages; it must outlive the collective. Tensors
  // are contiguous, all on one device, of type float32, float64, bfloat16, int64, int32 or uint8.
  // The order of summation depends on size() only: two runs of the same size are bit-identical.

  // Sums `tensor` over ranks, in place.
  Pending all_reduce_sum(at::Tensor tensor, const char* what);
  // `input` consists of size() equal parts. Part r, summed over ranks in rank order, becomes the
  // `output` of rank r. On the CPU each part is sent to its rank only, (N-1)/N of `input` per rank;
  // Gloo's own implementation sends twice as many bytes.
  Pending reduce_scatter_sum(at::Tensor output, at::Tensor input, const char* what);
  // `output` consists of size() equal parts. Part r becomes the `input` of rank r.
  Pending all_gather(at::Tensor output, at::Tensor input, const char* what);
  // The `input` of each rank becomes the `output` of the next rank, and that of the last rank the
  // `output` of rank 0. On the CPU a rank sends `input` once. On CUDA devices all ranks gather all
  // parts: an all-to-all of NCCL would connect all pairs of ranks, which takes memory.
  Pending send_to_next(at::Tensor output, at::Tensor input, const char* what);
  // Copies `tensor` of rank `root` to all ranks, in place.
  void broadcast(at::Tensor tensor, int root, const char* what);
  // Returns the element-wise maximum over ranks.
  std::vector<int64_t> all_max(std::span<const int64_t> values, const char* what);
  // Returns the string of rank 0. The strings of other ranks are not read.
  std::string broadcast_text(std::string text, const char* what);
  // Returns the string of every rank, by rank.
  std::vector<std::string> gather_text(const std::string& text, const char* what);
  void barrier(const char* what);

  // Reports that a training step ended, for heartbeats, time-outs and the warning about slow ranks.
  void note_step(int64_t step);
  // Marks a long phase (kIndexing, "start", "checkpoint", "evaluation"). While the object lives,
  // this rank may keep the others waiting for Timeouts::phase instead of the time-out of a step.
  // Phases nest.
  class [[nodiscard]] Phase {
   public:
    Phase(Group& group, const std::string& name);
    ~Phase();
    Phase(const Phase&) = delete;

   private:
    Group& group_;
    std::string outer_;
  };

  // Create it before this thread may block on its device, and destroy it afterwards. Collectives of
  // CUDA tensors run on the device. Only this object tells the watch that the rank waits for one,
  // so that the run ends after the time-out of a step if the collective hangs. Without it the run
  // ends when no rank has made progress for Timeouts::phase. Objects nest; other waits may begin
  // and end meanwhile. For a CPU it does nothing.
  class [[nodiscard]] DeviceWait {
   public:
    DeviceWait(Group& group, c10::Device device);
    ~DeviceWait();
    DeviceWait(const DeviceWait&) = delete;

   private:
    std::shared_ptr<Impl> impl_;  // null: nothing to do
  };

  struct Counts {
    int64_t collectives = 0;  // begun so far
    // Bytes that this rank has sent in collectives, without headers, computed from the formulas of
    // the algorithms (ring: 2 (N-1)/N of the tensor for an all_reduce, (N-1)/N for a reduce_scatter
    // or an all_gather).
    int64_t bytes_sent = 0;
    Counts operator-(const Counts& other) const {
      return {collectives - other.collectives, bytes_sent - other.bytes_sent};
    }
  };
  // Returns the counts so far; 0 unless the group is open.
  Counts counts() const;
  // Adds the counts of collectives that a device has replayed, which this class does not see.
  void count_again(const Counts& repeated);

  // Shuts the group down cleanly: a barrier, then the connections, then the store. Graphs with
  // collectives of this group must have been destroyed before (lib/train/step/step_graph.h). All
  // ranks call it exactly once. No collective may be called afterwards. `complete`: the run has
  // succeeded, and this process has nothing more to do. If another rank is lost once rank 0 has
  // reached the barrier, this process ends with code 0 and one line as soon as it detects that.
  void finish(bool complete = false);

 private:
  Group(int rank, int size, std::shared_ptr<Impl> impl);
  // Whether a collective communicates. Error(internal) if it should but the group is not open.
  bool communicates(const char* what) const;
  int rank_, size_;
  std::shared_ptr<Impl> impl_;  // null unless the group is open
};

// For a process that is about to end with an error. If it has joined a group and not finished it,
// reports the reason to the other ranks (exit code and line) and ends the process with that code,
// without returning. Otherwise does nothing.
void abort_group(Exit code, const std::string& line);

}  // namespace bv

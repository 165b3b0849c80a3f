// All parameters of a model in one flat float32 buffer, and their gradients in another. The
// optimizer updates everything in one pass, and memory addresses never change.
//
// Order of the buffers: trainable parameters first, sorted by optimizer group and then in reverse
// registration order (the order in which backward finishes their gradients); frozen parameters
// last. Each parameter starts at a multiple of 256 bytes. The gaps between parameters are zero and
// stay zero. The gradient buffer and the optimizer's buffers cover the trainable parameters only.
//
// Parameters keep their strides: a kernel whose memory is permuted stays permuted inside its range.
//
// With sharding (ShardLevel), parameters are grouped into segments, and each segment is cut into
// one shard per rank, as in ZeRO (Rajbhandari et al. 2020) and FSDP (Zhao et al. 2023). A buffer
// holds a sharded parameter either in full or only this rank's shard of its segment:
//
//                data()    grads()   optimizer state
//   replicated   full      full      full
//   zero1        full      full      shard
//   zero2        full      shard     shard
//   fsdp         shard     shard     shard
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/model.h"
#include "lib/params/freeable_storage.h"
#include "lib/params/sharding.h"

namespace bv {

inline constexpr int kFrozen = -1;  // the group of parameters that are not trained

// How a model's parameters are sharded over the ranks, and on which device they live. The default
// is one process on the CPU that holds everything.
struct ShardingPlan {
  int rank = 0, ranks = 1;
  std::vector<ShardLevel> levels = {};  // one per entry of named_parameters(); empty: replicated
  std::vector<std::string> units = {};  // Model::units(): name prefixes of the FSDP units
  int64_t bucket_bytes = 25 << 20;      // minimum size of a zero1 or zero2 segment
  c10::Device device = c10::kCPU;
};

class FlatParams {
 public:
  // Alignment of parameters and shards, in elements: 256 bytes of float32.
  static constexpr int64_t kAlign = 64;

  struct Entry {
    std::string name;      // "head/kernel"
    at::Tensor parameter;  // the model's own tensor: a view of data() or of Segment::parameters
    std::vector<int64_t> shape, strides;
    bool stacked = false;  // the first axis counts layers (lib/model/layers/stacked.h)
    int64_t offset = 0;    // in data(), in elements, a multiple of kAlign; -1 with fsdp
    int64_t numel = 0;
    int group = kFrozen;
    ShardLevel level = ShardLevel::replicated;
    int segment = -1;            // index into segments(); -1: replicated
    int64_t segment_offset = 0;  // first element in the segment
  };

  // Parameters that are cut into shards together. All sizes and offsets are in elements.
  struct Segment {
    ShardLevel level = ShardLevel::replicated;
    // fsdp: index into Model::units(), or units() for parameters outside all units. zero1, zero2:
    // the number of the bucket.
    int unit = 0;
    bool trainable = true;
    std::string name;        // for messages
    int64_t shard_size = 0;  // of each rank, a multiple of kAlign
    // Where the segment starts in data(), in grads() and in a state buffer. A buffer that holds
    // shards has shard_size elements there, any other shard_size * ranks.
    int64_t data_offset = 0, grad_offset = 0, state_offset = 0;
    FreeableStorage parameters = {};  // fsdp: the full parameters while they are gathered
    FreeableStorage gradients = {};   // zero2, fsdp: the full gradients until they are reduced
  };

  // A contiguous slice of a trainable parameter that this rank updates. `count` includes the gap
  // after the parameter. Offsets are in elements.
  struct OwnedSlice {
    const Entry* entry;
    int64_t first, count;       // in the memory of the parameter
    int64_t data, grad, state;  // offsets of `first` in data(), grads() and a state buffer
  };

  enum class BufferKind { data, grads, state };
  // What a buffer of this rank holds of one parameter, without gaps.
  struct Slice {
    const Entry* entry;
    int64_t first, count;  // in the memory of the parameter; count may be 0 unless `whole`
    int64_t offset;        // of `first` in the buffer
    bool whole;            // every rank holds the whole parameter
  };

  // Moves every parameter of `model` into data() and sets its gradient to a view of grads().
  // groups[i] is the optimizer group (0, 1, ... or kFrozen) of the i-th of
  // named_parameters(model); frozen parameters lose requires_grad. Values are kept, or are made by
  // init(i), one parameter at a time, if `init` is given.
  FlatParams(Model& model, std::span<const int> groups, ShardingPlan plan = {},
             const std::function<void(size_t)>& init = {});

  const std::vector<Entry>& entries() const { return entries_; }  // in buffer order
  std::vector<Segment>& segments() { return segments_; }          // empty without sharding
  const std::vector<Segment>& segments() const { return segments_; }
  int rank() const { return plan_.rank; }
  int ranks() const { return plan_.ranks; }
  int units() const { return static_cast<int>(plan_.units.size()); }
  // Sizes in elements, gaps included.
  int64_t size() const { return size_; }                      // of data()
  int64_t trainable_size() const { return trainable_size_; }  // of the trainable front of data()
  int64_t state_size() const { return state_size_; }          // of a state buffer
  // Length of the front of grads() that holds gradients of whole parameters (not shards).
  int64_t whole_grad_size() const { return whole_grad_size_; }
  // Returns the slices that this rank updates, in the order of the state buffers.
  std::vector<OwnedSlice> owned_slices() const;
  // Returns one slice per parameter that the buffer covers, in buffer order. Frozen parameters are
  // covered by `data` only.
  std::vector<Slice> slices(BufferKind kind) const;

  const at::Tensor& data() const { return data_; }    // (size()) float32
  const at::Tensor& grads() const { return grads_; }  // float32
  // Returns the ranges of data() that hold the same values on all ranks.
  std::vector<at::Tensor> replicated_data() const;
  // Returns a zeroed buffer of (state_size()) elements, aligned like data().
  at::Tensor new_buffer(at::ScalarType dtype) const;

 private:
  void sort_entries(std::vector<size_t> order);
  void assign_segments(const std::vector<size_t>& order);
  void assign_offsets();
  int64_t sharded_grad_size() const;
  void move_into_buffers(Entry& entry);
  int unit_of(const std::string& name) const;
  bool owned_range(const Entry& entry, int64_t& first, int64_t& count) const;
  at::Tensor allocate(int64_t elements, at::ScalarType dtype) const;
  c10::Device device_;
  ShardingPlan plan_;
  std::vector<Entry> entries_;
  std::vector<Segment> segments_;
  int64_t size_ = 0, trainable_size_ = 0, state_size_ = 0, whole_grad_size_ = 0;
  at::Tensor data_, grads_;
};

}  // namespace bv

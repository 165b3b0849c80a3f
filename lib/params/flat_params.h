// All parameters of a model in one flat float32 buffer, the gradients in another: one optimizer
// pass, one norm, one memset, fixed addresses.
//
// Order: trainable parameters by (optimizer group, reverse registration order, in which backward
// finishes them), then the frozen ones. Each starts at a multiple of 256 bytes; the gaps are zero
// and stay zero. Gradients and every other buffer of the optimizer cover the trainable ones only.
//
// Parameters keep their strides: a kernel that lies permuted in memory is a permuted view of its
// range.
//
// Where ranks share state out (ShardLevel), parameters are laid together in segments, each cut into
// one part a rank. A buffer holds a parameter whole, or this rank's part of its segment:
//
//                data()    grads()   buffers of state
//   replicated   whole     whole     whole
//   zero1        whole     whole     part
//   zero2        whole     part      part
//   fsdp         part      part      part
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/model/model.h"
#include "lib/params/freeable_storage.h"
#include "lib/params/sharding.h"

namespace bv {

inline constexpr int kFrozen = -1;

// Who keeps what of a model's parameters, and where. The default is a group of one on the CPU.
struct ShardingPlan {
  int rank = 0, ranks = 1;
  std::vector<ShardLevel> levels = {};  // of each of named_parameters(); empty: replicated
  std::vector<std::string> units = {};  // Model::units()
  int64_t bucket_bytes = 25 << 20;      // of gradients that leave together with zero2
  c10::Device device = c10::kCPU;
};

class FlatParams {
 public:
  static constexpr int64_t kAlign = 64;  // elements: 256 bytes of float32

  struct Entry {
    std::string name;      // "head/kernel"
    at::Tensor parameter;  // the model's own; its memory is a view of data(), or of a loan
    std::vector<int64_t> shape, strides;
    int64_t offset = 0;  // in data(), in elements, a multiple of kAlign; -1: not whole there
    int64_t numel = 0;
    int group = kFrozen;
    ShardLevel level = ShardLevel::replicated;
    int segment = -1;  // of segments(); -1: replicated
    int64_t at = 0;    // offset in the segment
  };

  // Parameters that are cut into parts together.
  struct Segment {
    ShardLevel level = ShardLevel::replicated;
    int unit = 0;  // of Model::units(); their number: of what belongs to none
    bool trainable = true;
    std::string name;                       // for messages
    int64_t part = 0;                       // elements of a rank, a multiple of kAlign
    int64_t data = 0, grad = 0, state = 0;  // place in the buffers: of the whole, or of the part
    FreeableStorage parameters = {},
                    gradients = {};  // fsdp; fsdp and zero2: the whole, while it is needed
  };

  // A stretch of a parameter that this rank updates, gap behind it included: its first element in
  // the parameter's memory, and its places in the buffers.
  struct Own {
    const Entry* entry;
    int64_t first, count;
    int64_t data, grad, state;
  };
  // The buffers' kinds.
  enum class Space { data, grads, state };
  // What a buffer of this rank holds of a parameter, without gaps, at `at`.
  struct Stretch {
    const Entry* entry;
    int64_t first, count, at;
    bool whole;  // on every rank; else `count` may be 0
  };

  // groups[i] belongs to the i-th of named_parameters(model): 0, 1, ... or kFrozen. Moves every
  // parameter (values kept, or made by init(i) where that is given, one at a time) and presets its
  // gradient; frozen ones no longer require one.
  FlatParams(Model& model, std::span<const int> groups, ShardingPlan sharing = {},
             const std::function<void(size_t)>& init = {});

  const std::vector<Entry>& entries() const { return entries_; }  // in buffer order
  std::vector<Segment>& segments() { return segments_; }
  const std::vector<Segment>& segments() const { return segments_; }
  int rank() const { return plan_.rank; }
  int ranks() const { return plan_.ranks; }
  int units() const { return static_cast<int>(plan_.units.size()); }
  int64_t size() const { return size_; }            // elements of data(), gaps included
  int64_t trainable() const { return trainable_; }  // of which the first so many are trainable
  int64_t state_size() const { return state_; }     // elements of a buffer of state
  // Elements of grads() that are gradients of whole parameters: the first ones.
  int64_t whole_grads() const { return whole_grads_; }
  // [begin, end) of a group's parameters, gaps included, where all are replicated.
  std::pair<int64_t, int64_t> group_range(int group) const;
  // What this rank updates, in the order of buffers of state.
  std::vector<Own> owned() const;
  std::vector<Stretch> stretches(Space space) const;

  const at::Tensor& data() const { return data_; }    // (size()) float32
  const at::Tensor& grads() const { return grads_; }  // float32
  // The ranges of data() that all ranks hold alike.
  std::vector<at::Tensor> everywhere() const;
  void zero_grad();  // of those that are whole: the others are written by what sums them

  // A zeroed buffer of state: (state_size()).
  at::Tensor new_buffer(at::ScalarType dtype) const;
  // The whole parameters' places in `flat` (data(), or a buffer of state if nothing is shared out),
  // by prefix + name, with the parameters' shapes.
  std::vector<std::pair<std::string, at::Tensor>> views(const at::Tensor& flat,
                                                        const std::string& prefix) const;

 private:
  void lay_out(std::vector<size_t> order);
  void cut_segments(const std::vector<size_t>& order);
  void place();
  int64_t parts_of_gradients() const;
  void move(Entry& entry);
  int unit_of(const std::string& name) const;
  bool owns(const Entry& entry, int64_t& first, int64_t& count) const;
  at::Tensor allocate(int64_t elements, at::ScalarType dtype) const;
  c10::Device device_;
  ShardingPlan plan_;
  std::vector<Entry> entries_;
  std::vector<Segment> segments_;
  int64_t size_ = 0, trainable_ = 0, state_ = 0, whole_grads_ = 0;
  at::Tensor data_, grads_;
};

// Fills `views` from the tensors of the same names. Nothing is written unless each is there with
// the same shape and type, and `from` has no others that start with one of `prefixes`; else throws
// Error(Exit::usage) at `origin`, naming every missing, unexpected and differing tensor.
void copy_in(const std::vector<std::pair<std::string, at::Tensor>>& views, const NamedTensors& from,
             const std::vector<std::string>& prefixes, const std::string& origin);

}  // namespace bv

// A list of named parameters and buffers: the base class of Model. (Not torch::nn::Module: its
// headers take longer to compile than most sources of this program.)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace bv {

// The initializer of a parameter: fills it in place. Random numbers depend on `key` alone.
// lib/model/init.h has the initializers.
using Init = std::function<void(at::Tensor& parameter, uint64_t key)>;

// Names are big_vision's, with '/' between their parts:
// "Transformer/encoderblock_0/LayerNorm_0/scale". Each name is registered once.
class Module {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value;
    Init init;
    bool stacked = false;  // the first axis counts layers (lib/model/layers/stacked.h)
  };
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  Module() = default;
  Module(const Module&) = delete;
  virtual ~Module() = default;

  // Registers a float32 parameter of `shape` and returns it; its values are not set yet. `physical`
  // is the order of its dimensions in memory, outermost first. So a kernel can have big_vision's
  // shape and the layout that a fast operator wants: shape (3, 3, in, out) with physical
  // {3, 0, 1, 2} is stored as (out, 3, 3, in).
  at::Tensor add_parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                           std::vector<int64_t> physical = {});
  // Marks the parameter that was registered last as stacked.
  void note_stacked() { parameters_.back().stacked = true; }
  // Registers state that is not trained, such as running statistics, and returns it.
  at::Tensor add_buffer(const std::string& name, at::Tensor value);
  // Called by a layer that computes statistics over the training batch, unless both of its
  // parameters are frozen (BatchNorm).
  void note_batch_statistics(const at::Tensor& scale, const at::Tensor& bias);

  // In the order of registration.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Named& buffers() const { return buffers_; }
  // Returns true if any layer is a batch norm that is not frozen: then the outputs of training
  // depend on which examples are computed together. Buffers of another kind do not count.
  bool has_batch_statistics() const;
  // Returns whether a layer that could compute such statistics does not, because it is frozen.
  bool has_frozen_statistics() const;

 private:
  std::vector<Parameter> parameters_;
  std::set<std::string> names_;  // of the parameters
  Named buffers_;
  std::vector<std::pair<at::Tensor, at::Tensor>> batch_norms_;  // scale and bias of each
};

}  // namespace bv

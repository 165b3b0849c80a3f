// Models: images to logits. One architecture a file in models/, named after `model_name`.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/registry.h"

namespace bv {
class Group;
}

namespace bv {

// What a model needs to be built, taken from one example after pp.
struct ModelEnv {
  int64_t num_classes = 0;  // 0: no head, the model returns pre_logits
  int64_t height = 0, width = 0, channels = 0;
};

// Named activations by path: "pre_logits", "encoder/block00/+sa".
using Features = std::map<std::string, at::Tensor>;

// Where matmuls and convolutions compute; everything else is float32.
enum class Precision { float32, bf16 };

// Told where a pass is, by models whose parameters need not all be in memory at a time (they are
// shared out over ranks: lib/params/units.h).
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void begin() = 0;  // before a forward pass
  virtual void end() = 0;    // behind the last one, and behind its backward
  // x goes into unit `unit` of Model::units() next; y came out of it.
  virtual void enter(int unit, const at::Tensor& x) = 0;
  virtual void leave(int unit, const at::Tensor& y) = 0;
};

// One call of forward(): what varies from call to call.
struct Pass {
  bool train = false;
  Precision precision = Precision::float32;
  Features* features = nullptr;                      // collects named activations where set
  const std::vector<std::string>* wanted = nullptr;  // of them, where set, only these
  // Random numbers of the training step: the mask of the k-th dropout of a pass is drawn from
  // (seed, step, k, element of the whole batch).
  uint64_t seed = 0;
  int64_t step = 0;
  int next_dropout = 0;
  // Of several ranks, each with a part of the batch: the place of this rank's first example in the
  // whole batch. Batch statistics are those of the whole.
  int64_t first_example = 0;
  Group* group = nullptr;      // null: this process has the whole batch
  UnitHooks* units = nullptr;  // set by UnitScope
  // Multiply-accumulates of dense, conv and attention layers are added here where set.
  double* macs = nullptr;

  // Goes on to the n examples behind those of which it was.
  void next_part(int64_t n) {
    first_example += n;
    next_dropout = 0;
    if (units) units->begin();
  }
  bool wants(std::string_view name) const {
    return features &&
           (!wanted || std::find(wanted->begin(), wanted->end(), name) != wanted->end());
  }
  void enter(int unit, const at::Tensor& x) const {
    if (units) units->enter(unit, x);
  }
  void leave(int unit, const at::Tensor& y) const {
    if (units) units->leave(unit, y);
  }
  void keep(const char* name, const at::Tensor& value) {
    if (wants(name)) (*features)[name] = value;
  }
};

// How a parameter starts: fills it in place, drawing only from (seed, name). See lib/model/init.h.
using Init = std::function<void(at::Tensor& parameter, uint64_t key)>;

// What holds parameters and buffers, each under its reference name, '/'-joined:
// "Transformer/encoderblock_0/LayerNorm_0/scale". Names differ. (Not torch::nn::Module: its headers
// take longer to compile than most sources here.)
class Layer {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value;
    Init init;
  };
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  Layer() = default;
  Layer(const Layer&) = delete;
  virtual ~Layer() = default;

  // Registers a float32 parameter of `shape`. `physical` permutes the dimensions in memory
  // (outermost first) so that kernels have the reference's shape and a fast layout at once:
  // shape (3, 3, in, out) with physical {3, 0, 1, 2} lies in memory as (out, 3, 3, in).
  at::Tensor add_parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                           std::vector<int64_t> physical = {});
  // Registers state that is not trained, such as running statistics.
  at::Tensor add_buffer(const std::string& name, at::Tensor value);

  const std::vector<Parameter>& parameters() const { return parameters_; }  // in order
  const Named& buffers() const { return buffers_; }

 private:
  std::vector<Parameter> parameters_;
  Named buffers_;
};

class Model : public Layer {
 public:
  using Registry = bv::Registry<Model, ModelEnv>;
  static constexpr const char* kKind = "model";

  // image: (n, height, width, channels) float32. Returns logits (n, num_classes) float32.
  virtual at::Tensor forward(const at::Tensor& image, Pass& pass) = 0;

  // Parts that forward() goes through one after the other, between pass.enter() and pass.leave():
  // what the names of their parameters begin with ("MixerBlock_0/"), in the order of forward(). No
  // other part uses these parameters.
  virtual std::vector<std::string> units() const { return {}; }
  UnitHooks* hooks = nullptr;  // of the run that has shared its parameters out; null: all are there
};

// A forward pass of `model`, with its backward where there is one, lies within this.
class UnitScope {
 public:
  UnitScope(const Model& model, Pass& pass) : hooks_(model.hooks) {
    pass.units = hooks_;
    if (hooks_) hooks_->begin();
  }
  ~UnitScope() {
    if (hooks_) hooks_->end();
  }
  UnitScope(const UnitScope&) = delete;

 private:
  UnitHooks* hooks_;
};

// All parameters, and all buffers, in registration order.
Layer::Named named_parameters(const Model& model);
Layer::Named named_buffers(const Model& model);
// Draws every parameter from (seed, its name): the same whatever the device, order or world size.
// head_bias: config `init_head_bias`, fills "head/bias".
void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias);
// The same, one parameter at a time: the result fills the i-th. `model` must outlive it.
std::function<void(size_t)> parameter_init(const Model& model, uint64_t seed,
                                           std::optional<double> head_bias);
// Models are built under this guard with device meta when only shapes are wanted (--dry-run).
class MetaDevice {
 public:
  MetaDevice();
  ~MetaDevice();
  static bool active();
};

}  // namespace bv

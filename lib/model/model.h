// Models: images to logits. One architecture a file in models/, named after `model_name`.
#pragma once

#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/registry.h"

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

// One call of forward(): what varies from call to call.
struct Pass {
  bool train = false;
  Precision precision = Precision::float32;
  Features* features = nullptr;                      // collects named activations where set
  const std::vector<std::string>* wanted = nullptr;  // of them, where set, only these
  // Random numbers of the training step: the mask of the k-th dropout of a pass is drawn from
  // (seed, step, k, element).
  uint64_t seed = 0;
  int64_t step = 0;
  int next_dropout = 0;
  // Multiply-accumulates of dense, conv and attention layers are added here where set.
  double* macs = nullptr;

  bool wants(std::string_view name) const {
    return features &&
           (!wanted || std::find(wanted->begin(), wanted->end(), name) != wanted->end());
  }
  void keep(const char* name, const at::Tensor& value) {
    if (wants(name)) (*features)[name] = value;
  }
};

// How a parameter starts: fills it in place, drawing only from (seed, name). See lib/model/init.h.
using Init = std::function<void(at::Tensor& parameter, uint64_t key)>;

// A module whose parameters know their initialisers. Children are named as in the reference, joined
// with '/': "Transformer/encoderblock_0/LayerNorm_0/scale".
class Layer : public torch::nn::Module {
 public:
  // Registers a float32 parameter of `shape`. `physical` permutes the dimensions in memory
  // (outermost first) so that kernels have the reference's shape and a fast layout at once:
  // shape (3, 3, in, out) with physical {3, 0, 1, 2} lies in memory as (out, 3, 3, in).
  at::Tensor add_parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                           std::vector<int64_t> physical = {});
  const std::map<std::string, Init>& inits() const { return inits_; }

 private:
  std::map<std::string, Init> inits_;
};

class Model : public Layer {
 public:
  using Registry = bv::Registry<Model, ModelEnv>;
  static constexpr const char* kKind = "model";

  // image: (n, height, width, channels) float32. Returns logits (n, num_classes) float32.
  virtual at::Tensor forward(const at::Tensor& image, Pass& pass) = 0;
};

// All parameters in registration order, by '/'-joined path. And buffers (running statistics).
std::vector<std::pair<std::string, at::Tensor>> named_parameters(const Model& model);
std::vector<std::pair<std::string, at::Tensor>> named_buffers(const Model& model);
// Draws every parameter from (seed, its name): the same whatever the device, order or world size.
// head_bias: config `init_head_bias`, fills "head/bias".
void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias);
// Models are built under this guard with device meta when only shapes are wanted (--dry-run).
class MetaDevice {
 public:
  MetaDevice();
  ~MetaDevice();
  static bool active();
};

}  // namespace bv

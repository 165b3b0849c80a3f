// Adds the layers of bvtrain's models to an ONNX graph. The graph takes images (n, height, width,
// channels), preprocessed as for `bvtrain predict`, and returns logits (n, classes), or pre_logits
// if the model has no head. Everything is float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "lib/export/onnx_graph.h"
#include "lib/export/weights_writer.h"

namespace bv {

class OnnxLayers {
 public:
  using Value = std::string;  // name of a value in the graph, of any shape
  // An activation (n, channels, height, width).
  struct Plane {
    Value value;
    int64_t channels = 0, height = 0, width = 0;
  };
  // Padding of windows: none; TensorFlow's SAME (ceil(size / stride) outputs, the smaller half of
  // the padding at the top and the left); (size - 1) / 2 on each side.
  enum class Padding { valid, same, symmetric };

  // For images of size `image`. `trained` must outlive this object.
  OnnxLayers(const TrainedModel& trained, const ImageSize& image);

  OnnxGraph& graph() { return graph_; }
  bool has(const std::string& parameter) const { return trained_.params.count(parameter) > 0; }
  // Returns a parameter. Throws Error(Exit::usage) if the model has no such parameter.
  const at::Tensor& tensor(const std::string& name) const {
    return trained_parameter(trained_, name);
  }
  // Adds a parameter as a constant, reshaped to `view` unless that is empty. Throws
  // Error(Exit::usage) if the number of elements differs.
  Value parameter(const std::string& name, at::IntArrayRef view = {});
  Value real(float value);  // shape (); equal values share one constant

  Value add(const Value& a, const Value& b) { return graph_.node("Add", {a, b}); }
  Value multiply(const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); }
  Value transpose(const Value& x, std::vector<int64_t> order);
  // Sizes as in ONNX: 0 keeps a dimension, -1 is computed from the others.
  Value reshape(const Value& x, const std::vector<int64_t>& shape);
  // `op`: ReduceMean or ReduceMax. The axes are removed.
  Value reduce(const char* op, const Value& x, std::vector<int64_t> axes);

  // Returns x * kernel + bias over the last axis, which has `features` elements. The kernel is
  // reshaped to (features, out); throws Error(Exit::usage) if that is impossible.
  Value dense(const Value& x, const std::string& name, int64_t features);
  Value layer_norm(const Value& x, const std::string& name);  // eps 1e-6
  Value gelu(const Value& x);                                 // tanh approximation
  // Dense, GELU, Dense: `name`/Dense_0, `name`/Dense_1.
  Value mlp(const Value& x, const std::string& name, int64_t features);

  Plane image();  // the graph's input, transposed to channels first
  enum class Bias { none, added };
  // `kernel` is (rows, columns, in, out) and is stored as `name`/kernel. Bias::added adds the
  // parameter `name`/bias.
  Plane conv(const Plane& x, const std::string& name, const at::Tensor& kernel,
             const std::vector<int64_t>& strides, Padding padding, Bias bias);
  Plane relu(const Plane& x);
  Plane add(const Plane& a, const Plane& b);
  // `op`: MaxPool (padding is -inf) or AveragePool (use Padding::valid). Windows are square.
  Plane pool(const char* op, const Plane& x, int64_t size, int64_t stride, Padding padding);
  // Running statistics are the buffers `name`/mean and `name`/var.
  Plane batch_norm(const Plane& x, const std::string& name, float eps);
  Plane group_norm(const Plane& x, const std::string& name, int64_t groups, float eps);

  // Applies the head to `x`, if the model has one, and multiplies the logits by `logit_scale`; then
  // writes the file. `shape` is that of `x`, with -1 for the batch. Throws as OnnxGraph::write().
  void write(const std::string& file, Value x, std::vector<int64_t> shape, float logit_scale = 1);

 private:
  const TrainedModel& trained_;
  const ImageSize image_;
  OnnxGraph graph_;
  std::map<float, Value> reals_;
};

}  // namespace bv

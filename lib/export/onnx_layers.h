// The layers that architectures are made of (lib/model/layers.h, resnet.h) as nodes of an ONNX
// graph: image (n, height, width, channels) in, as `bvtrain predict` takes it; logits (n, classes)
// out, pre_logits where the model has no head; float32 throughout.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "lib/export/onnx_file.h"
#include "lib/export/writer.h"

namespace bv {

class OnnxLayers {
 public:
  using Value = std::string;  // of any shape
  // An activation (n, channels, height, width).
  struct Plane {
    Value value;
    int64_t channels = 0, height = 0, width = 0;
  };
  // Of a window: none; as TensorFlow's SAME, ceil(size / stride) outputs, the smaller half of the
  // border at the left and the top; (size - 1) / 2 on each side.
  enum class Padding { valid, same, symmetric };

  // Of a model on images of `image`. `trained` must outlive this.
  OnnxLayers(const Trained& trained, const ImageSize& image);

  OnnxGraph& graph() { return graph_; }
  bool has(const std::string& parameter) const { return trained_.params.count(parameter) > 0; }
  // Throws Error(Exit::usage) where the model has none of this name.
  const at::Tensor& tensor(const std::string& name) const {
    return trained_parameter(trained_, name);
  }
  // A parameter as a constant, in the shape `view` where given. Throws Error(Exit::usage) where it
  // has more or fewer values.
  Value parameter(const std::string& name, at::IntArrayRef view = {});
  Value real(float value);  // shape (), one constant for each value

  Value add(const Value& a, const Value& b) { return graph_.node("Add", {a, b}); }
  Value multiply(const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); }
  Value transpose(const Value& x, std::vector<int64_t> order);
  // Sizes as ONNX has them: 0 keeps one, -1 takes what is left.
  Value reshape(const Value& x, const std::vector<int64_t>& shape);
  // `op`: ReduceMean, ReduceMax; the axes go.
  Value reduce(const char* op, const Value& x, std::vector<int64_t> axes);

  // Over the last axis, which has `features`: x K + b, the kernel of any shape that flattens to
  // (features, out). Throws Error(Exit::usage) where it does not.
  Value dense(const Value& x, const std::string& name, int64_t features);
  Value layer_norm(const Value& x, const std::string& name);  // eps 1e-6
  Value gelu(const Value& x);                                 // the tanh form
  // Dense, GELU, Dense: `name`/Dense_0, `name`/Dense_1.
  Value mlp(const Value& x, const std::string& name, int64_t features);

  Plane image();  // the input, channels first
  enum class Bias { none, added };
  // `kernel` (rows, columns, in, out), named `name`/kernel, and where asked `name`/bias.
  Plane conv(const Plane& x, const std::string& name, const at::Tensor& kernel,
             const std::vector<int64_t>& strides, Padding padding, Bias bias);
  Plane relu(const Plane& x);
  Plane add(const Plane& a, const Plane& b);
  // `op`: MaxPool (padded with -inf), AveragePool (never padded); square windows.
  Plane pool(const char* op, const Plane& x, int64_t size, int64_t stride, Padding padding);
  // Running statistics are the buffers `name`/mean and `name`/var.
  Plane batch_norm(const Plane& x, const std::string& name, float eps);
  Plane group_norm(const Plane& x, const std::string& name, int64_t groups, float eps);

  // Ends the graph with `x` of `shape` (-1: the batch) through the head where there is one, whose
  // logits are multiplied by `logit_scale`, and writes it. Throws Error(Exit::usage) above 2 GiB.
  void write(const std::string& file, Value x, std::vector<int64_t> shape, float logit_scale = 1);

 private:
  const Trained& trained_;
  const ImageSize image_;
  OnnxGraph graph_;
  std::map<float, Value> reals_;
};

}  // namespace bv

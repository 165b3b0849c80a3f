#include "lib/export/onnx_layers.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Padding = OnnxLayers::Padding;

// Windows along one axis of an activation: the padding before and after it, and the number of
// outputs (0 if the activation is too small).
struct AxisWindows {
  int64_t before = 0, after = 0, outputs = 0;
};

AxisWindows axis_windows(int64_t size, int64_t window, int64_t stride, Padding padding) {
  AxisWindows made;
  if (padding == Padding::symmetric) {
    made.before = made.after = (window - 1) / 2;
  } else if (padding == Padding::same) {
    const int64_t steps = (size + stride - 1) / stride - 1;
    const int64_t total = std::max<int64_t>(steps * stride + window - size, 0);
    made.before = total / 2;
    made.after = total - made.before;
  }
  const int64_t room = size + made.before + made.after - window;
  made.outputs = room < 0 ? 0 : room / stride + 1;
  return made;
}

// Windows over the rows and columns of an activation, and the ONNX attributes that describe them.
struct Windows {
  AxisWindows rows, columns;
  std::vector<OnnxGraph::Attribute> attributes;
};

Windows windows(const OnnxLayers::Plane& x, const std::vector<int64_t>& size,
                const std::vector<int64_t>& strides, Padding padding, const std::string& origin) {
  Windows made = {axis_windows(x.height, size[0], strides[0], padding),
                  axis_windows(x.width, size[1], strides[1], padding),
                  {}};
  if (made.rows.outputs < 1 || made.columns.outputs < 1) {
    throw Error(Exit::usage, origin,
                fmt::format("windows of {}x{} leave nothing of {}x{}: the images are too small",
                            size[0], size[1], x.height, x.width));
  }
  const std::vector<int64_t> pads = {made.rows.before, made.columns.before, made.rows.after,
                                     made.columns.after};
  made.attributes = {OnnxGraph::attribute("kernel_shape", size),
                     OnnxGraph::attribute("strides", strides), OnnxGraph::attribute("pads", pads)};
  return made;
}

}  // namespace

OnnxLayers::OnnxLayers(const TrainedModel& trained, const ImageSize& image)
    : trained_(trained),
      image_(image),
      graph_("image", {-1, image.height, image.width, image.channels}) {}

OnnxLayers::Value OnnxLayers::parameter(const std::string& name, at::IntArrayRef view) {
  const at::Tensor& value = tensor(name);
  if (view.empty()) return graph_.constant(name, value);
  if (c10::multiply_integers(view) != value.numel()) {
    throw Error(Exit::usage, trained_.origin,
                fmt::format("{} has shape {}, expected {}", name, shape_text(value.sizes()),
                            shape_text(view)));
  }
  return graph_.constant(name, value.reshape(view));
}

OnnxLayers::Value OnnxLayers::real(float value) {
  const auto [place, added] = reals_.try_emplace(value);
  if (added) place->second = graph_.real(value);
  return place->second;
}

OnnxLayers::Value OnnxLayers::transpose(const Value& x, std::vector<int64_t> order) {
  return graph_.node("Transpose", {x}, {OnnxGraph::attribute("perm", std::move(order))});
}

OnnxLayers::Value OnnxLayers::reshape(const Value& x, const std::vector<int64_t>& shape) {
  return graph_.node("Reshape", {x, graph_.integers(shape)});
}

OnnxLayers::Value OnnxLayers::reduce(const char* op, const Value& x, std::vector<int64_t> axes) {
  return graph_.node(op, {x},
                     {OnnxGraph::attribute("axes", std::move(axes)),
                      OnnxGraph::attribute("keepdims", int64_t{0})});
}

OnnxLayers::Value OnnxLayers::dense(const Value& x, const std::string& name, int64_t features) {
  const at::Tensor& kernel = tensor(name + "/kernel");
  const int64_t out = tensor(name + "/bias").numel();
  if (kernel.numel() != features * out) {
    throw Error(Exit::usage, trained_.origin,
                fmt::format("{} takes {} features, but images of {}x{} give {}", name,
                            kernel.numel() / std::max<int64_t>(out, 1), image_.height, image_.width,
                            features));
  }
  const Value product = graph_.node("MatMul", {x, parameter(name + "/kernel", {features, out})});
  return add(product, parameter(name + "/bias", {out}));
}

OnnxLayers::Value OnnxLayers::layer_norm(const Value& x, const std::string& name) {
  return graph_.node(
      "LayerNormalization", {x, parameter(name + "/scale"), parameter(name + "/bias")},
      {OnnxGraph::attribute("axis", int64_t{-1}), OnnxGraph::attribute("epsilon", 1e-6F)});
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
OnnxLayers::Value OnnxLayers::gelu(const Value& x) {
  const Value cube = multiply(multiply(x, x), x);
  const Value scale = real(static_cast<float>(std::sqrt(2 / std::acos(-1.0))));
  const Value inner = multiply(add(x, multiply(cube, real(0.044715F))), scale);
  const Value gate = add(graph_.node("Tanh", {inner}), real(1));
  return multiply(multiply(x, real(0.5F)), gate);
}

OnnxLayers::Value OnnxLayers::mlp(const Value& x, const std::string& name, int64_t features) {
  const Value hidden = gelu(dense(x, name + "/Dense_0", features));
  return dense(hidden, name + "/Dense_1", tensor(name + "/Dense_0/bias").numel());
}

OnnxLayers::Plane OnnxLayers::image() {
  return {transpose(graph_.input(), {0, 3, 1, 2}), image_.channels, image_.height, image_.width};
}

OnnxLayers::Plane OnnxLayers::conv(const Plane& x, const std::string& name,
                                   const at::Tensor& kernel, const std::vector<int64_t>& strides,
                                   Padding padding, Bias bias) {
  const Windows made =
      windows(x, {kernel.size(0), kernel.size(1)}, strides, padding, trained_.origin);
  std::vector<Value> inputs = {x.value,
                               graph_.constant(name + "/kernel", kernel.permute({3, 2, 0, 1}))};
  if (bias == Bias::added) inputs.push_back(parameter(name + "/bias"));
  return {graph_.node("Conv", inputs, made.attributes), kernel.size(3), made.rows.outputs,
          made.columns.outputs};
}

OnnxLayers::Plane OnnxLayers::relu(const Plane& x) {
  return {graph_.node("Relu", {x.value}), x.channels, x.height, x.width};
}

OnnxLayers::Plane OnnxLayers::add(const Plane& a, const Plane& b) {
  return {add(a.value, b.value), a.channels, a.height, a.width};
}

OnnxLayers::Plane OnnxLayers::pool(const char* op, const Plane& x, int64_t size, int64_t stride,
                                   Padding padding) {
  const Windows made = windows(x, {size, size}, {stride, stride}, padding, trained_.origin);
  return {graph_.node(op, {x.value}, made.attributes), x.channels, made.rows.outputs,
          made.columns.outputs};
}

OnnxLayers::Plane OnnxLayers::batch_norm(const Plane& x, const std::string& name, float eps) {
  std::vector<Value> inputs = {x.value, parameter(name + "/scale"), parameter(name + "/bias")};
  for (const char* statistic : {"/mean", "/var"}) {
    inputs.push_back(graph_.constant(name + statistic, trained_buffer(trained_, name + statistic)));
  }
  return {graph_.node("BatchNormalization", inputs, {OnnxGraph::attribute("epsilon", eps)}),
          x.channels, x.height, x.width};
}

// Opset 17 has no group normalization, so this is an instance normalization of (n, groups, ...).
OnnxLayers::Plane OnnxLayers::group_norm(const Plane& x, const std::string& name, int64_t groups,
                                         float eps) {
  const Value normal = graph_.node(
      "InstanceNormalization",
      {reshape(x.value, {0, groups, -1}), graph_.constant(name + "/ones", at::ones({groups})),
       graph_.constant(name + "/zeros", at::zeros({groups}))},
      {OnnxGraph::attribute("epsilon", eps)});
  const Value y = reshape(normal, {0, x.channels, x.height, x.width});
  const Value scaled = multiply(y, parameter(name + "/scale", {x.channels, 1, 1}));
  return {add(scaled, parameter(name + "/bias", {x.channels, 1, 1})), x.channels, x.height,
          x.width};
}

void OnnxLayers::write(const std::string& file, Value x, std::vector<int64_t> shape,
                       float logit_scale) {
  const bool head = has("head/kernel");
  if (head) {
    x = dense(x, "head", shape.back());
    if (logit_scale != 1) x = multiply(x, real(logit_scale));
    shape.back() = tensor("head/bias").numel();
  }
  Metadata about = metadata_of(trained_);
  about["input"] = "image: (n, height, width, channels) float32, after preprocessing";
  graph_.write(file, x, head ? "logits" : "pre_logits", shape, about);
}

}  // namespace bv

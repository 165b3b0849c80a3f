// vit as an ONNX graph (reference 9.1), float32 throughout: image (n, height, width, channels) in,
// as `bvtrain predict` takes it, logits (n, classes) out, pre_logits where there is no head.
#include <cmath>

#include "lib/train/export/onnx_file.h"
#include "lib/train/export/vit_weights.h"

namespace bv {
namespace {

constexpr float kEps = 1e-6F;

class VitGraph {
 public:
  explicit VitGraph(const VitWeights& vit)
      : vit_(vit),
        graph_("image", {-1, vit.image_height, vit.image_width, vit.channels}),
        tokens_(vit.grid_height * vit.grid_width + (vit.pool == "tok" ? 1 : 0)),
        scale_(graph_.real(1.0F / std::sqrt(static_cast<float>(vit.width / vit.heads)))),
        half_(graph_.real(0.5F)),
        one_(graph_.real(1)),
        cubic_(graph_.real(0.044715F)),
        tanh_scale_(graph_.real(static_cast<float>(std::sqrt(2 / std::acos(-1.0))))),
        split_shape_(graph_.integers({0, -1, vit.heads, vit.width / vit.heads})),
        merged_shape_(graph_.integers({0, -1, vit.width})) {}

  void write(const std::string& file);

 private:
  using Value = std::string;

  // A parameter, in the shape `view` where given.
  Value parameter(const std::string& name, at::IntArrayRef view = {}) {
    const at::Tensor& value = vit_.params.at(name);
    return graph_.constant(name, view.empty() ? value : value.reshape(view));
  }
  Value add(const Value& a, const Value& b) { return graph_.node("Add", {a, b}); }
  Value multiply(const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); }
  Value transpose(const Value& x, std::vector<int64_t> order) {
    return graph_.node("Transpose", {x}, {OnnxGraph::attribute("perm", std::move(order))});
  }
  // x K + b over the last axis; kernels of attention are flattened to (in, out).
  Value dense(const Value& x, const std::string& name, int64_t in, int64_t out) {
    const Value product = graph_.node("MatMul", {x, parameter(name + "/kernel", {in, out})});
    return add(product, parameter(name + "/bias", {out}));
  }
  Value norm(const Value& x, const std::string& name) {
    return graph_.node(
        "LayerNormalization", {x, parameter(name + "/scale"), parameter(name + "/bias")},
        {OnnxGraph::attribute("axis", int64_t{-1}), OnnxGraph::attribute("epsilon", kEps)});
  }
  Value embed();
  Value gelu(const Value& x);
  Value heads(const Value& x, const std::string& name, std::vector<int64_t> order);
  Value attention(const Value& queries, const Value& tokens, const std::string& name);
  Value mlp(const Value& x, const std::string& name);
  Value pool(const Value& encoded);
  Value first_token(const Value& x) {
    return graph_.node("Gather", {x, graph_.integer(0)},
                       {OnnxGraph::attribute("axis", int64_t{1})});
  }

  const VitWeights& vit_;
  OnnxGraph graph_;
  const int64_t tokens_;
  const Value scale_, half_, one_, cubic_, tanh_scale_, split_shape_, merged_shape_;
};

// (n, tokens, D)
VitGraph::Value VitGraph::embed() {
  const at::Tensor kernel = vit_.params.at("embedding/kernel").permute({3, 2, 0, 1});
  const Value stem =
      graph_.node("Conv",
                  {transpose(graph_.input(), {0, 3, 1, 2}),
                   graph_.constant("embedding/kernel", kernel), parameter("embedding/bias")},
                  {OnnxGraph::attribute("kernel_shape", {vit_.patch_height, vit_.patch_width}),
                   OnnxGraph::attribute("strides", {vit_.patch_height, vit_.patch_width})});
  const Value rows = graph_.node("Reshape", {stem, graph_.integers({0, vit_.width, -1})});
  const Value x = add(transpose(rows, {0, 2, 1}), graph_.constant("pos_embedding", vit_.positions));
  if (vit_.pool != "tok") return x;
  const Value n = graph_.node(
      "Shape", {x},
      {OnnxGraph::attribute("start", int64_t{0}), OnnxGraph::attribute("end", int64_t{1})});
  const Value shape = graph_.node("Concat", {n, graph_.integers({1, vit_.width})},
                                  {OnnxGraph::attribute("axis", int64_t{0})});
  const Value cls = graph_.node("Expand", {parameter("cls"), shape});
  return graph_.node("Concat", {cls, x}, {OnnxGraph::attribute("axis", int64_t{1})});
}

// The tanh form: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
VitGraph::Value VitGraph::gelu(const Value& x) {
  const Value cube = multiply(multiply(x, x), x);
  const Value inner = multiply(add(x, multiply(cube, cubic_)), tanh_scale_);
  const Value gate = add(graph_.node("Tanh", {inner}), one_);
  return multiply(multiply(x, half_), gate);
}

// (n, l, D) to (n, l, H, D/H), its axes in `order`.
VitGraph::Value VitGraph::heads(const Value& x, const std::string& name,
                                std::vector<int64_t> order) {
  const Value all = dense(x, name, vit_.width, vit_.width);
  return transpose(graph_.node("Reshape", {all, split_shape_}), std::move(order));
}

VitGraph::Value VitGraph::attention(const Value& queries, const Value& tokens,
                                    const std::string& name) {
  const Value q = multiply(heads(queries, name + "/query", {0, 2, 1, 3}), scale_);
  const Value k = heads(tokens, name + "/key", {0, 2, 3, 1});
  const Value v = heads(tokens, name + "/value", {0, 2, 1, 3});
  const Value weights = graph_.node("Softmax", {graph_.node("MatMul", {q, k})},
                                    {OnnxGraph::attribute("axis", int64_t{-1})});
  const Value mixed = transpose(graph_.node("MatMul", {weights, v}), {0, 2, 1, 3});
  const Value merged = graph_.node("Reshape", {mixed, merged_shape_});
  return dense(merged, name + "/out", vit_.width, vit_.width);
}

VitGraph::Value VitGraph::mlp(const Value& x, const std::string& name) {
  const Value hidden = gelu(dense(x, name + "/Dense_0", vit_.width, vit_.mlp));
  return dense(hidden, name + "/Dense_1", vit_.mlp, vit_.width);
}

// (n, D); `none`: as it is
VitGraph::Value VitGraph::pool(const Value& encoded) {
  if (vit_.pool == "none") return encoded;
  if (vit_.pool == "gap") {
    return graph_.node("ReduceMean", {encoded},
                       {OnnxGraph::attribute("axes", std::vector<int64_t>{1}),
                        OnnxGraph::attribute("keepdims", int64_t{0})});
  }
  if (vit_.pool != "map") return first_token(encoded);
  const Value x =
      attention(parameter("MAPHead_0/probe"), encoded, "MAPHead_0/MultiHeadDotProductAttention_0");
  return first_token(add(x, mlp(norm(x, "MAPHead_0/LayerNorm_0"), "MAPHead_0/MlpBlock_0")));
}

void VitGraph::write(const std::string& file) {
  Value x = embed();
  for (int64_t i = 0; i < vit_.depth; ++i) {
    const std::string block = fmt::format("Transformer/encoderblock_{}", i);
    const Value y = norm(x, block + "/LayerNorm_0");
    x = add(x, attention(y, y, block + "/MultiHeadDotProductAttention_0"));
    x = add(x, mlp(norm(x, block + "/LayerNorm_1"), block + "/MlpBlock_0"));
  }
  x = pool(norm(x, "Transformer/encoder_norm"));
  int64_t features = vit_.width;
  if (vit_.rep_size > 0) {
    x = graph_.node("Tanh", {dense(x, "pre_logits", features, vit_.rep_size)});
    features = vit_.rep_size;
  }
  if (vit_.classes > 0) {
    x = dense(x, "head", features, vit_.classes);
    features = vit_.classes;
  }
  std::vector<int64_t> shape = {-1, features};
  if (vit_.pool == "none") shape = {-1, tokens_, features};
  graph_.write(file, x, vit_.classes > 0 ? "logits" : "pre_logits", shape,
               {{"input", "image: (n, height, width, channels) float32, after preprocessing"}});
}

}  // namespace

void export_onnx(const VitWeights& vit, const std::string& output) { VitGraph(vit).write(output); }

}  // namespace bv

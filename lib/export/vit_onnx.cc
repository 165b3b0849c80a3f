// Writes a vit (models/vit.cc) as an ONNX graph, for onnx/vit.cc and onnx/flexi_vit.cc.
#include <cmath>

#include "lib/export/onnx_layers.h"
#include "lib/export/vit_weights.h"

namespace bv {
namespace {

class VitGraph {
 public:
  explicit VitGraph(const VitWeights& vit)
      : vit_(vit),
        net_(vit.trained, vit.image),
        tokens_(vit.grid_height * vit.grid_width + (vit.pool == "tok" ? 1 : 0)) {}

  void write(const std::string& file);

 private:
  using Value = OnnxLayers::Value;

  Value embed();
  Value heads(const Value& x, const std::string& name, std::vector<int64_t> order);
  Value attention(const Value& queries, const Value& tokens, const std::string& name);
  Value mlp(const Value& x, const std::string& name) { return net_.mlp(x, name, vit_.width); }
  Value pool(const Value& encoded);
  Value first_token(const Value& x) {
    return net_.graph().node("Gather", {x, net_.graph().integer(0)},
                             {OnnxGraph::attribute("axis", int64_t{1})});
  }

  const VitWeights& vit_;
  OnnxLayers net_;
  const int64_t tokens_;
};

// (n, tokens, D)
VitGraph::Value VitGraph::embed() {
  const OnnxLayers::Plane stem = net_.conv(
      net_.image(), "embedding", net_.tensor("embedding/kernel"),
      {vit_.patch_height, vit_.patch_width}, OnnxLayers::Padding::valid, OnnxLayers::Bias::added);
  const Value rows = net_.reshape(stem.value, {0, vit_.width, -1});
  const Value x = net_.add(net_.transpose(rows, {0, 2, 1}),
                           net_.graph().constant("pos_embedding", vit_.positions));
  if (vit_.pool != "tok") return x;
  const Value n = net_.graph().node(
      "Shape", {x},
      {OnnxGraph::attribute("start", int64_t{0}), OnnxGraph::attribute("end", int64_t{1})});
  const Value shape = net_.graph().node("Concat", {n, net_.graph().integers({1, vit_.width})},
                                        {OnnxGraph::attribute("axis", int64_t{0})});
  const Value cls = net_.graph().node("Expand", {net_.parameter("cls"), shape});
  return net_.graph().node("Concat", {cls, x}, {OnnxGraph::attribute("axis", int64_t{1})});
}

// Projects (n, l, D) to (n, l, H, D/H), with the axes transposed to `order`.
VitGraph::Value VitGraph::heads(const Value& x, const std::string& name,
                                std::vector<int64_t> order) {
  const Value all = net_.dense(x, name, vit_.width);
  const Value split = net_.reshape(all, {0, -1, vit_.heads, vit_.width / vit_.heads});
  return net_.transpose(split, std::move(order));
}

VitGraph::Value VitGraph::attention(const Value& queries, const Value& tokens,
                                    const std::string& name) {
  const int64_t head_width = vit_.width / vit_.heads;
  const Value scale = net_.real(1.0F / std::sqrt(static_cast<float>(head_width)));
  const Value q = net_.multiply(heads(queries, name + "/query", {0, 2, 1, 3}), scale);
  const Value k = heads(tokens, name + "/key", {0, 2, 3, 1});
  const Value v = heads(tokens, name + "/value", {0, 2, 1, 3});
  const Value weights = net_.graph().node("Softmax", {net_.graph().node("MatMul", {q, k})},
                                          {OnnxGraph::attribute("axis", int64_t{-1})});
  const Value mixed = net_.transpose(net_.graph().node("MatMul", {weights, v}), {0, 2, 1, 3});
  return net_.dense(net_.reshape(mixed, {0, -1, vit_.width}), name + "/out", vit_.width);
}

// Returns (n, D), or the input if the model does not pool.
VitGraph::Value VitGraph::pool(const Value& encoded) {
  if (vit_.pool == "none") return encoded;
  if (vit_.pool == "gap") return net_.reduce("ReduceMean", encoded, {1});
  if (vit_.pool != "map") return first_token(encoded);
  const Value x = attention(net_.parameter("MAPHead_0/probe"), encoded,
                            "MAPHead_0/MultiHeadDotProductAttention_0");
  const Value y = mlp(net_.layer_norm(x, "MAPHead_0/LayerNorm_0"), "MAPHead_0/MlpBlock_0");
  return first_token(net_.add(x, y));
}

void VitGraph::write(const std::string& file) {
  Value x = embed();
  for (int64_t i = 0; i < vit_.depth; ++i) {
    const std::string block = fmt::format("Transformer/encoderblock_{}", i);
    const Value y = net_.layer_norm(x, block + "/LayerNorm_0");
    x = net_.add(x, attention(y, y, block + "/MultiHeadDotProductAttention_0"));
    x = net_.add(x, mlp(net_.layer_norm(x, block + "/LayerNorm_1"), block + "/MlpBlock_0"));
  }
  x = pool(net_.layer_norm(x, "Transformer/encoder_norm"));
  int64_t features = vit_.width;
  if (vit_.rep_size > 0) {
    x = net_.graph().node("Tanh", {net_.dense(x, "pre_logits", features)});
    features = vit_.rep_size;
  }
  std::vector<int64_t> shape = {-1, features};
  if (vit_.pool == "none") shape = {-1, tokens_, features};
  net_.write(file, x, shape);
}

}  // namespace

void write_vit_onnx(const VitWeights& vit, const std::string& output) {
  VitGraph(vit).write(output);
}

}  // namespace bv

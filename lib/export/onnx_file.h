// ONNX files: a graph built node by node and written as protobuf, without a dependency.
// Format: onnx/onnx.proto, IR version 8, default domain, opset 17.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bv {

// A graph with one float32 input and one float32 output. Values are known by name; those that are
// computed are numbered after the operator that made them.
class OnnxGraph {
 public:
  // -1 in a shape: the batch's size, free.
  OnnxGraph(std::string input, std::vector<int64_t> input_shape);

  struct Attribute {
    std::string name;
    enum class Kind { integer, real, integers } kind = Kind::integer;
    int64_t integer = 0;
    float real = 0;
    std::vector<int64_t> integers;
  };
  static Attribute attribute(std::string name, int64_t value);
  static Attribute attribute(std::string name, float value);
  static Attribute attribute(std::string name, std::vector<int64_t> values);

  // Adds a node with one output, whose name it returns.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {});
  // A constant: float32 values of any shape, or a list of int64 (a shape, an index). Returns its
  // name; equal names are refused (check()).
  std::string constant(const std::string& name, const at::Tensor& values);
  std::string integers(const std::vector<int64_t>& values);  // shape (n)
  std::string integer(int64_t value);                        // shape ()
  std::string real(float value);                             // shape ()

  const std::string& input() const { return input_; }

  // Ends the graph with `value` as its output `name` of `shape` and writes it. `metadata` are
  // strings for whoever reads the file. Throws Error(Exit::usage) above 2 GiB, which is
  // protobuf's limit, and Error(Exit::storage).
  void write(const std::string& file, const std::string& value, const std::string& name,
             const std::vector<int64_t>& shape,
             const std::vector<std::pair<std::string, std::string>>& metadata);

 private:
  void add_constant(const std::string& name, int type, const std::vector<int64_t>& shape,
                    const void* data, size_t bytes);

  const std::string input_;
  const std::vector<int64_t> input_shape_;
  std::string nodes_;      // fields `node` of GraphProto
  std::string constants_;  // fields `initializer`
  std::vector<std::string> names_;
  int count_ = 0;
};

}  // namespace bv

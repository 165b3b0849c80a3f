// Builds an ONNX graph node by node and writes it as protobuf, without the ONNX or protobuf
// libraries. Format: onnx/onnx.proto of github.com/onnx/onnx, IR version 8, default domain,
// opset 17.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bv {

// A graph with one float32 input and one float32 output. Values are strings: the names of the
// input, of constants and of the outputs of nodes ("Conv_12").
class OnnxGraph {
 public:
  // A size of -1 in a shape is the batch size, which is left open.
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

  // Adds a node with one output and returns the name of the output.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {});
  // Add a constant and return its name. `name` must be new in the graph.
  std::string constant(const std::string& name, const at::Tensor& values);  // float32, any shape
  std::string integers(const std::vector<int64_t>& values);                 // int64 (n)
  std::string integer(int64_t value);                                       // int64 ()
  std::string real(float value);                                            // float32 ()

  const std::string& input() const { return input_; }

  // Makes `value` the output of the graph, with this name and shape, and writes the file. Call it
  // once. `metadata` becomes the metadata_props of the ModelProto. Throws Error(Exit::usage) above
  // 2 GiB, which is protobuf's limit, and Error(Exit::storage) if writing fails.
  void write(const std::string& file, const std::string& value, const std::string& name,
             const std::vector<int64_t>& shape, const std::map<std::string, std::string>& metadata);

 private:
  void add_constant(const std::string& name, int type, const std::vector<int64_t>& shape,
                    const void* data, size_t bytes);

  const std::string input_;
  const std::vector<int64_t> input_shape_;
  std::string nodes_;               // encoded fields `node` of GraphProto
  std::string constants_;           // encoded fields `initializer`
  std::vector<std::string> names_;  // of all values
  int count_ = 0;                   // number of the next value
};

}  // namespace bv

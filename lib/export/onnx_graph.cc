#include "lib/export/onnx_graph.h"

#include <algorithm>

#include "lib/ckpt/file_writer.h"
#include "lib/util/error.h"
#include "lib/util/protobuf.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using protobuf::put_bytes;
using protobuf::put_bytes_header;
using protobuf::put_float;
using protobuf::put_integer;

constexpr int64_t kIrVersion = 8, kOpset = 17;
constexpr uint64_t kMaxBytes = (uint64_t{1} << 31) - 1;
constexpr int kFloat = 1, kInt64 = 7;  // TensorProto.DataType

// Returns the ValueInfoProto of a float tensor.
std::string value_info(const std::string& name, const std::vector<int64_t>& shape) {
  std::string dims;  // TensorShapeProto
  for (const int64_t size : shape) {
    std::string dim;
    if (size < 0)
      put_bytes(dim, 2, "n");
    else
      put_integer(dim, 1, size);
    put_bytes(dims, 1, dim);
  }
  std::string tensor, type, info;
  put_integer(tensor, 1, kFloat);
  put_bytes(tensor, 2, dims);
  put_bytes(type, 1, tensor);
  put_bytes(info, 1, name);
  put_bytes(info, 2, type);
  return info;
}

std::string attribute_proto(const OnnxGraph::Attribute& attribute) {
  using Kind = OnnxGraph::Attribute::Kind;
  std::string out;
  put_bytes(out, 1, attribute.name);
  switch (attribute.kind) {
    case Kind::real:
      put_float(out, 2, attribute.real);
      put_integer(out, 20, 1);
      break;
    case Kind::integer:
      put_integer(out, 3, attribute.integer);
      put_integer(out, 20, 2);
      break;
    case Kind::integers:
      for (const int64_t value : attribute.integers) put_integer(out, 8, value);
      put_integer(out, 20, 7);
      break;
  }
  return out;
}

}  // namespace

OnnxGraph::OnnxGraph(std::string input, std::vector<int64_t> input_shape)
    : input_(std::move(input)), input_shape_(std::move(input_shape)), names_({input_}) {}

OnnxGraph::Attribute OnnxGraph::attribute(std::string name, int64_t value) {
  return {std::move(name), Attribute::Kind::integer, value, 0, {}};
}
OnnxGraph::Attribute OnnxGraph::attribute(std::string name, float value) {
  return {std::move(name), Attribute::Kind::real, 0, value, {}};
}
OnnxGraph::Attribute OnnxGraph::attribute(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::integers, 0, 0, std::move(values)};
}

std::string OnnxGraph::node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<Attribute>& attributes) {
  const std::string output = fmt::format("{}_{}", op, count_++);
  std::string out;
  for (const std::string& input : inputs) {
    check(std::find(names_.begin(), names_.end(), input) != names_.end(),
          "unknown value '{}' as input of a node {}", input, op);
    put_bytes(out, 1, input);
  }
  put_bytes(out, 2, output);
  put_bytes(out, 3, output);
  put_bytes(out, 4, op);
  for (const Attribute& attribute : attributes) put_bytes(out, 5, attribute_proto(attribute));
  put_bytes(nodes_, 1, out);
  names_.push_back(output);
  return output;
}

void OnnxGraph::add_constant(const std::string& name, int type, const std::vector<int64_t>& shape,
                             const void* data, size_t bytes) {
  check(std::find(names_.begin(), names_.end(), name) == names_.end(), "two values are named '{}'",
        name);
  names_.push_back(name);
  std::string head;  // the TensorProto up to its data
  for (const int64_t size : shape) put_integer(head, 1, size);
  put_integer(head, 2, type);
  put_bytes(head, 8, name);
  put_bytes_header(head, 9, bytes);
  put_bytes_header(constants_, 5, head.size() + bytes);
  constants_ += head;
  constants_.append(static_cast<const char*>(data), bytes);
}

std::string OnnxGraph::constant(const std::string& name, const at::Tensor& values) {
  const at::Tensor dense = values.detach().to(at::kFloat).contiguous();
  add_constant(name, kFloat, dense.sizes().vec(), dense.const_data_ptr<float>(), dense.nbytes());
  return name;
}

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  const std::string name = fmt::format("integers_{}", count_++);
  add_constant(name, kInt64, {static_cast<int64_t>(values.size())}, values.data(),
               values.size() * sizeof(int64_t));
  return name;
}

std::string OnnxGraph::integer(int64_t value) {
  const std::string name = fmt::format("integer_{}", count_++);
  add_constant(name, kInt64, {}, &value, sizeof(value));
  return name;
}

std::string OnnxGraph::real(float value) {
  const std::string name = fmt::format("real_{}", count_++);
  add_constant(name, kFloat, {}, &value, sizeof(value));
  return name;
}

void OnnxGraph::write(const std::string& file, const std::string& value, const std::string& name,
                      const std::vector<int64_t>& shape,
                      const std::map<std::string, std::string>& metadata) {
  std::string out;  // a final node, which names the output
  put_bytes(out, 1, value);
  put_bytes(out, 2, name);
  put_bytes(out, 4, "Identity");
  put_bytes(nodes_, 1, out);

  std::string ends;  // the fields of GraphProto after nodes and constants
  put_bytes(ends, 2, "bvtrain");
  put_bytes(ends, 11, value_info(input_, input_shape_));
  put_bytes(ends, 12, value_info(name, shape));
  std::string head;  // the ModelProto up to its graph
  put_integer(head, 1, kIrVersion);
  put_bytes(head, 2, "bvtrain");
  std::string opset;
  put_integer(opset, 2, kOpset);
  put_bytes(head, 8, opset);
  for (const auto& [key, text] : metadata) {
    std::string entry;
    put_bytes(entry, 1, key);
    put_bytes(entry, 2, text);
    put_bytes(head, 14, entry);
  }
  const uint64_t graph = nodes_.size() + constants_.size() + ends.size();
  put_bytes_header(head, 7, graph);
  if (head.size() + graph > kMaxBytes) {
    throw Error(Exit::usage, file,
                fmt::format("the model takes {}, more than an ONNX file can hold (2 GiB); "
                            "safetensors holds it",
                            human_bytes(static_cast<double>(graph))));
  }
  replace_file(file, [&](FileWriter& writer) {
    writer.write(head);
    writer.write(nodes_);
    writer.write(constants_);
    writer.write(ends);
  });
}

}  // namespace bv

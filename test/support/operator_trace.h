// Lists operator calls: their names, and the shapes, types and numbers of their arguments. Tensor
// values are left out.
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <vector>

namespace bv::test {

// Lists the calls of its thread while it exists. Only one may exist at a time. Other threads are
// left out, because CPU kernels call operators there in any order.
class OperatorTrace {
 public:
  OperatorTrace();
  ~OperatorTrace();
  OperatorTrace(const OperatorTrace&) = delete;
  // Returns a line for each call: "aten::mul (4, 7) Float (7) Float", "aten::fill_ () Float 0.25".
  const std::vector<std::string>& lines() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace bv::test

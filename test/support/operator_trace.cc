// LibTorch is built with NDEBUG; see host_reads.cc.
#define NDEBUG

#include "test/support/operator_trace.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <memory>
#include <thread>

namespace bv::test {
namespace {

std::vector<std::string> g_lines;
std::thread::id g_thread;

std::string operand_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("({}) {}", fmt::join(tensor.sizes(), ", "),
                     c10::toString(tensor.scalar_type()));
}

std::string operand_text(const c10::IValue& value) {
  if (value.isTensor()) return operand_text(value.toTensor());
  if (value.isDouble()) return fmt::format("{:a}", value.toDouble());
  if (value.isInt()) return fmt::format("{}", value.toInt());
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isIntList()) return fmt::format("{}", fmt::join(value.toIntVector(), ","));
  if (value.isTensorList()) {
    std::string all;
    for (const at::Tensor& tensor : value.toTensorVector()) all += operand_text(tensor) + "; ";
    return all;
  }
  return value.tagKind();
}

std::unique_ptr<at::ObserverContext> trace_operator(const at::RecordFunction& call) {
  if (std::this_thread::get_id() != g_thread) return nullptr;
  std::string line = call.name();
  for (const c10::IValue& value : call.inputs()) line += " " + operand_text(value);
  g_lines.push_back(std::move(line));
  return nullptr;
}

}  // namespace

OperatorTrace::OperatorTrace() {
  g_lines.clear();
  g_thread = std::this_thread::get_id();
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(trace_operator)
                                      .needsInputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

OperatorTrace::~OperatorTrace() { at::removeCallback(handle_); }

const std::vector<std::string>& OperatorTrace::lines() const { return g_lines; }

}  // namespace bv::test

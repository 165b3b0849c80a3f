// LibTorch is built with NDEBUG. Without it, RecordFunction::inputs() checks a flag that only a
// LibTorch built without it sets.
#define NDEBUG

#include "test/support/host_reads.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <string_view>

namespace bv::test {
namespace {

std::atomic<int> g_count{0};

bool waits(const at::Tensor& from, const at::Tensor& to) {
  if (!from.defined() || !to.defined() || from.device().type() == to.device().type()) return false;
  return to.is_cpu() || (from.is_cpu() && !from.is_pinned());
}

std::unique_ptr<at::ObserverContext> count_host_read(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  bool seen = name == "aten::item" || name == "aten::_local_scalar_dense" ||
              name == "aten::is_nonzero" || name == "aten::equal" || name == "aten::nonzero";
  // All copies end in copy_(self, src, non_blocking): to(), cpu() and cuda() call _to_copy(), which
  // copies into a new tensor.
  if (name == "aten::copy_" && call.inputs().size() >= 2) {
    const c10::IValue &to = call.inputs()[0], &from = call.inputs()[1];
    seen = to.isTensor() && from.isTensor() && waits(from.toTensor(), to.toTensor());
  }
  if (seen) ++g_count;
  return nullptr;
}

}  // namespace

HostReads::HostReads() {
  g_count = 0;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(count_host_read)
                                      .needsInputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

HostReads::~HostReads() { at::removeCallback(handle_); }

int HostReads::count() const { return g_count; }

}  // namespace bv::test

// The emulated GPU's record of pinned host memory.
#pragma once

#include <cstddef>

namespace bv::emulation {

void pin(void* memory, size_t bytes);
void unpin(void* memory);
bool is_pinned(const void* address);

}  // namespace bv::emulation

#pragma once

#include <c10/core/MemoryFormat.h>

namespace bv {

inline constexpr auto kChannelsLast = c10::MemoryFormat::ChannelsLast;

}  // namespace bv

// A row of metrics: what one step measured.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bv {

// Receives a measurement: anything that can be called with (name, value).
using Measure = std::function<void(std::string_view name, double value)>;

// Names and values in the order in which they were measured.
using Row = std::vector<std::pair<std::string, double>>;

}  // namespace bv

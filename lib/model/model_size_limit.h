// A limit to the size of a model that is built for weights from anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace bv {

// While an object of this class exists, this thread builds no model that is far too large for
// `bytes` bytes of weights: Module::add_parameter() throws Error(Exit::usage) at `origin`, the
// place of the weights. Without the limit, a file of a few hundred bytes could describe a model
// that takes all memory, or hours to build. Each model needs its own object.
class ModelSizeLimit {
 public:
  ModelSizeLimit(uint64_t bytes, std::string origin);
  ~ModelSizeLimit();
  ModelSizeLimit(const ModelSizeLimit&) = delete;
  ModelSizeLimit& operator=(const ModelSizeLimit&) = delete;

  // Counts a parameter of this shape, before it takes memory.
  static void count(std::span<const int64_t> shape);

 private:
  ModelSizeLimit* const outer_;
  const uint64_t bytes_;
  const std::string origin_;
  uint64_t parameters_ = 0, values_ = 0;  // so far
};

}  // namespace bv

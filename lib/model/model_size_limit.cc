#include "lib/model/model_size_limit.h"

#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

thread_local ModelSizeLimit* size_limit = nullptr;

}  // namespace

ModelSizeLimit::ModelSizeLimit(uint64_t bytes, std::string origin)
    : outer_(size_limit), bytes_(bytes), origin_(std::move(origin)) {
  size_limit = this;
}

ModelSizeLimit::~ModelSizeLimit() { size_limit = outer_; }

void ModelSizeLimit::count(std::span<const int64_t> shape) {
  ModelSizeLimit* const limit = size_limit;
  if (limit == nullptr) return;
  const uint64_t most = limit->bytes_ + limits::kMoreModelValues;
  bool fits = ++limit->parameters_ <= limits::kModelParameters;
  uint64_t values = 1;
  for (const int64_t side : shape) {
    fits = fits && side >= 0 && (side == 0 || values <= most / static_cast<uint64_t>(side));
    if (fits) values *= static_cast<uint64_t>(side);
  }
  if (fits) limit->values_ += values;
  if (fits && limit->values_ <= most) return;
  throw Error(Exit::usage, limit->origin_,
              fmt::format("its weights take {}, too little for the model that its metadata or the "
                          "config describes",
                          human_bytes(static_cast<double>(limit->bytes_))));
}

}  // namespace bv

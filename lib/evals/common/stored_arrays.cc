#include "lib/evals/common/stored_arrays.h"

#include <cmath>

#include "lib/ckpt/formats/npz.h"
#include "lib/device/dtype_name.h"
#include "lib/input/path.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {

namespace {

uint64_t hash_of(const NamedTensors& arrays) {
  std::string hashes;
  for (const auto& [name, array] : arrays) {
    const at::Tensor dense = array.contiguous();
    const std::string_view bytes(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
    hashes += fmt::format("{} {} {} {:016x}\n", name, dtype_name(dense.scalar_type()),
                          shape_text(dense.sizes()), hash64(bytes));
  }
  return hash64(hashes);
}

}  // namespace

StoredArrays::StoredArrays(const Config& config) : file_(require_path(config, "file")) {}

const NamedTensors& StoredArrays::arrays() {
  if (!arrays_) {
    arrays_ = read_npz(file_);
    content_ = hash_of(*arrays_);
  }
  return *arrays_;
}

bool StoredArrays::has(const std::string& name) { return arrays().contains(name); }

void StoredArrays::refuse(const std::string& why) const { throw Error(Exit::usage, file_, why); }

const at::Tensor& StoredArrays::need(const std::string& name) {
  const auto found = arrays().find(name);
  if (found != arrays().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, array] : arrays()) names.push_back(each);
  refuse(unknown_name_message("array", name, names));
}

at::Tensor StoredArrays::matrix(const std::string& name, bool flatten) {
  at::Tensor array = need(name);
  if (flatten && array.dim() > 2) array = array.flatten(1);
  if (array.dim() != 2 || array.numel() == 0) {
    refuse(fmt::format("array '{}' has shape {}, expected rows of vectors", name,
                       shape_text(array.sizes())));
  }
  array = array.to(at::kDouble).contiguous();
  if (!array.isfinite().all().item<bool>())
    refuse(fmt::format("array '{}' contains nan or inf", name));
  return array;
}

std::optional<at::Tensor> StoredArrays::integers(const std::string& name) {
  if (!has(name)) return std::nullopt;
  const at::Tensor& array = need(name);
  if (array.dim() != 1 || !at::isIntegralType(array.scalar_type(), /*includeBool=*/true)) {
    refuse(fmt::format("array '{}' is {} {}, expected a list of integers", name,
                       dtype_name(array.scalar_type()), shape_text(array.sizes())));
  }
  return array.to(at::kLong).contiguous();
}

std::optional<double> StoredArrays::number(const std::string& name) {
  if (!has(name)) return std::nullopt;
  const at::Tensor& array = need(name);
  const double value = array.numel() == 1 ? array.to(at::kDouble).item<double>() : std::nan("");
  if (!std::isfinite(value)) refuse(fmt::format("array '{}' is not one finite number", name));
  return value;
}

}  // namespace bv

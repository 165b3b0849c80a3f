// npz: the rows of the arrays of an npz file.
//   fname   the file
//   prefix  only arrays whose names begin with it are features, named by the rest of the name:
//           "train/" makes the array "train/image" the feature "image". Default "": all arrays
//
// One split, which is called `train` and `all`. Examples have the arrays' dtypes, except that
// one-dimensional integer arrays become int64, and floating-point arrays whose name begins with
// "label" become float32 and must be finite.
#include "lib/ckpt/npz.h"

#include <algorithm>
#include <cmath>

#include "lib/input/path.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class Npz : public ArraySource {
 public:
  Npz(const Config& config, const SourceEnv& env)
      : fname_(require_path(config, "fname")), prefix_(config.get("prefix", "")) {}

  std::vector<std::string> splits() const override { return {"all", "train"}; }
  // A guess: what the file holds is not known without opening it.
  SyntheticSpec synthetic_spec() const override {
    return {.height = 32, .width = 32, .encoded = false};
  }

 protected:
  Example load(size_t split) const override {
    Example arrays = read_npz(fname_, prefix_);
    if (arrays.empty()) {
      std::vector<std::string> names;
      for (const NpzEntry& entry : list_npz(fname_)) names.push_back(entry.name);
      if (names.size() > 10) {
        names.resize(10);
        names.push_back("...");
      }
      throw Error(Exit::usage, fname_,
                  fmt::format("no array begins with prefix '{}'; there are: {}", prefix_,
                              join(names, ", ")));
    }
    const auto& [first, first_array] = *arrays.begin();
    for (auto& [name, array] : arrays) {
      if (array.dim() == 0) {
        throw Error(
            Exit::usage, fname_,
            fmt::format("array '{}{}' is a single number, not rows of a data set", prefix_, name));
      }
      if (array.size(0) != first_array.size(0)) {
        throw Error(Exit::usage, fname_,
                    fmt::format("array '{}{}' has {} rows, but '{}{}' has {}", prefix_, first,
                                first_array.size(0), prefix_, name, array.size(0)));
      }
      if (array.dim() == 1 && at::isIntegralType(array.scalar_type(), /*includeBool=*/false)) {
        array = array.to(at::kLong);
      }
      if (name.starts_with("label") && at::isFloatingType(array.scalar_type()))
        array = finite_labels(array, prefix_ + name);
    }
    return arrays;
  }

 private:
  // Returns soft labels as float32. A NaN among them would otherwise look like divergence, at
  // whatever step it is used.
  at::Tensor finite_labels(const at::Tensor& labels, const std::string& name) const {
    at::Tensor values = labels.to(at::kFloat).contiguous();
    const float* data = values.const_data_ptr<float>();
    const float* bad = std::find_if_not(data, data + values.numel(),
                                        [](float value) { return std::isfinite(value); });
    if (bad == data + values.numel()) return values;
    throw Error(Exit::usage, fname_,
                fmt::format("array '{}' is {} in row {}", name, *bad,
                            (bad - data) * values.size(0) / values.numel()));
  }

  std::string fname_, prefix_;
};

const Register<Source, Npz> registered("npz");

}  // namespace
}  // namespace bv

// npz: the rows of the arrays of an npz file. Keys: fname; prefix: the arrays whose names begin
// with it are the features, named by the rest ("train/" makes train/image the feature `image`).
//
// One split, `train` (also called `all`). One-dimensional integer arrays become int64.
#include "lib/ckpt/npz.h"

#include "lib/input/array_source.h"
#include "lib/input/path.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class Npz : public ArraySource {
 public:
  Npz(const Config& config, const SourceEnv& env)
      : fname_(need_path(config, "fname")), prefix_(config.get("prefix", "")) {}

  std::vector<std::string> splits() const override { return {"all", "train"}; }
  // What the file holds can't be known without it.
  SyntheticForm synthetic_form() const override {
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
    }
    return arrays;
  }

 private:
  std::string fname_, prefix_;
};

const Register<Source, Npz> registered("npz");

}  // namespace
}  // namespace bv

// A tf.train.Example.
#include "lib/input/sources/common/records/tf_example.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(tf_example) {
  errors_only([&] {
    const TfExample example(bytes_of(input));
    for (const auto& [name, feature] : example.features()) {
      check(example.find(name) != nullptr, "a feature is not found");
      errors_only([&] { feature.bytes(); });
      errors_only([&] { feature.floats(); });
      errors_only([&] { feature.integers(); });
    }
  });
}

}  // namespace bv::test

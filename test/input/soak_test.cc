// A loader that runs for long. For `scripts/dev.sh soak`.
#include <catch2/catch.hpp>

#include "lib/input/loader/loader.h"
#include "test/input/fake_source.h"
#include "test/support/resources.h"

namespace bv::test {

TEST_CASE("a million batches take no more memory than a thousand", "[.][soak]") {
  const auto data = dataset(std::make_shared<FakeSource>(1000));
  LoaderOptions options;
  options.batch_size = 8;
  options.threads = 2;
  Loader loader(data, pipeline("flip_lr|random_crop(4)|value_range(-1, 1)"), options);
  constexpr int64_t kWarmUp = 10'000, kSteps = 1'000'000;
  double memory = 0;
  int64_t descriptors = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    if (step == kWarmUp) {
      memory = resident_mib();
      descriptors = open_descriptors();
    }
    loader.next();
  }
  INFO(memory << " MiB after " << kWarmUp << " batches, " << resident_mib() << " MiB after "
              << kSteps);
  CHECK(resident_mib() < 1.01 * memory);
  CHECK(open_descriptors() == descriptors);
}

}  // namespace bv::test

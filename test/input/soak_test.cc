// A long-running loader does not use more memory, and leaves nothing open.
#include <catch2/catch.hpp>

#include "lib/input/loader/loader.h"
#include "test/input/fake_source.h"
#include "test/support/limits.h"
#include "test/support/resources.h"

namespace bv::test {

namespace {

void check_batches(int64_t warm_up, int64_t batches) {
  const auto data = dataset(std::make_shared<FakeSource>(1000));
  LoaderOptions options;
  options.batch_size = 8;
  options.threads = 2;
  Loader loader(data, pipeline("flip_lr|random_crop(4)|value_range(-1, 1)"), options);
  double memory = 0;
  int64_t descriptors = 0;
  for (int64_t step = 0; step < batches; ++step) {
    if (step == warm_up) {
      memory = resident_mib();
      descriptors = open_descriptors();
    }
    loader.next();
  }
  INFO(memory << " MiB after " << warm_up << " batches, " << resident_mib() << " MiB after "
              << batches);
  if (!kSanitized) CHECK(resident_mib() < 1.01 * memory);
  CHECK(open_descriptors() == descriptors);
}

}  // namespace

TEST_CASE("20,000 batches take no more memory than 2,000") { check_batches(2000, 20'000); }

TEST_CASE("a million batches take no more memory than ten thousand", "[.][soak]") {
  check_batches(10'000, 1'000'000);
}

}  // namespace bv::test

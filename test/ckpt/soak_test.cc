// Memory and open files do not grow with the number of saves. `scripts/dev.sh soak` runs the long
// case: as many saves as a run makes in a day, with one save per minute.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/checkpointer.h"
#include "test/ckpt/support.h"
#include "test/support/limits.h"
#include "test/support/resources.h"

namespace bv::test {

namespace {

void check_saves(int64_t saves) {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  constexpr int64_t kWarmUp = 100;
  double memory = 0;
  int64_t descriptors = 0;
  for (int64_t step = 1; step <= saves; ++step) {
    Snapshot snapshot;
    snapshot.step = step;
    snapshot.tensors["params/kernel"] = at::full({1 << 20}, static_cast<double>(step), at::kFloat);
    snapshot.meta = {{"config", "lr: 0.1"}};
    checkpointer.save(std::move(snapshot), /*keep=*/false);
    checkpointer.drain();  // none is left out
    if (step % 7 == 0) checkpointer.mark_best("", {"val/loss", false, step, 1.0 / step});
    if (step != kWarmUp) continue;
    checkpointer.wait();
    memory = resident_mib();
    descriptors = open_descriptors();
  }
  checkpointer.wait();
  INFO(memory << " MiB after " << kWarmUp << " saves, " << resident_mib() << " MiB after "
              << saves);
  if (!kSanitized) CHECK(resident_mib() < 1.01 * memory);
  CHECK(open_descriptors() == descriptors);
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{saves - 1, saves});
  CHECK(read_best(workdir.ckpt().best(""))->step == saves - saves % 7);
  CHECK(std::distance(std::filesystem::directory_iterator(workdir.ckpt().path()),
                      std::filesystem::directory_iterator()) == 4);
}

}  // namespace

TEST_CASE("300 saves take no more memory than a hundred") { check_saves(300); }

TEST_CASE("1,440 saves take no more memory than a hundred", "[.][soak]") { check_saves(1440); }

}  // namespace bv::test

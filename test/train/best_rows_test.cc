// Whether ckpt/best agrees with the rows of metrics.
#include "lib/train/best_rows.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "lib/ckpt/checkpointer.h"
#include "test/support/folder.h"
#include "test/support/logged.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("a best checkpoint whose files are damaged counts as missing") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  Snapshot snapshot;
  snapshot.step = 5;
  snapshot.tensors["params/bias"] = at::full({10}, 1.0, at::kFloat);
  snapshot.meta = {{"config", "lr: 0.1"}};
  checkpointer.save(std::move(snapshot), true);
  checkpointer.mark_best("", {"val/loss", false, 5, 0.5});
  checkpointer.wait();
  const std::string best = workdir.ckpt().best("");
  // `loss`: the best one in the rows.
  const auto missing = [&](double loss) {
    BestValue rows({"val/loss", false});
    rows.add(5, loss);
    return missing_best(rows, best);
  };
  CHECK_FALSE(missing(0.5));
  CHECK_FALSE(missing(0.6));  // it is better than all rows
  CHECK(missing(0.4)->value == 0.4);

  const std::string state = best + "/" + shard_name(0, 1);
  std::string bytes = read_text(state);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::filesystem::remove(state);  // the file of the step is the same one
  write(state, bytes);
  for (const double loss : {0.5, 0.6}) {
    INFO(loss);
    std::optional<BestPoint> point;
    const std::string log = logged([&] { point = missing(loss); });
    REQUIRE(point);
    CHECK(*point == BestPoint{"val/loss", false, 5, loss});
    CHECK(contains(log, best + " is damaged: " + shard_name(0, 1) + ": "));
  }
  std::filesystem::remove(state);
  CHECK(missing(0.5));
  write_best(best, workdir.ckpt().step(5), *missing(0.5));
  CHECK_FALSE(missing(0.5));
}

}  // namespace bv::test

// Images that stay uint8 until the step, as on a GPU.
#include <catch2/catch.hpp>

#include "test/support/binary.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("images that travel to the step as bytes train the same model") {
  const TempFolder dir;
  const std::string config = dir.write(
      "c.yaml",
      "num_classes: 10\ntotal_steps: 8\nlog_training_steps: 1\nmixup: {p: 0.4}\n"
      "model_name: cnn\nmodel: {widths: [4], dense: 8}\nloss: softmax_xent\noptax_name: sgd\n"
      "lr: 0.1\ninput:\n  batch_size: 16\n  data: {name: digits, split: train}\n"
      "  pp: random_crop(7)|value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"
      "|keep(\"image\", \"labels\")\n");
  for (const int ranks : {1, 2}) {
    INFO(ranks << " ranks");
    std::vector<std::vector<TextRow>> rows;
    for (const char* bytes : {"0", "1"}) {
      const std::string workdir = dir / fmt::format("{}-{}", ranks, bytes);
      const Finished finished = run({"--config", config, "--workdir", workdir, "--devices",
                                     fmt::format("cpu:{}", ranks), "--set", "log_images_steps=4"},
                                    {{"BVTRAIN_BYTE_IMAGES", bytes}});
      INFO(finished.err);
      REQUIRE(finished.code == 0);
      CHECK((count(finished.err, "Images are passed to the step as bytes\n") == 1) ==
            (bytes == std::string("1")));
      rows.push_back(repeatable_rows(workdir));
    }
    CHECK(rows[0].size() == 9);  // and that of the start
    CHECK(rows[0] == rows[1]);
  }
}

}  // namespace bv::test

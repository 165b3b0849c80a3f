// The reference's losses that no task supports.
#include <catch2/catch.hpp>

#include "lib/tasks/task.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::string refusal(const std::string& loss) {
  return error_of([&] {
    Task::Registry::make("classify", Config(), Place(),
                         {.loss_name = loss, .loss_place = {"c.yaml", 3, 7}});
  });
}

TEST_CASE("a loss whose inputs no task supplies is refused by name, with the reason") {
  CHECK(refusal("weighted_softmax_xent") ==
        "c.yaml:3:7: error: loss 'weighted_softmax_xent': it needs class numbers and weights of "
        "every token of a sequence, which no task supplies; for images of classes use softmax_xent "
        "or sigmoid_xent");
  CHECK(refusal("bidirectional_contrastive_loss") ==
        "c.yaml:3:7: error: loss 'bidirectional_contrastive_loss': it needs embeddings of images "
        "and of texts, which no task supplies; for images of classes use softmax_xent or "
        "sigmoid_xent");
  CHECK(refusal("softmax_xnt") ==
        "c.yaml:3:7: error: unknown loss 'softmax_xnt' (did you mean 'softmax_xent'?); known: "
        "sigmoid_xent, softmax_xent");
  CHECK(refusal("softmax_xent").empty());
}

}  // namespace
}  // namespace bv::test

// The names of losses: those that are registered here, and those of the reference that no task
// supports.
#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/model/loss.h"
#include "lib/tasks/task.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::string loss_refusal(const std::string& loss) {
  return error_of([&] {
    Task::Registry::make("classify", Config(), Place(),
                         {.loss_name = loss, .loss_place = {"c.yaml", 3, 7}});
  });
}

// A loss that no list names.
class OnlyHere : public Loss {
 public:
  explicit OnlyHere(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor&) const override {
    return logits.sum(-1);
  }
};
const Register<Loss, OnlyHere> registered("only_here");

TEST_CASE("a loss that one file registers is known everywhere") {
  const Config config = parse_config("loss: only_here\n", "c.yaml");
  CHECK(read_loss(config) == "only_here");
  CHECK(problem_count(config) == 0);
  CHECK(loss_refusal("only_here").empty());
}

TEST_CASE("the key loss names a registered loss or one of the task regress") {
  const auto said = [](const std::string& yaml) {
    const Config config = parse_config(yaml, "c.yaml");
    return error_of([&] {
      read_loss(config);
      throw_problems(config);
    });
  };
  for (const std::string name : {"softmax_xent", "sigmoid_xent", "mse", "l1", "huber"})
    CHECK(said("loss: " + name).empty());
  CHECK(said("loss: softmax_xnt") ==
        "c.yaml:1:7: error: loss: expected one of only_here, sigmoid_xent, softmax_xent, mse, l1, "
        "huber, got 'softmax_xnt' (did you mean 'softmax_xent'?)");
  CHECK(read_loss(parse_config("task: regress", "c.yaml")) == "mse");
}

TEST_CASE("a loss whose inputs no task supplies is refused by name, with the reason") {
  CHECK(loss_refusal("weighted_softmax_xent") ==
        "c.yaml:3:7: error: loss 'weighted_softmax_xent': it needs the class number and weight of "
        "every token of a sequence, which no task supplies; to classify images, use softmax_xent "
        "or sigmoid_xent");
  CHECK(
      loss_refusal("bidirectional_contrastive_loss") ==
      "c.yaml:3:7: error: loss 'bidirectional_contrastive_loss': it needs embeddings of images and "
      "of texts, which no task supplies; to classify images, use softmax_xent or sigmoid_xent");
  CHECK(loss_refusal("softmax_xnt") ==
        "c.yaml:3:7: error: unknown loss 'softmax_xnt' (did you mean 'softmax_xent'?); known: "
        "only_here, sigmoid_xent, softmax_xent");
  CHECK(loss_refusal("softmax_xent").empty());
}

}  // namespace
}  // namespace bv::test

// Gradient accumulation (key grad_accum_steps): computing a batch in micro-batches, one after the
// other.
#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

const std::string kAccumulationKeys =
    "optax_name: scale_by_adam, lr: 0.01, wd: 0.001, grad_clip_norm: 0.3, mixup: {p: 0.2}, ema: "
    "{decay: 0.5}";

// A model without buffers.
std::shared_ptr<Model> mixer() {
  const Config keys = parse_config(
      "model: {patch_size: [4, 4], hidden_dim: 8, num_blocks: 1, tokens_mlp_dim: 4, "
      "channels_mlp_dim: 8}",
      "m.yaml");
  return Model::Registry::make("mlp_mixer", keys.section("model"), {}, ModelEnv{5, 8, 8, 3});
}

class BatchNormModel : public Model {
 public:
  BatchNormModel() { BatchNorm::add(*this, "norm", 4); }
  at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
};

struct Read {
  int64_t micro_batches = 0;
  std::string problem;
  std::vector<std::string> warnings;
};
Read read(const Model& model, int64_t batch_size, int64_t asked, Ranks ranks) {
  const Config config = parse_config(
      fmt::format("{{optax_name: sgd, lr: 1, grad_accum_steps: {}}}", asked), "t.yaml");
  Read result;
  try {
    result.micro_batches = read_grad_accum_steps(config, model, batch_size, ranks);
    throw_problems(config);
  } catch (const Error& error) {
    result.problem = error.what();
  }
  result.warnings = warnings(config);
  return result;
}

}  // namespace

// The masks of dropout and the pairs of mixup do not depend on the micro-batches.
TEST_CASE("a batch in micro-batches gives the losses, gradients and weights of the whole batch") {
  TinyRun whole("{" + kAccumulationKeys + "}", /*dropout=*/0.3);
  whole.run(1, 10);
  const NamedTensors expected = whole.step->state();
  for (const int micro_batches : {1, 2, 4, 8}) {
    INFO(micro_batches << " micro-batches");
    TinyRun run("{" + kAccumulationKeys + fmt::format(", grad_accum_steps: {}}}", micro_batches),
                0.3);
    run.run(1, 10);
    const auto values = run.step->measurements(10), wanted = whole.step->measurements(10);
    REQUIRE(values.size() == wanted.size());
    for (size_t i = 0; i < values.size(); ++i) {
      INFO(values[i].first);
      CHECK(values[i].second == Approx(wanted[i].second).epsilon(1e-5));
    }
    for (const auto& [name, tensor] : run.step->state()) {
      if (name.ends_with("mean")) continue;  // it is updated once for each part
      INFO(name);
      const double off = (tensor - expected.at(name)).abs().max().item<double>();
      CHECK(off <= (micro_batches == 1 ? 0 : 1e-5));
    }
  }
}

TEST_CASE("grad_accum_steps must divide the examples of a process") {
  const auto model = mixer();
  CHECK(read(*model, 64, 1, {}).micro_batches == 1);
  CHECK(read(*model, 64, 4, {}).micro_batches == 4);
  CHECK(read(*model, 64, 16, {4}).micro_batches == 16);
  CHECK(read(*model, 64, 4, {}).warnings.empty());
  CHECK(read(*model, 64, 0, {}).problem ==
        "t.yaml:1:44: error: grad_accum_steps: must be at least 1, got 0");
  CHECK(read(*model, 64, 5, {}).problem ==
        "t.yaml:1:44: error: grad_accum_steps: must divide the 64 examples of each process "
        "(batch_size 64 over 1), got 5");
  CHECK(read(*model, 64, 32, {4}).problem ==
        "t.yaml:1:44: error: grad_accum_steps: must divide the 16 examples of each process "
        "(batch_size 64 over 4), got 32");
}

TEST_CASE("after an elastic restart no process computes more examples at once than before") {
  const auto model = mixer();
  struct Case {
    int64_t batch_size, asked;
    int first, now;
    int64_t micro_batches;
  };
  for (const Case& c :
       {Case{256, 1, 8, 8, 1},
        {256, 1, 8, 4, 2},
        {256, 1, 8, 1, 8},
        {240, 1, 8, 6, 2},  // 40 examples, at most 30 at once: 2 micro-batches of 20
        {240, 1, 5, 4, 2},
        {105, 1, 5, 3, 5},  // 35 examples, at most 21 at once: 5 micro-batches of 7
        {256, 4, 8, 4, 8},
        {256, 4, 4, 8, 2},
        {256, 1, 2, 4, 1}}) {
    INFO(c.batch_size << " in " << c.asked << " micro-batches, " << c.first << " to " << c.now);
    const Read got = read(*model, c.batch_size, c.asked, {c.now, c.first});
    CHECK(got.problem.empty());
    CHECK(got.micro_batches == c.micro_batches);
    const int64_t own = c.batch_size / c.now;
    REQUIRE(own % got.micro_batches == 0);
    CHECK(own / got.micro_batches <= c.batch_size / c.first / c.asked);
  }
}

TEST_CASE("a buffer that is not batch norm's keeps the elastic rule") {
  const TinyModel model;
  REQUIRE(!named_buffers(model).empty());
  const Read fewer = read(model, 64, 1, {2, 4});
  CHECK(fewer.micro_batches == 2);
  CHECK(fewer.warnings.empty());
  CHECK(read(model, 64, 4, {}).warnings.empty());
}

TEST_CASE("with batch norm the micro-batches stay as large as before, with a warning") {
  const BatchNormModel model;
  REQUIRE(model.has_batch_statistics());
  CHECK(read(model, 64, 1, {4}).warnings.empty());
  CHECK(read(model, 64, 4, {}).warnings ==
        std::vector<std::string>{"t.yaml:1:44: warning: grad_accum_steps: batch norm takes its "
                                 "statistics from 16 examples at a time, not from the 64 of the "
                                 "batch"});
  const Read fewer = read(model, 64, 1, {2, 4});
  CHECK(fewer.micro_batches == 1);
  CHECK(fewer.warnings ==
        std::vector<std::string>{"t.yaml:1:44: warning: grad_accum_steps: each process computes 32 "
                                 "examples at once, not 16 as with 4 processes, to keep the "
                                 "statistics of batch norm"});
  CHECK(read(model, 64, 1, {4, 2}).warnings.empty());
  // 4 micro-batches do not divide the 18 examples that each process has now; 6 micro-batches do.
  const Read other = read(model, 36, 4, {2, 3});
  CHECK(other.micro_batches == 6);
  CHECK(other.warnings ==
        std::vector<std::string>{"t.yaml:1:44: warning: grad_accum_steps: batch norm takes its "
                                 "statistics from 6 examples at a time, not from the 36 of the "
                                 "batch; with 3 processes it took them from 9"});
}

}  // namespace bv::test

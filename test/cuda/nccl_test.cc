// Steps in a group of one rank, whose gradients go through NCCL.
#include <catch2/catch.hpp>

#include "test/cuda/gpu_runs.h"
#include "test/support/sockets.h"

namespace bv::test {

TEST_CASE("every model trains over NCCL, or Gloo without a GPU, in a group of one") {
  RankLayout layout;
  layout.address = "127.0.0.1";
  layout.port = free_port();
  layout.token = "gpu";
  layout.hosts_store = true;
  GroupOptions options;
  if (!here().is_cpu()) options.cuda = 0;
  options.even_alone = true;
  const auto group = Group::join(layout, options);
  for (const Case& model : models()) {
    INFO(model.name);
    const auto alone = Run(model, Precision::float32, here(), kAdam).train(3);
    const int64_t before = group->counts().collectives;
    check_close(Run(model, Precision::float32, here(), kAdam, *group).train(3), alone, 1e-5);
    CHECK(group->counts().collectives > before);
    if (here().is_cpu()) continue;
    Run graph(model, Precision::float32, here(), kAdam, *group);
    CHECK(graph.step->use_graph(cuda_graph_recorder(kGpu)).empty());
    check_close(graph.train(3), alone, 1e-5);
    const int64_t recorded = group->counts().collectives;
    graph.train(1);
    const int64_t of_a_step = group->counts().collectives - recorded;
    CHECK(of_a_step > 1);
    graph.train(1);
    CHECK(group->counts().collectives == recorded + 2 * of_a_step);
  }
  if (!here().is_cpu()) {
    // What several ranks have begun cannot be undone.
    Run graph(kSmallCnn, Precision::float32, here(), kAdam, *group);
    CHECK(graph.step->use_graph(std::make_unique<FailingRecorder>()).empty());
    CHECK_THROWS_WITH(graph.train(3),
                      "graph: error: step 3 cannot be captured as a CUDA graph: it cannot be "
                      "recorded; `graph: off` trains without");
  }
  group->finish();
}

}  // namespace bv::test

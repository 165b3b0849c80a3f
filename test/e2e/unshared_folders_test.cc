// Two ranks that do not see the same files, as on two hosts without a shared file system: each is
// started in its own folder, and paths are relative. With the real binary.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/ckpt/formats/npz.h"
#include "test/support/binary.h"
#include "test/support/sockets.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kUnsharedConfig = R"(
num_classes: 2
total_steps: 4
compute_threads: 1
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
log_training_steps: 4
input:
  data: {name: npz, fname: train.npz}
  batch_size: 8
  pp: &pp value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")
evals:
  test:
    type: classification
    data: {name: npz, fname: test.npz}
    pp_fn: *pp
    loss_name: softmax_xent
    log_steps: 4
)";

struct Hosts {
  TempFolder dir;

  Hosts() {
    for (int rank = 0; rank < 2; ++rank) {
      write(folder(rank) + "/c.yaml", kUnsharedConfig);
      write_images(rank, "train.npz", 64);
      write_images(rank, "test.npz", 30);
    }
  }
  std::string folder(int rank) const { return dir / ("host" + std::to_string(rank)); }
  // Writes n images, of which the last one has the label `last`.
  void write_images(int rank, const std::string& name, int64_t n, int64_t last = 0) const {
    const at::Tensor labels = at::arange(n, at::kLong).remainder(2);
    labels[n - 1] = last;
    write_npz(folder(rank) + "/" + name,
              {{"image", at::arange(n * 36).reshape({n, 6, 6, 1}).remainder(256).to(at::kByte)},
               {"label", labels}});
  }
  Process start(int rank, int port, const std::vector<std::string>& flags) const {
    const std::string number = std::to_string(rank);
    std::vector<std::string> argv = {"sh",
                                     "-c",
                                     "cd \"$0\" && exec \"$@\"",
                                     folder(rank),
                                     std::getenv("BVTRAIN"),
                                     "--config",
                                     "c.yaml",
                                     "--workdir",
                                     "w"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return {"/bin/sh",
            argv,
            {{"RANK", number},
             {"WORLD_SIZE", "2"},
             {"LOCAL_RANK", number},
             {"LOCAL_WORLD_SIZE", "2"},
             {"MASTER_ADDR", "127.0.0.1"},
             {"MASTER_PORT", std::to_string(port)},
             {"BVTRAIN_LOCK_BEAT", "0.05"}}};
  }
  // Runs both ranks, which must fail with these lines.
  void refused(const std::vector<std::string>& lines,
               const std::vector<std::string>& flags = {}) const {
    const int port = free_port();
    Process first = start(0, port, flags), second = start(1, port, flags);
    for (Process* rank : {&first, &second}) {
      const Finished finished = rank->wait();
      INFO(finished.err);
      CHECK(finished.code == 2);
      for (const std::string& line : lines) CHECK(contains(finished.err, line + "\n"));
    }
  }
};

}  // namespace

TEST_CASE("ranks whose data differ are refused at the start") {
  const Hosts hosts;
  hosts.write_images(1, "train.npz", 64, /*last=*/1);
  hosts.write_images(1, "test.npz", 29);
  const std::string end = "; all ranks must read the same data";
  hosts.refused(
      {"evals.test.data: error: rank 1 has 29 examples, rank 0 has 30 examples" + end,
       "input.data: error: rank 1 has 64 examples with other labels, class names or order, rank 0 "
       "has 64 examples" +
           end});
  CHECK_FALSE(exists(hosts.folder(0) + "/w"));
}

TEST_CASE("ranks that do not share the workdir are refused if the state is sharded") {
  const Hosts hosts;
  hosts.refused(
      {"/host0/w/.lock: error: rank 1 does not see this file; with sharded state every rank saves "
       "its part, so --workdir must be a folder that all ranks share"},
      {"--set", "sharding_strategy=[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0)']]"});
  CHECK_FALSE(exists(hosts.folder(0) + "/w/metrics.jsonl"));
}

}  // namespace bv::test

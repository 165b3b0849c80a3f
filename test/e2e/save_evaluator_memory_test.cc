// Only rank 0 has the whole table that the evaluator `save` writes.
#include <unistd.h>

#include <fstream>

#include "test/e2e/bad_input.h"
#include "test/support/limits.h"
#include "test/support/sockets.h"

namespace bv::test {
namespace {

const char* const kSavedTableConfig = R"(
num_classes: 10
total_steps: 1
precision: float32
input: {data: {name: synthetic, size: 64, image_size: 64, classes: 10, encoded: none}, batch_size: 16,
        pp: &pp 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'}
model_name: cnn
model: {widths: [4], dense: 8}
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 1
evals:
  save: {data: {name: synthetic, size: 4000, image_size: 64, classes: 10, encoded: none}, pp_fn: *pp,
         batch_size: 64, outputs: [logits], inputs: [INPUTS], skip_first: true, log_steps: 1,
         outfile: "OUT"}
)";

// Returns the peak resident memory of the process in MiB; -1 if the process is gone or is rank 0.
double most_of(int pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream status(process + "/status");
  std::string environment;
  try {
    environment = read_file(process + "/environ");
  } catch (const Error&) {
    return -1;  // it has just ended
  }
  if (environment.find(std::string("\0BVTRAIN_GROUP_RANK=0\0", 22)) != std::string::npos) return -1;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return -1;
}

double most_with(const std::string& inputs) {
  TempFolder dir;
  const std::string text = replaced(kSavedTableConfig, "INPUTS", inputs);
  write(dir / "c.yaml", replaced(text, "OUT", dir / "out.npz"));
  // Rank 1 stays for a moment after the evaluation, so that its peak is seen.
  Child child({"--config", dir / "c.yaml", "--devices", "cpu:4"},
              {{"BVTRAIN_SLEEP_AT", "step.rank1:1:1"}});
  double most = 0;
  std::set<int> ranks;
  for (int look = 0; look < 6000; ++look, ::usleep(5000)) {
    ranks = children_of(child.pid());
    for (const int rank : ranks) most = std::max(most, most_of(rank));
    if (ranks.empty() && most > 0) break;
  }
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(exists(dir / "out.npz"));
  return most;
}

}  // namespace

TEST_CASE("no rank but rank 0 ever holds the whole table of `save`") {
  constexpr double kTable = 4000.0 * 64 * 64 * 3 * 4 / (1 << 20);  // MiB: 188
  const double without = most_with("_id"), with = most_with("_id, image");
  INFO(without << " MiB, with a table of " << kTable << " MiB " << with << " MiB");
  REQUIRE(without > 50);
  // A rank holds its own quarter, and one quarter in transit.
  if (!kSanitized) CHECK(with - without < 0.8 * kTable);
}

}  // namespace bv::test

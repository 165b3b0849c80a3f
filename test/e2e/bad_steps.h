// Runs with steps whose loss or gradients are not finite.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/ckpt/formats/npz.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {

// A learning rate that overflows after a few steps: from then on every step is bad.
inline std::vector<std::string> diverging(const std::string& workdir,
                                          const std::vector<std::string>& values) {
  std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"), "--workdir",
                                   workdir};
  std::vector<std::string> all = {"total_epochs=null", "total_steps=12", "log_training_steps=1",
                                  "schedule=null",     "optax_name=sgd", "optax=null",
                                  "lr=1e12",           "ckpt_steps=2",   "nan=skip"};
  all.insert(all.end(), values.begin(), values.end());
  for (const std::string& value : all) args.insert(args.end(), {"--set", value});
  return args;
}

// A run on 640 images of an npz file, one of which is NaN.
struct PoisonedRun {
  TempFolder dir;
  std::string workdir = dir / "w";

  PoisonedRun() {
    const at::Tensor image = at::arange(640 * 64, at::kFloat).reshape({640, 8, 8, 1}).sin();
    image[300][2][2] = std::nanf("");
    write_npz(dir / "d.npz",
              {{"image", image}, {"label", at::arange(640, at::kLong).remainder(10)}});
    write(dir / "c.yaml", R"(
num_classes: 10
total_steps: 14
log_training_steps: 1
ckpt_steps: 3
input:
  data: {name: npz, fname: DATA}
  batch_size: 64
  pp: onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4]}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
nan: rollback
compute_threads: 1
)");
  }
  Finished train(const std::vector<std::string>& flags, const Environment& environment = {}) const {
    std::vector<std::string> args = {"--config",  dir / "c.yaml",
                                     "--workdir", workdir,
                                     "--set",     "input.data.fname=" + (dir / "d.npz")};
    args.insert(args.end(), flags.begin(), flags.end());
    return run(args, environment);
  }
  std::string state(int shards) const {
    std::string all;
    for (int i = 0; i < shards; ++i)
      all += read_text(
          fmt::format("{}/ckpt/step-14/state-{:05}-of-{:05}.safetensors", workdir, i, shards));
    return all;
  }
  nlohmann::json rollbacks() const {
    return nlohmann::json::parse(read_text(workdir + "/run.json")).at("rollbacks");
  }
};

}  // namespace bv::test

// The table "From a key to its file" in docs/design.md, compared with the output of --explain and
// with the existing files. A table that leads to the wrong file is worse than none.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>

#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Uses every key of the table. DATA is an image folder with the classes of the data set digits.
constexpr const char* kEveryKeyConfig = R"(
num_classes: 10
total_steps: 4
input:
  data: {name: image_folder, data_dir: DATA}
  cache: {in: memory, gib: 0.01}
  batch_size: 8
  pp: decode(1)|random_crop(8)|value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: vit
model: {variant: mu/4, posemb: sincos2d, pool_type: gap}
mixup: {p: 0.2}
optax_name: scale_by_adam
optax: {mu_dtype: bfloat16}
lr: 0.001
loss: softmax_xent
task_kw: {class_weights: balanced}
schedule: {decay_type: cosine, warmup_steps: 1, cooldown_steps: 1}
ema: {decay: 0.9}
log_training_steps: 1
log_images_steps: 2
ckpt_steps: 2
keep_ckpt_steps: 4
profile: {first_step: 1, steps: 1}
evals:
  val:
    type: classification
    data: {name: digits, split: test}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    log_steps: 2
    loss_name: softmax_xent
    tta: {mirror: true}
best: {metric: val/loss}
early_stop: {metric: val/loss, patience_steps: 4}
)";

// Maps each key that --explain prints to the file that reads it.
std::map<std::string, std::string> read_by(const std::string& explained) {
  std::map<std::string, std::string> files;
  const std::regex line(R"(^(\S+(?:\[\d+\]: \S+)?) .* ([a-z_/]+\.(?:cc|h)):\d+$)");
  for (const std::string& text : split(explained, '\n')) {
    std::smatch found;
    if (std::regex_match(text, found, line)) files[found[1]] = found[2];
  }
  return files;
}

std::vector<std::string> in_backticks(const std::string& text) {
  std::vector<std::string> words;
  const std::regex quoted("`([^`]+)`");
  for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at)
    words.push_back((*at)[1]);
  return words;
}

}  // namespace

TEST_CASE("the table of keys in docs/design.md names the files that read them") {
  const TempFolder folder;
  for (int digit = 0; digit < 10; ++digit)
    folder.write(fmt::format("data/{}/1.jpg", digit), flat_jpeg(20 * digit));
  const std::string config = replace_all(kEveryKeyConfig, "DATA", folder / "data");
  const Finished explained = run({"--config", folder.write("c.yaml", config), "--explain"});
  INFO(explained.err);
  REQUIRE(explained.code == 0);
  const std::map<std::string, std::string> files = read_by(explained.out);
  REQUIRE(files.size() > 50);

  const std::string design = read_text(source_file("docs/design.md"));
  const size_t begin = design.find("| key | read in |");
  REQUIRE(begin != std::string::npos);
  size_t keys = 0;
  for (const std::string& row :
       split(design.substr(begin, design.find("\n\n", begin) - begin), '\n')) {
    const std::vector<std::string> cells = split(row, '|');
    REQUIRE(cells.size() >= 5);
    const std::vector<std::string> read = in_backticks(cells[2]), acts = in_backticks(cells[3]);
    for (const auto* list : {&read, &acts}) {
      for (const std::string& file : *list) {
        INFO(file);
        CHECK(std::filesystem::exists(source_file(file)));
      }
    }
    for (std::string key : in_backticks(cells[1])) {
      key = std::regex_replace(key, std::regex(R"(evals\.\*)"), "evals.val");
      INFO(key);
      const auto found = files.find(key);
      REQUIRE(found != files.end());
      REQUIRE_FALSE(read.empty());
      CHECK(read[0] == found->second);  // the caller of that file may follow it
      ++keys;
    }
  }
  CHECK(keys > 30);
}

}  // namespace bv::test

// bvtrain help, schema and completion: the output, its copies in the repository, and the completion
// in bash. With the real binary.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/help/exit_codes.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/folder.h"
#include "test/support/golden.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::string help(const std::vector<std::string>& words) {
  std::vector<std::string> args = {"help"};
  args.insert(args.end(), words.begin(), words.end());
  const Finished finished = run(args);
  INFO(finished.err);
  CHECK(finished.code == 0);
  return finished.out;
}

Finished program(const std::vector<std::string>& argv) { return Process(argv[0], argv, {}).wait(); }

// Returns what bash offers at the end of `line`.
std::vector<std::string> completed(const std::string& script, const std::string& line) {
  // Words as readline makes them: '=' is a word of its own.
  const Finished finished = program({"/bin/bash", "-c", R"(
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<<"${2//=/ = }"
[[ $2 == *' ' || $2 == *= ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
_bvtrain
printf '%s\n' "${COMPREPLY[@]}")",
                                     "bash", script, line});
  INFO(finished.err);
  CHECK(finished.err.empty());
  std::vector<std::string> offered;
  for (const std::string& word : split(finished.out, '\n')) {
    if (!word.empty()) offered.push_back(word);
  }
  return offered;
}

bool has_word(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("help explains a key: meaning, type, default, and big_vision's name") {
  const std::string lr = help({"lr"});
  CHECK(contains(lr, "lr: a key at the top level\n"));
  CHECK(contains(lr, "  Type        number of at least 0\n"));
  CHECK(contains(lr, "  Default     required\n"));
  CHECK(contains(lr, "  big_vision  lr\n"));
  CHECK(contains(help({"evals.*.pp_fn"}), "evals.*.pp_fn: a key of "));
  CHECK(help({"evals.val.pp_fn"}) == help({"evals.*.pp_fn"}));
  CHECK(contains(help({"input.data.split"}), "input.data.split: a key of "));
  for (const char* data : {"evals.val.data.split", "evals.knn.train.split", "input.own.data.split"})
    CHECK(help({data}) == help({"input.data.split"}));
  CHECK(contains(help({"total_epochs"}), "total_{steps,examples,epochs}: "));
  // A key of several models: all of them, and each alone.
  CHECK(contains(help({"depth"}), "model.depth: "));
  CHECK(contains(help({"vit.depth"}), "model.depth: a key of the model"));
}

TEST_CASE("help explains names, kinds, exit codes, commands, flags and words of other trainers") {
  const std::string resize = help({"resize"});
  CHECK(contains(resize, "resize: an op\n"));
  CHECK(contains(resize, "  size (integer from 1 to 16384 or [integer"));
  CHECK(contains(help({"vit"}), "Chosen by   model_name: vit\n"));
  CHECK(contains(help({"cosine"}), "Chosen by   schedule.decay_type: cosine\n"));
  CHECK(contains(help({"optimizers"}), "  scale_by_adam  "));
  CHECK(contains(help({"75"}), "75: the exit code for 'stopped early'\n"));
  CHECK(contains(help({"exit", "codes"}), "143: the exit code"));
  CHECK(contains(help({"137"}),
                 "137: the exit code for 'killed by a signal'\n\n  A process of the "
                 "run was killed by signal 9 (Killed)."));
  CHECK(contains(help({"--workdir"}), "BVTRAIN_WORKDIR"));
  CHECK(contains(help({"predict"}), "predict: a command\n"));
  const std::string epochs = help({"epochs"});
  CHECK(contains(
      epochs, "epochs: not a bvtrain term\n\n  the length of training is 'total_epochs' here\n"));
  CHECK(contains(epochs, "  Default     required\n"));  // of total_epochs
  CHECK(contains(help({}), "The keys at the top level of a config:\n"));
}

TEST_CASE("help says what is nearest to a word that it does not know") {
  const Finished finished = run({"help", "scedule"});
  CHECK(finished.code == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err ==
        "help: error: no help on 'scedule' (did you mean 'schedule'?); see bvtrain help\n");
  CHECK(run({"help", "predic"}).err ==
        "help: error: no help on 'predic' (did you mean 'predict'?); see bvtrain help\n");
  // A word that is like no other.
  CHECK(run({"help", "wqxzk"}).err == "help: error: no help on 'wqxzk'; see bvtrain help\n");
  const Finished nameless = run({"help", "val/"});
  CHECK(nameless.code == 2);
  CHECK(nameless.err.starts_with("help: error: no help on 'val/'"));
}

TEST_CASE("help on a value names its keys") {
  const std::string huber = help({"huber"});
  CHECK(huber.starts_with("huber: a value of these keys, or named in their help\n\n"));
  CHECK(contains(huber, "\n  loss                     Loss that the training minimizes.\n"));
  CHECK(contains(huber, "\n  task_kw.delta            With `loss: huber`, "));
  CHECK(contains(help({"zero1"}), "\n  sharding_strategy "));
}

TEST_CASE("help on a metric says what it is, and prints a link as its text") {
  const std::string accuracy = help({"val/prec@1"});
  CHECK(accuracy.starts_with("val/prec@1: a metric of these evaluators\n\n"));
  CHECK(contains(accuracy, "\n  classification           The metric `prec@1` is the fraction of "));
  CHECK(contains(help({"muon.b1"}), "  For the other parameters, as in scale_by_adam. It must"));
}

TEST_CASE("help takes words, or --man, or --reference") {
  const TempFolder dir;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--man", "lr"},
                                               {"--man", "--workdir"},
                                               {"--reference", dir / "r", "lr"},
                                               {"--man", "--reference", dir / "r"}}) {
    std::vector<std::string> args = {"help"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    CHECK(finished.err == "bvtrain help: error: give only one of --man, --reference and words\n");
  }
  CHECK(!std::filesystem::exists(dir / "r"));
  CHECK(help({"--", "--set"}) == help({"--set"}));
}

TEST_CASE("reference pages that cannot be written are a failed write") {
  const Finished finished = run({"help", "--reference", "/dev/null/x"});
  CHECK(finished.code == 5);
  CHECK(finished.err == "/dev/null/x: error: cannot make the folder: Not a directory\n");
  const TempFolder dir;
  dir.write("README.md", "# My project\n");
  const Finished foreign = run({"help", "--reference", dir.path()});
  CHECK(foreign.code == 2);
  CHECK(foreign.err == "--reference " + dir.path() +
                           ": error: has a README.md that bvtrain did not write; choose another "
                           "folder\n");
  CHECK(read_text(dir / "README.md") == "# My project\n");
  CHECK(!std::filesystem::exists(dir / "models.md"));
}

TEST_CASE("--help names every exit code as the table does") {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--help"}, {"predict", "--help"}}) {
    std::string text = run(args).out;
    std::replace(text.begin(), text.end(), '\n', ' ');
    for (const ExitText& code : exit_codes())
      CHECK(contains(text, fmt::format(" {} {}", static_cast<int>(code.code), code.name)));
  }
}

TEST_CASE("the reference pages and the schema of the repository are those of the program") {
  const TempFolder dir;
  for (int i = 0; i < 2; ++i)  // earlier pages are replaced
    REQUIRE(run({"help", "--reference", dir / "reference"}).code == 0);
  size_t pages = 0;
  for (const auto& page : std::filesystem::directory_iterator(dir / "reference")) {
    const std::string name = "docs/reference/" + page.path().filename().string();
    INFO(name << ": scripts/dev.sh docs writes it anew");
    CHECK((std::filesystem::exists(source_file(name)) &&
           read_file(page.path().string()) == read_file(source_file(name))));
    ++pages;
  }
  CHECK(pages == 10);
  CHECK(run({"schema"}).out == read_file(source_file("configs/bvtrain.schema.json")));
}

TEST_CASE("the schema accepts every config of the repository and refuses wrong ones") {
  const std::string python = test_python();
  if (python.empty()) return;
  const TempFolder dir;
  write(dir / "schema.json", run({"schema"}).out);
  std::vector<std::string> argv = {python, source_file("scripts/check_schema.py"),
                                   dir / "schema.json"};
  for (const char* name : {"wrong_configs.txt", "familiar_configs.txt"})
    argv.push_back(source_file(std::string("test/train/") + name));
  argv.push_back("--");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_file("configs"))) {
    const std::string file = entry.path().string();
    // What is there to be included is only a part of a config.
    if (entry.path().extension() == ".yaml" && !contains(file, "/include/")) argv.push_back(file);
  }
  write(
      dir / "variables.yaml",
      "num_classes: ${N:-10}\ntotal_steps: ${S}\nlog_training_steps: 1\nmodel_name: ${MODEL}\n"
      "optax_name: sgd\nlr: ${LR}\n"
      "input: {data: {name: digits}, batch_size: '${B:-8}', shuffle: '${SHUFFLE}', pp: flip_lr}\n");
  argv.push_back(dir / "variables.yaml");
  // What another file or --set completes, and null where it removes a key.
  write(dir / "partial.yaml",
        "include: variables.yaml\nmodel: null\noptax: null\ntask: null\nmodel_name: null\n"
        "loss: null\nschedule: {decay_type: null}\nbest: {name: b}\nearly_stop: {min_delta: 0.1}\n"
        "input: {batch_size: 16, cache: {gib: 3}, data: {split: test}}\n"
        "evals: {val: {loss_name: null, data: {split: test}}, train: null}\n");
  argv.push_back(dir / "partial.yaml");
  const Finished finished = program(argv);
  INFO(finished.out << finished.err);
  CHECK(finished.code == 0);
}

TEST_CASE("bash completes commands, flags, keys after --set, their values, and names") {
  const TempFolder dir;
  const std::string script = dir / "bvtrain.bash";
  write(script, run({"completion", "bash"}).out);
  CHECK(has_word(completed(script, "bvtrain pre"), "predict"));
  CHECK(has_word(completed(script, "bvtrain --wor"), "--workdir"));
  CHECK(has_word(completed(script, "bvtrain predict --to"), "--top"));
  CHECK(!has_word(completed(script, "bvtrain predict --"), "--dry-run"));
  CHECK(completed(script, "bvtrain --set optax_na") == std::vector<std::string>{"optax_name="});
  CHECK(has_word(completed(script, "bvtrain --set model_name=vi"), "vit"));
  CHECK(has_word(completed(script, "bvtrain --set input.shuffle="), "false"));
  CHECK(completed(script, "bvtrain bench --set optax_na") ==
        std::vector<std::string>{"optax_name="});
  CHECK(has_word(completed(script, "bvtrain --list op"), "ops"));
  CHECK(has_word(completed(script, "bvtrain help grad_"), "grad_clip_norm"));
  write(dir / "my.yaml", "");
  CHECK(has_word(completed(script, "bvtrain --config " + (dir / "my")), dir / "my.yaml"));
}

TEST_CASE("bash completes values by command and flag, and commands of two words") {
  using Words = std::vector<std::string>;
  const TempFolder dir;
  const std::string script = dir / "bvtrain.bash";
  write(script, run({"completion", "bash"}).out);
  CHECK(completed(script, "bvtrain predict --format ") == Words{"csv", "jsonl", "npz"});
  CHECK(completed(script, "bvtrain compare --format ") == Words{"csv", "json", "text"});
  CHECK(completed(script, "bvtrain export --format ") ==
        Words{"npz", "onnx", "safetensors", "timm"});
  CHECK(completed(script, "bvtrain bench ") ==
        Words{"collectives", "memory", "operators", "scaling"});
  CHECK(completed(script, "bvtrain ckpt ") == Words{"average", "diff", "ls", "rm", "verify"});
  CHECK(completed(script, "bvtrain bench --config c.yaml sc") == Words{"scaling"});
  CHECK(completed(script, "bvtrain bench scaling --band") == Words{"--bandwidth-gb"});
  CHECK(!has_word(completed(script, "bvtrain bench scaling --"), "--seconds"));
  CHECK(has_word(completed(script, "bvtrain bench --"), "--seconds"));
  CHECK(completed(script, "bvtrain completion ") == Words{"bash", "fish", "zsh"});
  CHECK(has_word(completed(script, "bvtrain help predi"), "predict"));
  CHECK(completed(script, "bvtrain schema ").empty());
}

TEST_CASE("completion for zsh and fish, and the man page, name every command") {
  const std::string zsh = run({"completion", "zsh"}).out, fish = run({"completion", "fish"}).out,
                    man = run({"help", "--man"}).out;
  CHECK(zsh.starts_with("#compdef bvtrain\n"));
  CHECK(man.starts_with(".TH BVTRAIN 1"));
  for (const char* verb : {"predict", "export", "bench", "compare", "ckpt", "help", "schema"}) {
    INFO(verb);
    CHECK(contains(zsh, verb));
    CHECK(contains(fish, fmt::format("-n '__bvtrain_at ' -a {} -d ", verb)));
    CHECK(contains(man, fmt::format(".SH BVTRAIN {}\n", verb)));
  }
  CHECK(contains(zsh, "    'export --format') echo npz onnx safetensors timm; return ;;\n"));
  CHECK(contains(fish, "-n '__bvtrain_at bench' -a scaling -d "));
  CHECK(contains(fish, "-n '__bvtrain_at bench scaling' -l bandwidth-gb -d "));
  CHECK(contains(man, "\\-\\-accept\\-changes"));
  CHECK(contains(man, ".B 75\n"));
  const Finished wrong = run({"completion", "tcsh"});
  CHECK(wrong.code == 2);
}

}  // namespace bv::test

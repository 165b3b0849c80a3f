// The command line of the real binary: which options a command takes, what overrides the
// environment, and suggestions for misspelt words.
#include <algorithm>
#include <catch2/catch.hpp>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Runs a command that must fail with one line, and returns the line.
std::string refused(const std::vector<std::string>& args, const Environment& environment = {}) {
  const Finished finished = run(args, environment);
  CHECK(finished.code == 2);
  CHECK(finished.out.empty());
  CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
  return finished.err;
}

const std::string kNoSuchFile = "/nope/typed: error: no such file\n";

}  // namespace

TEST_CASE("an option that a command does not take is refused, before and after the verb") {
  CHECK(refused({"--config.lr=1", "compare", "A", "B"}) ==
        "--config.lr=1: error: does not apply to bvtrain compare\n");
  CHECK(refused({"compare", "A", "--config.lr", "1"}) ==
        "--config.lr=1: error: does not apply to bvtrain compare\n");
  CHECK(refused({"bench", "--config.lr=1", "collectives"}) ==
        "--config.lr=1: error: does not apply to bvtrain bench collectives\n");
  CHECK(refused({"--set", "lr=1", "compare", "A"}) ==
        "--set: error: does not apply to bvtrain compare\n");
  CHECK(refused({"compare", "--set", "lr=1", "A"}) ==
        "--set: error: does not apply to bvtrain compare\n");
  CHECK(refused({"--workdir", "X", "help"}) ==
        "--workdir: error: does not apply to bvtrain help\n");
  CHECK(refused({"--json", "help", "lr"}) == "--json: error: does not apply to bvtrain help\n");
  CHECK(refused({"--version", "schema"}) == "--version: error: does not apply to bvtrain schema\n");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--dry-run", "predict"}, {"predict", "--dry-run"}})
    CHECK(refused(args) == "--dry-run: error: does not apply to bvtrain predict\n");
  CHECK(refused({"bench", "--devices", "cpu", "scaling", "--bandwidth-gb", "1", "--latency-us",
                 "1"}) == "--devices: error: does not apply to bvtrain bench scaling\n");
}

TEST_CASE("an option without its value does not take the next option for it") {
  for (const char* flag : {"--workdir", "--config", "--set", "--devices", "--max-time"}) {
    const std::string line = std::string(flag) + ": error: needs a value\n";
    CHECK(refused({flag + std::string("="), "--dry-run"}) == line);
    CHECK(refused({flag, "--dry-run"}) == line);
  }
  CHECK(refused({"predict", "a.jpg", "--workdir="}) == "--workdir: error: needs a value\n");
  CHECK(refused({"data", "stats", "--only", "--json", "w"}) == "--only: error: needs a value\n");
  CHECK(refused({"--config.lr", "--dry-run"}) ==
        "--config.lr: error: needs a value: --config.lr=VALUE\n");
  // Values may begin with a dash, or with two after '='.
  CHECK(refused({"--config=--typed"}) == "--typed: error: no such file\n");
  CHECK(refused({"--config", "-typed"}) == "-typed: error: no such file\n");
  CHECK(refused({"predict", "--workdir", "/nope/typed", "--input", "-"}) ==
        "/nope/typed: error: no such checkpoint\n");
  CHECK(run({"help", "--workdir"}).code == 0);  // a topic
}

TEST_CASE("an option before a verb that takes it counts") {
  const std::string config = source_file("configs/digits_cnn.yaml");
  CHECK(refused({"--config", "/nope/typed", "bench"}) == kNoSuchFile);
  CHECK(refused({"--config", "/nope/typed", "bench", "scaling", "--bandwidth-gb", "1",
                 "--latency-us", "1"}) == kNoSuchFile);
  CHECK(refused({"--config", "/nope/a", "bench", "--config", "/nope/b"}) ==
        "--config: error: is given twice\n");
  // Values of --set are joined.
  CHECK(refused({"--set", "total_steps=abc", "bench", "--set", "seed=1", "--config", config}) ==
        "--set total_steps=abc: error: total_steps: expected a number, got 'abc'\n");
  CHECK(refused({"--set", "seed=1", "bench", "--set", "total_steps=abc", "--config", config}) ==
        "--set total_steps=abc: error: total_steps: expected a number, got 'abc'\n");
}

TEST_CASE("of --set and --config.KEY, the last one wins") {
  const std::string config = source_file("configs/digits_cnn.yaml");
  const std::string set =
      "--set total_steps=abc: error: total_steps: expected a number, got 'abc'\n";
  const std::string flag =
      "--config.total_steps=abc: error: total_steps: expected a number, got 'abc'\n";
  CHECK(refused({"--config", config, "--config.total_steps=1", "--set", "total_steps=abc"}) == set);
  CHECK(refused({"--config", config, "--set", "total_steps=1", "--config.total_steps", "2",
                 "--set=total_steps=abc"}) == set);
  CHECK(refused({"--config.total_steps=1", "bench", "--set", "total_steps=abc", "--config",
                 config}) == set);
  CHECK(refused({"--config", config, "--set", "total_steps=1", "--config.total_steps=abc"}) ==
        flag);
}

TEST_CASE("a flag wins over the environment in every command") {
  const Environment config = {{"BVTRAIN_CONFIG", "/nope/variable"}};
  const Environment workdir = {{"BVTRAIN_WORKDIR", "/nope/variable"}};
  CHECK(refused({"--config", "/nope/typed"}, config) == kNoSuchFile);
  CHECK(refused({"bench", "--config", "/nope/typed"}, config) == kNoSuchFile);
  CHECK(refused({"--config", "/nope/typed", "bench"}, config) == kNoSuchFile);
  CHECK(refused({"export", "--config", "/nope/typed", "--output", "a.npz"}, config) == kNoSuchFile);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"export", "--workdir", "/nope/typed", "--output", "a.npz"},
        {"--workdir", "/nope/typed", "export", "--output", "a.npz"}})
    CHECK(refused(args, workdir) == "/nope/typed: error: no such checkpoint\n");
  // Without the flag the variable counts, but only in commands that read it.
  CHECK(refused({"bench"}, config) == "/nope/variable: error: no such file\n");
  CHECK(refused({"export", "--workdir", "/nope/typed", "--output", "a.npz"}, config) ==
        "/nope/typed: error: no such checkpoint\n");
}

TEST_CASE("a flag that names the model replaces the variables that name one") {
  const Environment both = {{"BVTRAIN_CONFIG", "/nope/a"}, {"BVTRAIN_WORKDIR", "/nope/b"}};
  CHECK(refused({"predict", "--workdir", "/nope/typed", "a.jpg"}, both) ==
        "/nope/typed: error: no such checkpoint\n");
  CHECK(refused({"predict", "--config", "/nope/typed", "a.jpg"}, both) == kNoSuchFile);
  CHECK(refused({"export", "--config", "/nope/typed", "--output", "a.npz"}, both) == kNoSuchFile);
}

TEST_CASE("a variable counts only in the commands that read it, and is named if it is wrong") {
  const Environment wrong = {{"BVTRAIN_NNODES", "x"}};
  CHECK(run({"help", "lr"}, wrong).code == 0);
  CHECK(refused({"--config", "c.yaml"}, wrong).starts_with("$BVTRAIN_NNODES=x: error: "));
  CHECK(refused({"--config", "c.yaml"}, {{"BVTRAIN_MAX_RESTARTS", "-1"}})
            .starts_with("$BVTRAIN_MAX_RESTARTS=-1: error: "));
}

TEST_CASE("an empty value is refused, as of an unset shell variable") {
  const std::string empty = ": error: the value is empty (is a shell variable unset?)\n";
  const std::string config = source_file("configs/digits_cnn.yaml");
  CHECK(refused({"--config", config, "--workdir", ""}) == "--workdir" + empty);
  CHECK(refused({"--workdir", "", "eval", "--output", "o"}) == "--workdir" + empty);
  CHECK(refused({"data", "check", "--config", config, "--output", ""}) == "--output" + empty);
  CHECK(refused({"ckpt", "ls", ""}) == "workdir" + empty);
  const std::string null =
      ": error: the value is empty (is a shell variable unset?); write seed=null to remove the "
      "key\n";
  CHECK(refused({"--config", config, "--set", "seed="}) == "--set seed=" + null);
  CHECK(refused({"--config", config, "--config.seed="}) == "--config.seed=" + null);
  CHECK(refused({"--config", config, "--config.seed", ""}) == "--config.seed=" + null);
  CHECK(refused({"--config", config}, {{"BVTRAIN_WORKDIR", ""}}) ==
        "$BVTRAIN_WORKDIR: error: is empty, so nothing would be saved; set it to a folder or unset "
        "it\n");
  CHECK(run({"--version"}, {{"BVTRAIN_WORKDIR", ""}, {"BVTRAIN_NNODES", ""}}).code == 0);
}

TEST_CASE("a wrong command line is explained in plain words") {
  CHECK(refused({"--config", "a.yaml", "--config", "b.yaml"}) ==
        "bvtrain: error: --config: is given 2 times\n");
  CHECK(refused({"--config", "a.yaml", "--max-restarts", "two"}) ==
        "bvtrain: error: --max-restarts: 'two' is not an integer from 0 to 1000000\n");
  CHECK(refused({"--config"}) == "--config: error: needs a value\n");
  CHECK(refused({"ckpt", "diff", "A"}) ==
        "bvtrain: error: the argument B is missing; see bvtrain ckpt diff --help\n");
  CHECK(refused({"export", "--format", "foo", "--workdir", "w"}) ==
        "bvtrain: error: --format: expected one of npz, safetensors, timm, onnx, got 'foo'\n");
  CHECK(refused({"--config", "a.yaml", "--set", "lr", "3"}) ==
        "--set lr 3: error: write --set lr=3\n");
  CHECK(refused({"--config", "a.yaml", "--set", "lr", "=", "3"}) ==
        "--set lr = 3: error: write --set lr=3\n");
  CHECK(refused({"--config", "a.yaml", "--set", "lr:", "3"}) ==
        "--set lr: 3: error: write --set lr=3\n");
  CHECK(refused({"--config", "a.yaml"}, {{"BVTRAIN_SYNTHETIC", "foo"}}) ==
        "$BVTRAIN_SYNTHETIC=foo: error: --synthetic: expected true or false\n");
}

TEST_CASE("flags that print different things are not mixed") {
  const std::string config = source_file("configs/digits_cnn.yaml");
  CHECK(refused({"--config", config, "--explain", "--dry-run"}) ==
        "bvtrain: error: give either --dry-run or --explain\n");
  CHECK(refused({"--list", "ops", "--dry-run=full"}) ==
        "bvtrain: error: give either --dry-run or --list\n");
  CHECK(refused({"--version", "--list", "ops"}) ==
        "bvtrain: error: give either --list or --version\n");
}

TEST_CASE("a misspelt option is compared with those of its own command") {
  CHECK(refused({"predict", "--batch-siz", "3"}) ==
        "bvtrain: error: unknown option '--batch-siz' (did you mean '--batch-size'?); see "
        "--help\n");
  CHECK(refused({"bench", "scaling", "--bandwith-gb", "1", "--latency-us", "1"}) ==
        "bvtrain: error: unknown option '--bandwith-gb' (did you mean '--bandwidth-gb'?); see "
        "--help\n");
  CHECK(refused({"ckpt", "rm", "w", "--steps", "x"}) ==
        "bvtrain: error: --steps: 'x' is not an integer of at least 0\n");
  // Not octal and not hexadecimal.
  CHECK(refused({"ckpt", "rm", "w", "--steps", "8,010"}) ==
        "bvtrain: error: --steps: '010' has a leading zero: write 10\n");
  CHECK(refused({"predict", "--workdir", "w", "--batch-size", "0x10", "a.jpg"}) ==
        "bvtrain: error: --batch-size: '0x10' is not an integer from 1 to 65536\n");
  CHECK(refused({"--config", "c.yaml", "--workdir", "w", "--nnodes", "010"}) ==
        "bvtrain: error: --nnodes: '010' has a leading zero: write 10\n");
  CHECK(refused({"--config", "c.yaml", "-b", "32"}) ==
        "bvtrain: error: unknown option '-b': write --set input.batch_size=32\n");
  // Flags of other trainers: one is a key here, another a mapping.
  CHECK(refused({"--config", "c.yaml", "--epochs", "3"}) ==
        "bvtrain: error: unknown option '--epochs': write --set total_epochs=3\n");
  CHECK(refused({"--config", "c.yaml", "--patience", "3"}) ==
        "bvtrain: error: unknown option '--patience': write --set 'early_stop={metric: val/loss, "
        "patience_epochs: 10}'\n");
  // The key 'wd' means something else than weight decay elsewhere.
  CHECK(contains(refused({"--config", "c.yaml", "--l2", "0.05"}),
                 "unknown option '--l2': write --set wd=..., the product weight_decay * lr"));
  CHECK(refused({"predict", "--workdir", "w", "--ckpt", "3", "a.jpg"}) ==
        "bvtrain: error: unknown option '--ckpt': give the folder of the checkpoint as --workdir, "
        "such as out/ckpt/step-100, or --best\n");
  // Flags that the command does not take are not suggested.
  CHECK(refused({"schema", "--workdr", "x"}) ==
        "bvtrain: error: unknown option '--workdr'; see --help\n");
  CHECK(refused({"compare", "A", "--epochs", "3"}) ==
        "bvtrain: error: unknown option '--epochs'; see --help\n");
}

TEST_CASE("a misspelt command is compared with the commands") {
  CHECK(contains(refused({"predic", "--output", "x"}),
                 "bvtrain: error: unknown command 'predic' (did you mean 'predict'?); known: "));
  CHECK(refused({"bench", "memry"}) ==
        "bvtrain bench: error: unknown command 'memry' (did you mean 'memory'?); known: scaling, "
        "memory, operators, collectives\n");
  // What users of other trainers write.
  CHECK(refused({"q.yaml", "--workdir", "w"}) ==
        "bvtrain: error: unknown command 'q.yaml'; to train with this config, write --config "
        "q.yaml\n");
  CHECK(refused({"train", "--config", "q.yaml"}) ==
        "bvtrain: error: there is no command 'train'; to train, write bvtrain --config FILE\n");
}

}  // namespace bv::test

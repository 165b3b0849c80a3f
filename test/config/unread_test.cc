// Messages about unread keys, and about terms of other trainers.
#include <catch2/catch.hpp>
#include <set>

#include "lib/config/config.h"
#include "lib/config/familiar_table.h"
#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/config/load_config.h"
#include "lib/util/text.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

// The tables of data sets are not part of this program.
const KeyTable data_keys("input.data", {},
                         {{"name", "string", "required", "The source."},
                          {"split", "string", "train", "The part of the data set."}});
const KeyTable file_keys("input.data: file", {}, {{"fname", "string", "required", "The file."}});

std::string problems(const Config& config) {
  return error_of([&] { throw_problems(config); });
}

// Returns the rows of a table of familiar_table.h: lines that do not begin with a blank or '#'.
std::vector<std::vector<std::string>> rows_of(std::string_view table) {
  std::string joined;
  for (const std::string& line : split(table, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    joined += (line.starts_with(' ') ? " " : "\n") + trim(line);
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : split(joined, '\n')) {
    if (line.empty()) continue;
    rows.emplace_back();
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(" | ", begin), line.size());
      rows.back().push_back(line.substr(begin, end - begin));
      begin = end + 3;
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("a list of known keys is short, the most similar first") {
  std::string text = "log_evry_steps: 1\n";
  const Config c = parse_config(text, "x.yaml");
  for (char letter = 'a'; letter <= 'z'; ++letter) c.get(std::string(5, letter), int64_t{0});
  c.get("ckpt_steps", int64_t{0});
  c.get("steps_of_log", int64_t{0});
  c.done();
  CHECK(problems(c) ==
        "x.yaml:1:1: error: unknown key 'log_evry_steps'; known here: steps_of_log, ckpt_steps, "
        "aaaaa, bbbbb, ccccc, ddddd, eeeee, fffff, ... (bvtrain --explain lists all)");
  std::vector<std::string> ops;
  for (char letter = 'a'; letter <= 'i'; ++letter) ops.push_back(std::string(4, letter));
  CHECK(unknown_name_message("op", "q", ops) ==
        "unknown op 'q'; known: aaaa, bbbb, cccc, dddd, eeee, ffff, gggg, hhhh, iiii");
  ops.push_back("a_name_that_makes_the_list_long");
  CHECK(unknown_name_message("op", "a_list", ops) ==
        "unknown op 'a_list'; known: a_name_that_makes_the_list_long, aaaa, bbbb, cccc, dddd, "
        "eeee, ffff, gggg, ... (bvtrain --list ops prints all)");
}

TEST_CASE("a key that was read elsewhere is said to belong there") {
  const Config c = parse_config("special: 1\nown:\n  general: 2\n  x: 3\n", "x.yaml");
  const Config own = c.section("own");
  own.get("special", int64_t{0});
  own.get("xx", int64_t{0});
  c.get("general", int64_t{0});
  c.get("x", int64_t{0});
  c.done();
  CHECK(problems(c) ==
        "x.yaml:1:1: error: unknown key 'special': it belongs below 'own'\n"
        "x.yaml:3:3: error: unknown key 'own.general': it belongs at the top level\n"
        "x.yaml:4:3: error: unknown key 'own.x'; known here: special, xx");
}

TEST_CASE("a key of another data set's source is not said to belong there") {
  const Config c = parse_config(
      "input: {data: {name: csv, fname: a}}\n"
      "evals: {val: {data: {name: digits, fname: b}, train: {fname: c, split: test}}}\n",
      "x.yaml");
  const Config data = c.section("input").section("data");
  data.get<std::string>("name");
  data.get<std::string>("fname");
  const Config val = c.section("evals").section("val");
  val.section("data").get<std::string>("name");
  CHECK_FALSE(attempt(c, [&] { val.section("train").get<std::string>("name"); }));
  c.done(/*although_incomplete=*/true);
  CHECK(problems(c) ==
        "x.yaml:2:36: error: unknown key 'evals.val.data.fname'; known here: name\n"
        "x.yaml:2:54: error: evals.val.train.name: missing: a string is required");
}

TEST_CASE("an include stands at the top level of a file") {
  const Config c = parse_config("input: {include: base.yaml}\n", "x.yaml",
                                {{"include", "b.yaml", "--set include=b.yaml"}});
  CHECK_FALSE(attempt(c, [&] { c.section("input").get<int64_t>("batch_size"); }));
  c.done(/*although_incomplete=*/true);
  CHECK(problems(c) ==
        "--set include=b.yaml: error: unknown key 'include': only a file can include another\n"
        "x.yaml:1:8: error: input.batch_size: missing: an integer is required\n"
        "x.yaml:1:9: error: unknown key 'input.include': an included file is named at the top "
        "level only");
}

TEST_CASE("a key without a value may lack a ':' or a space") {
  const Config c = parse_config("seed: 0\nmodel: {width:64, depth 3, heads=2, x: 1}\n", "x.yaml");
  c.get("seed", int64_t{0});
  c.section("model").get("x", int64_t{0});
  c.done();
  CHECK(problems(c) ==
        "x.yaml:2:9: error: unknown key 'model.width:64'; a space is missing after the ':': write "
        "'width: 64'\n"
        "x.yaml:2:19: error: unknown key 'model.depth 3'; a ':' is missing: write 'depth: 3'\n"
        "x.yaml:2:28: error: unknown key 'model.heads=2'; a ':' is missing: write 'heads: 2'");
}

TEST_CASE("a value that goes on in the next line") {
  const Config c = parse_config("lr: 0.1\n  0.2\nseed: 0\n", "x.yaml");
  CHECK(error_of([&] { c.get<double>("lr"); }) ==
        "x.yaml:1:5: error: lr: expected a number, got '0.1 0.2' (it continues on the next line, "
        "which is indented deeper)");
}

TEST_CASE("a key that is read only to be rejected is not listed") {
  const Config c = parse_config("total: 5\n", "x.yaml");
  for (const char* key : {"total_steps", "total_percent"}) c.maybe<double>(key);
  c.done();
  CHECK(problems(c) == "x.yaml:1:1: error: unknown key 'total'; known here: total_steps");
}

TEST_CASE("a familiar word takes the place of the missing key") {
  const Config c = parse_config("learning_rate: 0.1\ninput: {bs: 8}\n", "x.yaml");
  CHECK_FALSE(attempt(c, [&] { c.get<double>("lr"); }));
  CHECK_FALSE(attempt(c, [&] { c.section("input").get<int64_t>("batch_size"); }));
  c.done(/*although_incomplete=*/true);
  CHECK(problems(c) ==
        "x.yaml:1:1: error: unknown key 'learning_rate': the learning rate is 'lr' here\n"
        "x.yaml:2:9: error: unknown key 'input.bs': this is 'batch_size' here");
}

TEST_CASE("a section whose reader gave up before it says nothing of its keys") {
  const Config c = parse_config("own: {a: 1, b: 2}\n", "x.yaml");
  CHECK_FALSE(attempt(c, [&] {
    c.section("own");
    c.get<double>("lr");
  }));
  c.done(/*although_incomplete=*/true);
  CHECK(problems(c) == "x.yaml: error: lr: missing: a number is required");
}

TEST_CASE("the tables of familiar words are well formed") {
  std::set<std::pair<std::string, std::string>> words, ours;
  for (const auto& row : rows_of(kKeyPlaces)) {
    REQUIRE(row.size() == 2);
    for (const std::string& key : split(row[1], ' ')) ours.insert({row[0], key});
  }
  CHECK(words.empty());
  for (const auto& row : rows_of(kFamiliarKeys)) {
    INFO(row[1]);
    REQUIRE(row.size() == 4);
    CHECK((row[2] != "-" || row[3] != "-"));
    for (const std::string& word : split(row[1], ' ')) {
      INFO(word);
      CHECK(words.insert({row[0], word}).second);
      CHECK(!ours.contains({row[0], word}));  // a key of this mapping
    }
  }
  for (const auto& row : rows_of(kFamiliarNames)) {
    INFO(row[1]);
    REQUIRE(row.size() == 4);
    CHECK(row[2] != "-");
  }
}

TEST_CASE("flags of other trainers") {
  constexpr auto npos = std::string::npos;
  CHECK(familiar_flag("--epochs").ours == "total_epochs");
  CHECK(familiar_flag("--batch-size").ours == "input.batch_size");
  CHECK(familiar_flag("--lr").ours == "lr");
  CHECK(familiar_flag("--pp").ours == "input.pp");
  CHECK(familiar_flag("--output_dir").advice == "the folder of a run is '--workdir DIR'");
  CHECK(familiar_flag("--jaxline_mode").ours.empty());
  CHECK(familiar_flag("--jaxline_mode").advice.starts_with("one run trains and evaluates"));
  CHECK(familiar_flag("--warmup-epochs").ours == "schedule.warmup_epochs");
  CHECK(familiar_flag("--mixup").ours == "mixup.p");
  CHECK(familiar_flag("--checkpoint-hist").ours == "max_checkpoints_to_keep");
  CHECK(familiar_flag("--img-size").ours.empty());  // its value is no value of 'input.pp'
  CHECK(familiar_flag("--img-size").advice.starts_with("this belongs to the ops of 'input.pp'"));
  // Both say what the number means here, not only where it belongs.
  CHECK(familiar_flag("--weight-decay").advice.find("weight_decay * lr") != npos);
  CHECK(familiar_flag("--grad-accum-steps").advice.find("splits 'input.batch_size'") != npos);
  // "write --set KEY=VALUE" would be wrong: the key does not take the value of the flag.
  for (const char* flag :
       {"--l2",         "--l2-reg",      "--decay",     "--wd",         "--cudnn-benchmark",
        "--image_size", "--resolution",  "--crop_size", "--normalize",  "--augment",
        "--transforms", "--randaugment", "--metrics",   "--validation", "--fp16",
        "--bf16",       "--half",        "--fp32",      "--ddp",        "--strategy",
        "--remat",      "--beta2",       "--b2"}) {
    INFO(flag);
    CHECK(familiar_flag(flag).ours.empty());
    CHECK(!familiar_flag(flag).advice.empty());
  }
  CHECK(familiar_flag("--wd").advice.find("weight_decay * lr") != npos);
  CHECK(familiar_flag("--cudnn-benchmark").advice.find("deterministic=false") != npos);
  CHECK(familiar_flag("--nothing").advice.empty());
}

}  // namespace bv::test

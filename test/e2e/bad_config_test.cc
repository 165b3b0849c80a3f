// Wrong includes, regular expressions and pp strings, with the real binary (bad_input.h).
#include <filesystem>

#include "test/e2e/bad_input.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const std::string kOneStep[] = {"--set", "total_epochs=null", "--set", "total_steps=1"};

}  // namespace

TEST_CASE("includes that form a cycle, or name no file") {
  Bad bad;
  const std::string rest = "\n" + read_file(source_file("configs/digits_cnn.yaml"));
  CHECK(bad.line("include: c.yaml" + rest) ==
        "c.yaml:1:10: error: include: 'c.yaml' includes itself\n");
  write(bad.dir / "a.yaml", "include: b.yaml\n");
  write(bad.dir / "b.yaml", "include: a.yaml\n");
  CHECK(bad.line("include: a.yaml" + rest) ==
        "b.yaml:1:10: error: include: 'a.yaml' includes itself\n");
  write(bad.dir / "b.yaml", "x: 1\ninclude: ./d.yaml\n");
  write(bad.dir / "d.yaml",
        "include: ../" + std::filesystem::path(bad.dir.path()).filename().string() + "/a.yaml\n");
  CHECK(bad.line("include: a.yaml" + rest) ==
        "d.yaml:1:10: error: include: 'a.yaml' includes itself\n");
  std::filesystem::create_symlink("c.yaml", bad.dir / "l.yaml");
  CHECK(bad.line("include: l.yaml" + rest) ==
        "l.yaml:1:10: error: include: 'l.yaml' includes itself\n");
  for (int i = 0; i < 40; ++i)
    write(bad.dir / ("n" + std::to_string(i) + ".yaml"),
          "include: n" + std::to_string(i + 1) + ".yaml\n");
  CHECK(bad.line("include: n0.yaml" + rest) ==
        "n14.yaml:1:10: error: include: more than 16 files, each including the next\n");

  CHECK(bad.line("include: no.yaml" + rest) ==
        "c.yaml:1:10: error: include: 'no.yaml': no such file\n");
  std::filesystem::create_directory(bad.dir / "f");
  CHECK(bad.line("include: f" + rest) == "c.yaml:1:10: error: include: 'f': is a folder\n");
  CHECK(bad.line("include: /dev/zero" + rest) ==
        "c.yaml:1:10: error: include: '/dev/zero': is a device, not a file\n");
  CHECK(bad.line("include: [a.yaml]" + rest) ==
        "c.yaml:1:10: error: include: expected a file name, got a list\n");
}

TEST_CASE("patterns that are not regular expressions") {
  Bad bad;
  const std::string grammar =
      " is not a valid regular expression (ECMAScript grammar: no lookbehind, no (?i), no named "
      "groups, no back-references)\n";
  const std::string config = without_evals(read_file(source_file("configs/digits_cnn.yaml")));
  const std::string schedule = "schedule: {decay_type: cosine, warmup_percent: 0.05}";
  for (const std::string pattern : {"(", "[z-a]", "*", "(a)\\1"}) {
    const std::string why = "the pattern '" + pattern + "'" + grammar;
    CHECK(bad.line(config + "\nlr_mults: [['" + pattern + "', 2]]\n") ==
          "c.yaml:29:11: error: lr_mults: " + why);
    CHECK(bad.line(config + "\nwd_mults: [['" + pattern + "', 2]]\n") ==
          "c.yaml:29:11: error: wd_mults: " + why);
    CHECK(
        bad.line(replaced(config, schedule, "schedule: [['" + pattern + "', null], ['.*', {}]]")) ==
        "c.yaml:22:11: error: schedule: " + why);
    CHECK(bad.line(config + "\nmodel_init: x.npz\nmodel_load: {dont_load: ['" + pattern + "']}\n")
              .starts_with("c.yaml:30:25: error: model_load.dont_load: " + why));
  }
  CHECK(bad.line(config + "\nlr_mults: [['" + std::string(100'000, '(') + "', 2]]\n") ==
        "c.yaml:29:11: error: lr_mults: the pattern '" + std::string(60, '(') +
            "...' has 100000 characters; at most 1000 are allowed\n");
  CHECK(bad.line(config + "\nlr_mults: [['((a{100}){100}){100}', 2]]\n") ==
        "c.yaml:29:11: error: lr_mults: the pattern '((a{100}){100}){100}' is too large with its "
        "repetitions written out\n");
}

TEST_CASE("a pattern that matches nothing gives a warning with its place; no pattern takes long") {
  TempFolder dir;
  std::string slow = "(";
  for (int i = 0; i < 30; ++i) slow += "(.*)*";
  slow += ")*x";
  const std::string config = without_evals(read_file(source_file("configs/digits_cnn.yaml")));
  write(dir / "c.yaml", replaced(config, "schedule: {decay_type: cosine, warmup_percent: 0.05}",
                                 "schedule: [['" + slow + "', {}], ['nobody', null], ['.*', {}]]") +
                            "\nlr_mults: [['(a*)*b', 2]]\nwd_mults: [['kernel', 1]]\n");
  std::vector<std::string> args = {"--config", dir / "c.yaml", "--workdir", dir / "w"};
  args.insert(args.end(), std::begin(kOneStep), std::end(kOneStep));
  const Finished finished = run(args);
  CHECK(finished.code == 0);
  CHECK(finished.seconds < kWatchdog);  // with backtracking it would never end
  for (const std::string& expected :
       {" " + (dir / "c.yaml") + ":22:11: warning: schedule: the pattern '" + slow +
            "' matches no parameter\n",
        " " + (dir / "c.yaml") +
            ":22:11: warning: schedule: the pattern 'nobody' matches no parameter\n",
        " " + (dir / "c.yaml") +
            ":29:11: warning: lr_mults: the pattern '(a*)*b' matches no parameter\n",
        " " + (dir / "c.yaml") +
            ":30:11: warning: wd_mults: the pattern 'kernel' matches no parameter\n"}) {
    INFO(finished.err.substr(0, 2000));
    CHECK(finished.err.find(expected) != std::string::npos);
  }
  // Patterns for weights to leave out when loading are checked too.
  REQUIRE(
      run({"export", "--workdir", dir / "w", "--format", "npz", "--output", dir / "m.npz"}).code ==
      0);
  write(dir / "c.yaml",
        config + "\nmodel_init: " + (dir / "m.npz") + "\nmodel_load: {dont_load: ['hed/.*']}\n");
  args[3] = dir / "v";
  const Finished loaded = run(args);
  CHECK(loaded.code == 0);
  CHECK(loaded.err.find(" warning: " + (dir / "c.yaml") +
                        ":30:25: model_load.dont_load: the pattern 'hed/.*' matches no "
                        "name of the model or the file\n") != std::string::npos);
}

TEST_CASE("an evaluator's metric may not have the name of a metric of the training") {
  const TempFolder dir;
  std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"), "--workdir",
                                   dir / "out"};
  args.insert(args.end(), std::begin(kOneStep), std::end(kOneStep));
  args.insert(args.end(), {"--set", "evals.test.prefix=training_"});
  const Finished clash = run(args);
  INFO(clash.err);
  CHECK(clash.code == 2);
  CHECK(contains(clash.err,
                 "measures 'training_loss', which is also a metric of the training: give "
                 "it another `prefix`"));
}

TEST_CASE("unknown ops and arguments are refused with the op's signature") {
  Bad bad;
  const std::string config = without_evals(read_file(source_file("configs/digits_cnn.yaml")));
  const auto line = [&](const std::string& call) {
    return bad.line(replaced(config, "value_range(-1, 1)", call));
  };
  CHECK(line("value_rang(-1, 1)")
            .starts_with("c.yaml:13:62: error: unknown op 'value_rang' (did you mean "
                         "'value_range'?); known: value_range, "));
  const std::string op =
      "; the op is value_range(vmin=-1, vmax=1, in_min=0, in_max=255, clip_values=False, key=None, "
      "inkey=None, outkey=None)\n";
  CHECK(line("value_range(-1, 1, foo=3)") ==
        "c.yaml:13:81: error: value_range: unknown argument 'foo'" + op);
  CHECK(line("value_range(vmx=1)") ==
        "c.yaml:13:74: error: value_range: unknown argument 'vmx' (did you mean 'vmax'?)" + op);
  CHECK(
      line("flip_lr(True, 0.5)|value_range(-1, 1)") ==
      "c.yaml:13:76: error: flip_lr: too many positional arguments: 2 given, 1 can be used; the op "
      "is flip_lr(alternate=False, inkey=None, key=None, outkey=None)\n");
  CHECK(line("resize(siz=8)|value_range(-1, 1)") ==
        "c.yaml:13:69: error: resize: unknown argument 'siz' (did you mean 'size'?); the op is "
        "resize(size, ...)\n");
}

TEST_CASE("flags of other trainers lead to ours") {
  const auto line = [](const std::vector<std::string>& args) {
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(line({"--epochs", "5"}) ==
        "bvtrain: error: unknown option '--epochs': write --set total_epochs=5\n");
  CHECK(line({"--batch-size=8", "--lr", "0.1"}) ==
        "bvtrain: error: unknown option '--batch-size': write --set input.batch_size=8\n");
  CHECK(line({"--lr"}) == "bvtrain: error: unknown option '--lr': write --set lr=VALUE\n");
  CHECK(line({"--output_dir", "out"}) ==
        "bvtrain: error: unknown option '--output_dir': the folder of a run is '--workdir DIR'\n");
  CHECK(line({"--jaxline_mode=train"}) ==
        "bvtrain: error: unknown option '--jaxline_mode': one run trains and evaluates; 'bvtrain "
        "eval --workdir DIR --follow' evaluates during training, and 'bvtrain predict' applies a "
        "checkpoint to data\n");
  CHECK(line({"--dry_run"}) ==
        "bvtrain: error: unknown option '--dry_run' (did you mean '--dry-run'?)\n");
}

TEST_CASE("all problems of a file come at once, and with --explain beside what was read") {
  Bad bad;
  const std::string config =
      "epochs: 5\nnum_classes: 10\nlog_training_steps: 2\ninput:\n  data: {name: digits}\n"
      "  batch_size: 8\n  pp: value_rang(-1, 1)\nmodel_name: cnn\nmodel: {widths: [8], dens: 4}\n"
      "optax_name: scale_by_adam\nlr: fast\n";
  const std::string lines =
      "c.yaml:1:1: error: unknown key 'epochs': the length of training is 'total_epochs' here\n"
      "c.yaml:7:7: error: unknown op 'value_rang' (did you mean 'value_range'?); known: "
      "value_range, ";
  const std::string rest =
      "c.yaml:9:22: error: unknown key 'model.dens' (did you mean 'dense'?)\n"
      "c.yaml:11:5: error: lr: expected a number, got 'fast'\n";
  const std::string told = bad.line(config);
  INFO(told);
  CHECK(told.starts_with(lines));
  CHECK(told.ends_with(rest));
  const Finished explained = bad.refuse(config, {"--explain"});
  CHECK(bad.here(explained.err) == told);
  CHECK(explained.out.find("\ninput.batch_size ") != std::string::npos);
  // In one file the problems follow the table.
  const std::string line = "\"$BVTRAIN\" --config '" + (bad.dir / "c.yaml") + "' --explain 2>&1";
  const Finished together = Process("/bin/sh", {"/bin/sh", "-c", line}, {}).wait();
  CHECK(bad.here(together.out).ends_with("\n" + told));
}

}  // namespace bv::test

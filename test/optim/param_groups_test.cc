// How patterns define groups: the first match, frozen parameters, and exact messages.
#include "lib/optim/param_groups.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

const std::vector<std::string> kNames = {"embedding/kernel", "embedding/bias", "block/norm/scale",
                                         "head/kernel", "head/bias"};

struct Read {
  explicit Read(const std::string& yaml) : config(parse_config(yaml, "t.yaml")) {
    attempt(config, [&] {
      groups = read_groups(config, kNames, {.batch_size = 8, .data_size = 80, .total_steps = 20});
    });
    config.done();
    try {
      throw_problems(config);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
      problems = error.what();
    }
  }
  const ParamGroups::Group& group(size_t name) const {
    return groups.groups.at(static_cast<size_t>(groups.group_of.at(name)));
  }
  Config config;
  ParamGroups groups;
  std::string problems;
};

}  // namespace

TEST_CASE(
    "the default schedule is constant 1; the default weight decay is for kernels with a parent") {
  const Read read("{lr: 0.1, wd: 0.01}");
  CHECK(read.problems.empty());
  CHECK(read.groups.lr == 0.1F);
  REQUIRE(read.groups.schedules.size() == 1);
  CHECK(read.groups.schedules[0](7) == 1.0F);
  CHECK(read.groups.group_of == std::vector<int>{0, 1, 1, 0, 1});
  CHECK(read.group(0).weight_decay == 0.01F);
  CHECK(read.group(1).weight_decay == 0.0F);
}

TEST_CASE("the first pattern that matches the full name wins") {
  const Read read(
      "{lr: 20, wd: 2.0,\n"
      " lr_mults: [['head/.*', 3.0], ['.*kernel', 0.5], ['kernel', 9.0]],\n"
      " wd_mults: [['head/kernel', 10], ['.*/(kernel|bias)', 0.25]],\n"
      " schedule: [['embedding/.*', null], ['.*/scale', {mult: 7}], ['.*', {mult: 5}]]}");
  CHECK(read.problems.empty());
  REQUIRE(read.groups.schedules.size() == 2);
  CHECK(read.groups.schedules[0](0) == 7.0F);
  CHECK(read.groups.group_of == std::vector<int>{kFrozen, kFrozen, 0, 1, 2});
  CHECK((read.group(2) == ParamGroups::Group{.schedule = 0, .lr_mult = 1, .weight_decay = 0}));
  CHECK((read.group(3) == ParamGroups::Group{.schedule = 1, .lr_mult = 3, .weight_decay = 20}));
  CHECK((read.group(4) == ParamGroups::Group{.schedule = 1, .lr_mult = 3, .weight_decay = 0.5}));
  // No parameter has the full name "kernel".
  CHECK(warnings(read.config) ==
        std::vector<std::string>{
            "t.yaml:2:12: warning: lr_mults: the pattern 'kernel' matches no parameter",
            "t.yaml:2:12: warning: lr_mults: the pattern '.*kernel' has no effect: all of its "
            "parameters are frozen"});
}

TEST_CASE("patterns that earlier ones leave nothing give a warning, but not a catch-all") {
  const std::string why =
      "' has no effect: earlier patterns match all of its parameters, and the first match counts";
  CHECK(warnings(Read("{lr: 0.1, lr_mults: [['.*', 1], ['head/.*', 10]]}").config) ==
        std::vector<std::string>{"t.yaml:1:21: warning: lr_mults: the pattern 'head/.*" + why});
  CHECK(warnings(Read("{lr: 0.1, schedule: [['.*/bias', {}], ['.*/(kernel|scale)', {}], "
                      "['head/bias', null], ['.*', null]]}")
                     .config) ==
        std::vector<std::string>{"t.yaml:1:21: warning: schedule: the pattern 'head/bias" + why});
}

TEST_CASE("factors of a weight decay that is not given have no effect") {
  CHECK(warnings(Read("{lr: 0.1, wd_mults: [['.*/kernel', 1]]}").config) ==
        std::vector<std::string>{"t.yaml:1:21: warning: wd_mults: has no effect without wd"});
  CHECK(warnings(Read("{lr: 0.1, wd: 0, wd_mults: [['.*/kernel', 1]]}").config).empty());
  CHECK(warnings(Read("{lr: 0.1}").config).empty());
}

TEST_CASE("factors of parameters that are all frozen give a warning") {
  const std::string frozen = ", schedule: [['head/.*', null], ['.*', {}]]}";
  CHECK(warnings(Read("{lr: 0.1, lr_mults: [['head/.*', 10], ['.*/bias', 2]]" + frozen).config) ==
        std::vector<std::string>{"t.yaml:1:21: warning: lr_mults: the pattern 'head/.*' has no "
                                 "effect: all of its parameters are frozen"});
  CHECK(warnings(Read("{lr: 0.1, wd: 1, wd_mults: [['head/kernel', 2]]" + frozen).config).size() ==
        1);
  // A run's config.yaml states the default.
  const std::vector<std::string> none = {
      "t.yaml:1:15: warning: wd: has no effect: no trained parameter has weight decay; see "
      "wd_mults"};
  CHECK(warnings(Read("{lr: 0.1, wd: 1, wd_mults: [['.*/kernel$', 1]], schedule: [['.*/kernel', "
                      "null], ['.*', {}]]}")
                     .config) == none);
  CHECK(warnings(Read("{lr: 0.1, wd: 1, wd_mults: []}").config) == none);
}

TEST_CASE("a weight decay that belongs to an optimizer of PyTorch gives a warning") {
  const auto line = [](const std::string& column, const std::string& what) {
    return std::vector<std::string>{"t.yaml:1:" + column + ": warning: wd: each step takes up to " +
                                    what + " here"};
  };
  CHECK(warnings(Read("{lr: 0.001, wd: 0.05}").config) ==
        line("17",
             "5 % of a weight, because 'lr' does not multiply 'wd'; PyTorch's "
             "AdamW(lr=0.001, weight_decay=0.05) is 'wd: 5e-05'"));
  CHECK(warnings(Read("{lr: 0.001, wd: 0.01}").config).size() == 1);
  CHECK(warnings(Read("{lr: 0.001, wd: 0.002, wd_mults: [['head/.*', 10]]}").config) ==
        line("17",
             "2 % of a weight, because 'lr' does not multiply 'wd'; PyTorch's "
             "AdamW(lr=0.001, weight_decay=0.02) is 'wd: 2e-05'"));
  CHECK(warnings(Read("{lr: 0.001, wd: 0.005}").config).empty());
  CHECK(warnings(Read("{lr: 0.6, wd: 0.02}").config).empty());  // SGD
  CHECK(warnings(Read("{lr: 0, wd: 0.05}").config).empty());
  CHECK(warnings(Read("{lr: 0.001, wd: 0.05, schedule: [['.*kernel', null], ['.*', {}]]}").config)
            .size() == 1);  // that it has no effect
}

TEST_CASE("bad patterns are refused") {
  CHECK(Read("{lr: 0.1, lr_mults: [['/head/.*', 2]]}").problems ==
        "t.yaml:1:21: error: lr_mults: the pattern '/head/.*' starts with '/', but no parameter's "
        "name does; drop the '/'");
  CHECK(Read("{lr: 0.1, wd_mults: [['head/(.*', 2]]}").problems ==
        "t.yaml:1:21: error: wd_mults: the pattern 'head/(.*' is not a valid regular expression "
        "(ECMAScript grammar: no lookbehind, no (?i), no named groups, no back-references)");
  CHECK(Read("{lr: 0.1, lr_mults: [['.*', 0]]}").problems ==
        "t.yaml:1:21: error: lr_mults: the multiplier of '.*' must be positive, got 0; to freeze "
        "parameters give them a null schedule");
  CHECK(Read("{lr: 0.1, lr_mults: [['" + std::string(1001, 'a') + "', 1]]}").problems ==
        "t.yaml:1:21: error: lr_mults: the pattern '" + std::string(60, 'a') +
            "...' has 1001 characters; at most 1000 are allowed");
}

TEST_CASE("rates and factors below zero are refused, zero is not") {
  CHECK(Read("{lr: -0.1}").problems == "t.yaml:1:6: error: lr: must not be negative, got -0.1");
  CHECK(Read("{lr: .inf}").problems ==
        "t.yaml:1:6: error: lr: expected a finite number, got '.inf'");
  CHECK(Read("{lr: 0.1, lr_mults: [['.*', -2]]}").problems ==
        "t.yaml:1:21: error: lr_mults: the multiplier of '.*' must be positive, got -2; to freeze "
        "parameters give them a null schedule");
  CHECK(Read("{lr: 0.1, wd: -1e-4}").problems ==
        "t.yaml:1:15: error: wd: must not be negative, got -0.0001");
  CHECK(Read("{lr: 0.1, wd: 1, wd_mults: [['head/.*', -1]]}").problems ==
        "t.yaml:1:28: error: wd_mults: the multiplier of 'head/.*' must not be negative, got -1");
  const Read zero("{lr: 0, wd: 0, wd_mults: [['.*', 0]]}");
  CHECK(zero.problems.empty());
  CHECK(zero.groups.lr == 0.0F);
}

TEST_CASE("bad schedules are refused") {
  CHECK(Read("{lr: 0.1, schedule: [['head/.*', {mult: 2}], ['.*/scale', null]]}").problems ==
        "t.yaml:1:21: error: schedule: no pattern matches embedding/kernel, embedding/bias; add an "
        "entry ['.*', {...}], or ['.*', null] to freeze the rest");
  CHECK(Read("{lr: 0.1, schedule: []}").problems ==
        "t.yaml:1:21: error: schedule: is an empty list; leave it out for a constant learning "
        "rate");
  CHECK(Read("{lr: 0.1, schedule: [['.*', null]]}").problems ==
        "t.yaml:1:21: error: schedule: every entry is null: nothing would be trained");
  CHECK(Read("{lr: 0.1, schedule: [['.*', null], ['head/.*', {}]]}").problems ==
        "t.yaml:1:21: error: schedule: every parameter is frozen: nothing would be trained");
  CHECK(Read("{lr: 0.1, schedule: [['.*', {decay_type: cosine, warmup_step: 3}]]}").problems ==
        "t.yaml:1:50: error: unknown key 'schedule[0].warmup_step' (did you mean "
        "'warmup_steps'?)");
  CHECK(Read("{lr: 0.1, schedule: [['.*', 3]]}").problems ==
        "t.yaml:1:22: error: schedule[0]: expected [pattern, mapping] or [pattern, null], got a "
        "list");
  CHECK(Read("{wd: 0.1}").problems == "t.yaml: error: lr: missing: a number is required");
}

TEST_CASE("a wrong pattern in a schedule is the only problem that is reported") {
  CHECK(Read("{lr: 0.1, schedule: [['.*(?<!bias)', {}], ['.*', null]]}").problems ==
        "t.yaml:1:21: error: schedule: the pattern '.*(?<!bias)' is not a valid regular expression "
        "(ECMAScript grammar: no lookbehind, no (?i), no named groups, no back-references)");
  const Read read("{lr: 0.1, wd: 1, schedule: [['/head/.*', {}], ['.*/scale', null]]}");
  CHECK(read.problems ==
        "t.yaml:1:28: error: schedule: the pattern '/head/.*' starts with '/', but no parameter's "
        "name does; drop the '/'");
  CHECK(read.groups.group_of == std::vector<int>{0, 1, 1, 0, 1});
}

TEST_CASE("the schedules of a list keep their defaults in the resolved config") {
  const Read read("{lr: 0.1, schedule: [['head/.*', null], ['.*', {mult: 2}]]}");
  CHECK_THAT(resolved_yaml(read.config), Catch::Contains("head/.*") && Catch::Contains("mult: 2"));
}

TEST_CASE("groups become ranges of the flat buffers") {
  TinyModel model;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(model)) names.push_back(name);
  const Config config = parse_config(
      "{lr: 0.1, wd: 0.5, lr_mults: [['head/.*', 2]], schedule: [['body/bias', null], ['.*', {}]]}",
      "t.yaml");
  const ParamGroups groups = read_groups(config, names, {.total_steps = 5});
  const FlatParams params(model, groups.group_of);
  const auto ranges = update_ranges(groups, params);
  // In order of registration: body/kernel, then head/kernel, then head/bias.
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].begin == 0);
  CHECK(ranges[0].end == 320);
  CHECK(ranges[0].weight_decay == 0.5F);
  CHECK(ranges[1].begin == 320);
  CHECK(ranges[1].end == 448);
  CHECK(ranges[1].lr_mult == 2.0F);
  CHECK(ranges[2].begin == 448);
  CHECK(ranges[2].end == params.trainable_size());
  CHECK(ranges[2].weight_decay == 0.0F);
}

}  // namespace bv::test

// Examples that fail: which batch reports them, the message, the exit code, and the error budget.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <new>
#include <set>

#include "lib/input/loader/loader.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/shuffle.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/input/fake_source.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr uint64_t kErrorsSeed = 77;
const std::string kHint = " (input.skip_errors: N skips up to N such examples)";

LoaderOptions budget_options(int64_t batch_size, int threads, int64_t budget,
                             bool shuffled = false) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.threads = threads;
  options.seed = kErrorsSeed;
  options.shuffle = shuffled;
  options.error_budget = budget;
  return options;
}

struct Thrown {
  std::string text;
  Exit code = Exit::ok;
};
template <class F>
Thrown thrown(const F& run) {
  try {
    run();
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}
Thrown next_error(Loader& loader) {
  return thrown([&] { loader.next(); });
}

// Returns what `run` writes to stderr.
template <class F>
std::string captured_stderr(const F& run) {
  const std::string file = fmt::format("/tmp/loader_errors_test.{}", getpid());
  std::fflush(stderr);
  const int saved = dup(2);
  FILE* const to = std::fopen(file.c_str(), "w");
  dup2(fileno(to), 2);
  run();
  std::fflush(stderr);
  dup2(saved, 2);
  ::close(saved);
  std::fclose(to);
  const std::string text = read_file(file);
  unlink(file.c_str());
  return text;
}

TEST_CASE("a failing example is an error of its batch") {
  const bool array = GENERATE(false, true);
  for (const int threads : {1, 2, 8}) {
    // 21 and 22 are in the third batch of 10; 35 would fail too, but comes later.
    Loader loader(dataset(failing(40, {22, 21, 35}, array)), pipeline(""),
                  budget_options(10, threads, 0));
    CHECK(next_labels(loader)[9] == 9);
    CHECK(next_labels(loader)[9] == 19);
    for (int again = 0; again < 2; ++again) {
      const Thrown error = next_error(loader);
      CHECK(error.text == "[input] train/21.png: truncated" + kHint);
      CHECK(error.code == Exit::data);
    }
    loader.seek(4);
    CHECK(next_labels(loader)[9] == 9);
  }
}

TEST_CASE("threads that cannot start are an error at the place of their number") {
  LoaderOptions many = budget_options(10, kTooManyThreads, 0);
  many.threads_place = Place{"c.yaml", 4, 12};
  Loader loader(dataset(failing(40, {})), pipeline(""), many);
  Thrown error;
  {
    const Limit little = little_memory();
    error = next_error(loader);
  }
  CHECK(error.code == Exit::usage);
  CHECK(error.text ==
        "c.yaml:4:12: error: input.threads: can't start 200 loader threads: Resource temporarily "
        "unavailable; lower the number, or raise the limits on processes and memory (ulimit -u, "
        "ulimit -v)");
}

TEST_CASE("an example that fails before the first batch is not an error yet") {
  // The shapes come from another example.
  Loader loader(dataset(failing(40, {0, 1})), pipeline(""), budget_options(10, 2, 0));
  loader.seek(2);
  CHECK(next_labels(loader)[0] == 20);
  loader.seek(0);
  CHECK(next_error(loader).text == "[input] train/0.png: truncated" + kHint);
  Loader none(dataset(failing(3, {0, 1, 2})), pipeline(""), budget_options(2, 2, 3));
  CHECK(next_error(none).text == "[input] train/0.png: truncated");
}

TEST_CASE("exceptions become one line that names the example once") {
  std::function<void()> raise;
  const auto source = std::make_shared<FakeSource>(4);
  source->on_read = [&](int64_t index) {
    if (index == 3) raise();
  };
  const auto line = [&](std::function<void()> exception) {
    raise = std::move(exception);
    Loader loader(dataset(source), pipeline(""), budget_options(4, 1, 0));
    Thrown error = next_error(loader);
    if (error.text.ends_with(kHint)) error.text.resize(error.text.size() - kHint.size());
    return error;
  };
  const auto data_error = [](std::string_view where, std::string_view why) {
    return [=] { throw Error(Exit::data, where, why); };
  };
  CHECK(line(data_error("", "too short")).text == "[input] train/3.png: too short");
  CHECK(line(data_error("train/3.png", "too short")).text == "[input] train/3.png: too short");
  CHECK(line(data_error("train/3.png @ offset 7", "not a marker")).text ==
        "[input] train/3.png: train/3.png @ offset 7: error: not a marker");
  CHECK(line([] { throw Error::in("pp", Exit::data, "[1, 2] is no size"); }).text ==
        "[input] train/3.png: [1, 2] is no size");
  CHECK(line([] { throw std::runtime_error("first\nsecond"); }).text ==
        "[input] train/3.png: first");
  CHECK(line([] { at::full({2}, 1).add_(at::full({3}, 1)); }).text ==
        "[input] train/3.png: The size of tensor a (2) must match the size of tensor b (3) at "
        "non-singleton dimension 0");
  CHECK(line([] { throw 7; }).text == "[input] train/3.png: unknown exception");

  CHECK(line([] { throw std::runtime_error("x"); }).code == Exit::data);
  CHECK(line([] { throw Error(Exit::usage, "", "x"); }).code == Exit::data);
  CHECK(line([] { throw Error(Exit::internal, "", "x"); }).code == Exit::internal);
  CHECK(line([] { throw std::bad_alloc(); }).code == Exit::memory);
  CHECK(line([] { throw std::bad_alloc(); }).text == "[input] train/3.png: out of memory");
}

TEST_CASE("only errors of an example count against the budget") {
  const auto source = std::make_shared<FakeSource>(4);
  Exit code = Exit::data;
  source->on_read = [&](int64_t index) {
    if (index == 3) throw Error(code, "", "bad");
  };
  for (code = Exit::data; const Exit each : {Exit::usage, Exit::internal, Exit::memory}) {
    code = each;
    Loader loader(dataset(source), pipeline(""), budget_options(4, 1, 4));
    CHECK(next_error(loader).text == "[input] train/3.png: bad");
  }
}

TEST_CASE("in training another example replaces one that fails") {
  const bool array = GENERATE(false, true);
  const std::set<int64_t> bad = {4, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28};
  const std::string warnings = captured_stderr([&] {
    for (const int threads : {1, 8}) {
      Loader loader(dataset(failing(30, bad, array)), pipeline("flip_lr"),
                    budget_options(11, threads, 11, true));
      const auto clean = dataset(std::make_shared<FakeSource>(30, array));
      for (int64_t b = 0; b < 6; ++b) {  // more than two epochs, but each example counts once
        const Batch& batch = loader.next();
        for (int64_t i = 0; i < 11; ++i) {
          const int64_t p = b * 11 + i;
          int64_t index = shuffle(kErrorsSeed, p / 30, p % 30, 30);
          Rng replacement(kErrorsSeed, Purpose::shuffle, p);
          while (bad.contains(index)) index = replacement.below(30);
          Example wanted = clean->read(index);
          Rng rng(kErrorsSeed, Purpose::augment, p);
          pipeline("flip_lr")->apply(wanted, rng);
          REQUIRE(batch.at("label")[i].item<int64_t>() == index);
          REQUIRE(at::equal(batch.at("image")[i], wanted["image"]));
        }
      }
      CHECK(loader.take_failed().size() == 11);
    }
  });
  const std::vector<std::string> lines = split(trim(warnings), '\n');
  REQUIRE(lines.size() == 22);  // for each loader 10 lines and a last one
  CHECK_THAT(lines[0], Catch::Contains(".png: truncated (another example takes its place)"));
  CHECK_THAT(lines[10], Catch::Contains("further failing examples are counted but not listed"));
  for (size_t i = 0; i < 11; ++i) {  // the number of threads does not matter, but the time does
    const auto told = [](const std::string& line) { return line.substr(line.find("warning")); };
    CHECK(told(lines[i]) == told(lines[i + 11]));
  }
}

TEST_CASE("an example of weight 0 replaces no other") {
  const bool array = GENERATE(false, true);
  captured_stderr([&] {
    TrainingData::Part part{"", dataset(failing(6, {0}, array)), pipeline("flip_lr")};
    part.sampler = sample_weighted(std::vector<double>{1, 0, 1, 0, 0, 0});
    Loader loader(std::make_shared<TrainingData>(std::vector<TrainingData::Part>{part}),
                  budget_options(12, 2, 1));
    for (int b = 0; b < 3; ++b) CHECK(next_labels(loader) == std::vector<int64_t>(12, 2));
  });
}

TEST_CASE("above the budget the next failing example stops the run") {
  captured_stderr([] {
    for (const int threads : {1, 8}) {
      Loader loader(dataset(failing(4000, {3, 5, 17, 36})), pipeline(""),
                    budget_options(10, threads, 2));
      loader.next();
      CHECK(loader.take_failed().size() == 2);
      const Thrown error = next_error(loader);
      CHECK(error.text ==
            "[input] train/17.png: truncated (3 examples failed; input.skip_errors allows 2)");
      CHECK(error.code == Exit::data);
      CHECK(next_error(loader).text == error.text);
    }
  });
}

TEST_CASE("a label out of range stops the run at its batch, whatever the budget") {
  const bool array = GENERATE(false, true);
  const auto pp = pipeline("onehot(17, key='label', key_result='labels')");
  for (const bool evaluation : {false, true}) {
    LoaderOptions given = budget_options(10, 2, 100);
    given.evaluation = evaluation;
    Loader loader(dataset(std::make_shared<FakeSource>(40, array)), pp, given);
    loader.next();
    const Thrown error = next_error(loader);
    CHECK(error.text == "[input] train/17.png: onehot: 'label' is 17, must be within 0 .. 16");
    CHECK(error.code == Exit::data);
    CHECK(loader.take_failed().empty());
  }
}

TEST_CASE("examples that fail for the first time are handed over once") {
  const auto names = [](Loader& loader) {
    std::vector<std::string> all;
    for (const FailedExample& each : loader.take_failed()) {
      CHECK(each.reason == "truncated");
      CHECK(each.name == fmt::format("train/{}.png", each.index));
      all.push_back(each.name);
    }
    return all;
  };
  using Names = std::vector<std::string>;
  captured_stderr([&] {
    Loader loader(dataset(failing(20, {3, 5, 17})), pipeline(""), budget_options(10, 2, 3));
    loader.next();
    CHECK(names(loader) == Names{"train/3.png", "train/5.png"});
    CHECK(names(loader).empty());
    for (int b = 0; b < 5; ++b) loader.next();
    CHECK(names(loader) == Names{"train/17.png"});

    // Failures in an earlier process of the run count, and are not reported again.
    Loader again(dataset(failing(20, {3, 5, 17})), pipeline(""), budget_options(10, 2, 2));
    again.add_failed("train/3.png");
    again.next();
    CHECK(names(again) == Names{"train/5.png"});
    CHECK(next_error(again).text ==
          "[input] train/17.png: truncated (3 examples failed; input.skip_errors allows 2)");
  });
}

TEST_CASE("the budget of an evaluation is that of one pass") {
  captured_stderr([] {
    std::set<int64_t> bad = {2};
    const auto source = std::make_shared<FakeSource>(6);
    source->on_read = [&bad](int64_t index) {
      if (bad.contains(index)) throw Error(Exit::data, "", "truncated");
    };
    LoaderOptions given = budget_options(6, 1, 1);
    given.evaluation = true;
    given.section = "evals.test";
    Loader loader(dataset(source), pipeline(""), given);
    for (const int64_t index : {2, 3, 4}) {
      loader.seek(0);  // ends the threads, which read `bad`
      bad = {index};
      loader.next();
      CHECK(loader.failed_rows() == 1);
    }
    loader.seek(0);
    bad = {2, 3};
    CHECK(next_error(loader).text ==
          "[input] train/3.png: truncated (2 examples failed; evals.test.skip_errors allows 1)");
  });
}

TEST_CASE("replacements end when nothing can be read") {
  std::set<int64_t> bad;
  for (int64_t i = 1; i < 1000; ++i) bad.insert(i);
  captured_stderr([&] {
    Loader loader(dataset(failing(1000, bad)), pipeline(""), budget_options(10, 2, 100000));
    loader.seek(1);
    CHECK_THAT(next_error(loader).text,
               Catch::EndsWith(".png: truncated (the last of 20 replacements in a row)"));
  });
}

TEST_CASE("in evaluation a failing example is masked out") {
  const bool array = GENERATE(false, true);
  const std::string warnings = captured_stderr([&] {
    LoaderOptions given = budget_options(4, 2, 1);
    given.evaluation = true;
    given.prefetch = 0;
    Loader loader(dataset(failing(6, {2}, array)), pipeline(""), given);
    for (int pass = 0; pass < 2; ++pass) {
      loader.seek(0);
      CHECK(next_labels(loader) == std::vector<int64_t>{0, 1, 0, 3});
      loader.seek(0);
      const Batch& batch = loader.next();
      CHECK(!batch.at("_mask")[2].item<bool>());
      CHECK(batch.at("_mask").sum().item<int64_t>() == 3);
      CHECK(batch.at("image")[2].sum().item<int64_t>() == 0);
      CHECK(loader.take_failed().size() == (pass == 0 ? 1U : 0U));
      CHECK(loader.failed_rows() == 1);
      loader.next();
      CHECK(loader.failed_rows() == 1);
      loader.seek(0);
      CHECK(loader.failed_rows() == 0);
    }
  });
  CHECK_THAT(warnings, Catch::EndsWith("[input] train/2.png: truncated (skipped)\n"));
}

TEST_CASE("a caller may list the failures itself, and give the shapes of the examples") {
  std::set<int64_t> bad;
  for (int64_t i = 0; i < 25; ++i) bad.insert(i);
  const auto data = dataset(failing(30, bad)), none = dataset(failing(3, {0, 1, 2}));
  LoaderOptions given = budget_options(10, 2, 30);
  given.evaluation = true;
  CHECK(thrown([&] { Loader(none, pipeline(""), given).next(); }).code == Exit::data);
  size_t failures = 0;
  given.prototype = data->read(29);
  given.warns = false;
  const std::string warnings = captured_stderr([&] {
    Loader loader(data, pipeline(""), given);
    CHECK(next_labels(loader) == std::vector<int64_t>(10));
    for (const auto& [index, name, reason, files] : loader.take_failed()) {
      CHECK(name == fmt::format("train/{}.png", index));
      CHECK(reason == "truncated");
      ++failures;
    }
    CHECK(failures == 10);
    next_labels(loader);
    CHECK(next_labels(loader) == std::vector<int64_t>{0, 0, 0, 0, 0, 25, 26, 27, 28, 29});
  });
  CHECK(warnings.empty());
}

TEST_CASE("examples of different shapes stop the run at once, whatever the budget") {
  const bool array = GENERATE(false, true);
  const auto line = [&](std::function<void(Example&)> transform) {
    const auto source = std::make_shared<FakeSource>(40, array);
    source->transform = [=](int64_t index, Example& example) {
      if (index == 17) transform(example);
    };
    Loader loader(dataset(source), pipeline(""), budget_options(10, 2, 5));
    loader.next();
    const Thrown error = next_error(loader);
    CHECK(error.code == Exit::data);
    return error.text;
  };
  CHECK(
      line([](Example& example) {
        example["image"] = at::full({3, 5, 3}, 1, at::kByte);
      }) ==
      "[input] train/17.png: feature 'image' has shape (3, 5, 3), but (6, 5, 3) in other examples: "
      "add an op such as resize or random_crop to pp that makes all shapes equal");
  CHECK(line([](Example& example) { example["image"] = example["image"].to(at::kFloat); }) ==
        "[input] train/17.png: feature 'image' is float32, but uint8 in other examples");
  CHECK(line([](Example& example) { example.erase("label"); }) ==
        "[input] train/17.png: feature 'label' is missing, but other examples have it");
  CHECK(line([](Example& example) { example["extra"] = example["label"]; }) ==
        "[input] train/17.png: feature 'extra' is not in other examples: remove it with "
        "drop('extra')");
  CHECK(line([](Example& example) { example["zz"] = example["label"]; }) ==
        "[input] train/17.png: feature 'zz' is not in other examples: remove it with "
        "drop('zz')");
}

TEST_CASE("encoded images that no op decodes are an error with its own hint") {
  const auto source = std::make_shared<FakeSource>(4);
  source->transform = [](int64_t index, Example& example) {
    example["image"] = at::full({100 + index}, 1, at::kByte);
  };
  Loader loader(dataset(source), pipeline(""), budget_options(4, 1, 0));
  CHECK(next_error(loader).text ==
        "[input] train/1.png: feature 'image' has shape (101), but (100) in other examples: "
        "add decode to pp, or remove the feature with drop('image') or keep('label')");
}

TEST_CASE("texts of unequal length are an error that names both shapes and the remedies") {
  const auto source = std::make_shared<FakeSource>(4);
  const auto line = [&](std::string_view name, const std::string& start) {
    source->transform = [=](int64_t index, Example& example) {
      example[std::string(name)] = text_tensor(start + std::string(index, 'x'));
    };
    Loader loader(dataset(source), pipeline(""), budget_options(4, 1, 0));
    return next_error(loader).text;
  };
  CHECK(line("caption", "a cat") ==
        "[input] train/1.png: feature 'caption' has shape (6), but (5) in other examples: "
        "add pad_to_shape to pp, or remove the feature with drop('caption') or "
        "keep('image', 'label')");
  CHECK(line("photo", "\xFF\xD8\xFF\xE0") ==
        "[input] train/1.png: feature 'photo' has shape (5), but (4) in other examples: "
        "add decode to pp, or remove the feature with drop('photo') or keep('image', 'label')");
}

TEST_CASE("a batch that cannot be allocated is a memory error") {
  Loader loader(dataset(std::make_shared<FakeSource>(4)), pipeline(""),
                budget_options(int64_t{1} << 60, 1, 0));
  const Thrown error = next_error(loader);
  CHECK(error.code == Exit::memory);
  CHECK_THAT(error.text, Catch::StartsWith("[input] no memory for 3 batches of feature 'image' "
                                           "(1152921504606846976, 6, 5, 3) (uint8, "));
}

TEST_CASE("an empty data set is refused") {
  const Thrown error = thrown([] {
    Loader(dataset(std::make_shared<FakeSource>(0)), pipeline(""), budget_options(4, 1, 0));
  });
  CHECK(error.code == Exit::usage);
}

}  // namespace
}  // namespace bv::test

// Which examples of a data set are checked before a run, and how failures are reported.
#include "lib/input/loader/check_examples.h"

#include <catch2/catch.hpp>
#include <set>

#include "lib/input/loader/loader.h"
#include "test/input/fake_source.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

using Bounds = std::vector<std::pair<int64_t, int64_t>>;

// A source with known labels. If `sorted`, they are sorted by class, as in an image folder.
class Labelled : public FakeSource {
 public:
  Labelled(std::vector<int64_t> labels, bool sorted = false)
      : FakeSource(std::ssize(labels)), labels_(std::move(labels)), sorted_(sorted) {
    transform = [this](int64_t index, Example& example) {
      example["label"] = at::scalar_tensor(labels_.at(index), at::kLong);
    };
  }
  at::Tensor labels(size_t) const override { return at::tensor(labels_, at::kLong); }
  bool sorted_by_class(size_t split) const override { return sorted_; }

 private:
  const std::vector<int64_t> labels_;
  const bool sorted_;
};

std::shared_ptr<const Dataset> labelled_slice(std::vector<int64_t> labels, const std::string& split,
                                              bool sorted = false) {
  return std::make_shared<Dataset>(std::make_shared<Labelled>(std::move(labels), sorted), split,
                                   Place{});
}

std::string check_refusal(const Dataset& data, const std::string& ops, int64_t budget = 0) {
  const auto pp = pipeline(ops);
  return error_of([&] {
    const Example form = compute_first_example(data, *pp, 1, budget);
    check_more_examples(data, *pp, 1, form, budget);
  });
}

// Returns a data set with these labels, whose examples `bad` cannot be read. Its classes are
// "c0" .. "c3".
std::shared_ptr<const Dataset> some_broken(std::vector<int64_t> labels, std::set<int64_t> bad) {
  struct Named : Labelled {
    using Labelled::Labelled;
    std::vector<std::string> class_names() const override { return {"c0", "c1", "c2", "c3"}; }
  };
  const auto source = std::make_shared<Named>(std::move(labels));
  source->on_read = [bad = std::move(bad)](int64_t index) {
    if (bad.contains(index)) throw Error(Exit::data, "", "truncated JPEG");
  };
  return dataset(source);
}

const std::string kOnehot = "onehot(3, key='label', key_result='labels')";

}  // namespace

TEST_CASE("label_bounds are indices of the data set, also for slices") {
  const std::vector<int64_t> labels = {1, 0, 2, 5, -3, 2, 7, 0};
  CHECK(labelled_slice(labels, "train")->label_bounds() == Bounds{{4, -3}, {6, 7}});
  CHECK(labelled_slice(labels, "train[:4]")->label_bounds() == Bounds{{1, 0}, {3, 5}});
  CHECK(labelled_slice(labels, "train[5:]+train[:3]")->label_bounds() == Bounds{{2, 0}, {1, 7}});
  CHECK(dataset(std::make_shared<FakeSource>(4))->label_bounds().empty());
  CHECK(labelled_slice({1, 0, 0, 2, 0, 2}, "train")->label_bounds(2) ==
        Bounds{{1, 0}, {2, 0}, {3, 2}, {5, 2}});
  // In the order of the permutation by which sorted sources are sliced.
  std::vector<int64_t> sorted(100);
  for (int64_t i = 0; i < 100; ++i) sorted[i] = i / 10;
  const auto part = labelled_slice(sorted, "train[20:60]", true);
  for (const auto& [index, label] : part->label_bounds())
    CHECK(part->read(index).at("label").item<int64_t>() == label);
}

TEST_CASE("labels out of range are found anywhere in the data") {
  CHECK(check_refusal(*labelled_slice({0, 1, 2, 0, 1}, "train"), kOnehot).empty());
  CHECK(check_refusal(*labelled_slice({0, 1, 2, 3, 1}, "train"), kOnehot) ==
        "error: train/3.png: onehot: 'label' is 3, must be within 0 .. 2");
  CHECK(check_refusal(*labelled_slice({0, 1, 2, 3, 1}, "train[:3]"), kOnehot).empty());
  CHECK(check_refusal(*labelled_slice({0, 1, -1, 0, 1}, "train"), kOnehot) ==
        "error: train/2.png: the label is -1, but class numbers begin at 0");
  CHECK(check_refusal(*labelled_slice({0, 1, -1, 0, 1}, "train"), "keep('image')").empty());
}

TEST_CASE("labels that are numbers to predict may be negative") {
  const auto data = labelled_slice({5, -19, 3, 7}, "train");
  const auto pp = pipeline("");
  const Example form = compute_first_example(*data, *pp, 1);
  CHECK(error_of([&] {
          check_more_examples(*data, *pp, 1, form, 0, "input", {}, /*numbers=*/true);
        }).empty());
  CHECK(error_of([&] { check_more_examples(*data, *pp, 1, form); }) ==
        "error: train/1.png: the label is -19, but class numbers begin at 0");
}

TEST_CASE("no error budget covers a label out of range") {
  const std::string line =
      "error: train/3.png: onehot: 'label' is 3, must be within 0 .. 2 (class 'c3')";
  for (const int64_t budget : {0, 1, 100})
    CHECK(check_refusal(*some_broken({0, 1, 2, 3, 1}, {}), kOnehot, budget) == line);
  // The first example, and one with a negative label.
  CHECK(check_refusal(*some_broken({3, 1, 2}, {}), kOnehot, 5) ==
        "error: train/0.png: onehot: 'label' is 3, must be within 0 .. 2 (class 'c3')");
  CHECK(check_refusal(*some_broken({0, 1, -1}, {}), kOnehot, 5) ==
        "error: train/2.png: the label is -1, but class numbers begin at 0");
  // If the first examples with the largest label cannot be read, others are tried.
  CHECK(check_refusal(*some_broken({0, 3, 3, 3, 1}, {1, 2}), kOnehot, 5) == line);
  CHECK(check_refusal(*some_broken({0, 3, 3, 3, 1}, {1, 2, 3}), kOnehot, 5).empty());
}

TEST_CASE("an example that cannot be read names the key that skips it") {
  const std::string line =
      "train/1.png: truncated JPEG (input.skip_errors: N skips up to N such examples)";
  CHECK(check_refusal(*some_broken({0, 1, 2}, {1}), kOnehot) == "error: " + line);
  CHECK(check_refusal(*some_broken({0, 1, 2}, {1}), kOnehot, 1).empty());
  CHECK(check_refusal(*some_broken({0, 1, 2}, {0}), kOnehot) ==
        "[input] train/0.png: truncated JPEG (input.skip_errors: N skips up to N such examples)");
}

TEST_CASE("the second example must have the first one's shapes") {
  const auto source = std::make_shared<FakeSource>(3);
  source->transform = [](int64_t index, Example& example) {
    if (index == 1) example["image"] = at::empty({4, 5, 3}, at::kByte);
  };
  CHECK(check_refusal(*dataset(source), "") ==
        "error: train/1.png: feature 'image' has shape (4, 5, 3), but (6, 5, 3) in other examples: "
        "add an op such as resize or random_crop to pp that makes all shapes equal");
  CHECK(check_refusal(*dataset(source), "keep('label')").empty());
  CHECK(check_refusal(*dataset(std::make_shared<FakeSource>(1)), "").empty());
}

TEST_CASE("the first example reports its failure as one of the input, before the run") {
  constexpr uint64_t kSeed = 77;
  constexpr int64_t kAny = int64_t{1} << 40;
  const auto first = [](const std::shared_ptr<FakeSource>& source, int64_t budget = 0) {
    return compute_first_example(*dataset(source), *pipeline(""), kSeed, budget);
  };
  const std::string line = "[input] train/0.png: truncated";
  const std::string hint = " (input.skip_errors: N skips up to N such examples)";
  CHECK(error_of([&] { first(failing(4, {0})); }) == line + hint);
  CHECK_FALSE(first(failing(4, {0, 1}), 2).empty());
  CHECK(error_of([&] { first(failing(4, {0, 1}), 1); }) == line + hint);

  std::set<int64_t> many;
  for (int64_t i = 0; i < 400; ++i) many.insert(i);
  CHECK_FALSE(first(failing(500, many), kAny).empty());
  CHECK(error_of([&] {
          first(failing(3, {0, 1, 2}), kAny);
        }) == line + " (all 3 examples that were tried failed; this is the first)");

  const auto source = std::make_shared<FakeSource>(4);
  source->on_read = [](int64_t) { throw Error(Exit::usage, "vit.yaml:12:7", "no such key"); };
  CHECK(error_of([&] { first(source); }) == "vit.yaml:12:7: error: no such key");
  // An error that no key skips is the one that counts.
  source->on_read = [](int64_t index) {
    if (index == 0) throw Error::bare(Exit::data, "truncated");
    throw Error(Exit::storage, "x.tar", "cannot read");
  };
  CHECK_THAT(error_of([&] { first(source, kAny); }, Exit::storage), Catch::Contains("cannot read"));
}

}  // namespace bv::test

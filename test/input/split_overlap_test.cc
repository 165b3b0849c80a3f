#include "lib/input/split_overlap.h"

#include <catch2/catch.hpp>

#include "lib/input/dataset.h"

namespace bv::test {
namespace {

// A source of 10 training and 5 test examples, whose order is that of their classes.
class TwoSplits : public Source {
 public:
  std::vector<std::string> splits() const override { return {"test", "train"}; }
  int64_t size(size_t split) const override { return split == 0 ? 5 : 10; }
  Example read(size_t, int64_t) const override { return {}; }
  bool sorted_by_class(size_t) const override { return true; }
  SyntheticSpec synthetic_spec() const override { return {}; }
};

// A source of 10 examples, whose only split has two names.
class Undivided : public TwoSplits {
 public:
  std::vector<std::string> splits() const override { return {"all", "train"}; }
  int64_t size(size_t) const override { return 10; }
};

// A source whose test examples are not readable.
class BrokenTestSplit : public TwoSplits {
 public:
  int64_t size(size_t split) const override {
    if (split == 0) throw Error(Exit::data, "test", "is broken");
    return 10;
  }
};

// Returns {shared, all}.
std::pair<int64_t, int64_t> overlap(const std::string& evaluated,
                                    const std::vector<std::string>& trained,
                                    const Source& source = TwoSplits()) {
  const SplitOverlap found = split_overlap(source, evaluated, trained, Place{"x.yaml", 1, 2});
  return {found.shared, found.all};
}

using SharedOf = std::pair<int64_t, int64_t>;

}  // namespace

TEST_CASE("split expressions share the examples of both slices") {
  CHECK(overlap("train[80%:]", {"train"}) == SharedOf{2, 2});
  CHECK(overlap("train[:20%]", {"train[:80%]"}) == SharedOf{2, 2});
  CHECK(overlap("train[70%:]", {"train[:80%]"}) == SharedOf{1, 3});
  CHECK(overlap("train[80%:]", {"train[:80%]"}) == SharedOf{0, 2});
  CHECK(overlap("test", {"train"}) == SharedOf{0, 0});
  CHECK(overlap("test", {"all"}) == SharedOf{5, 5});
  CHECK(overlap("all", {"train[:4]"}) == SharedOf{4, 0});
  CHECK(overlap("train[even 2/2]", {"train[:6]"}) == SharedOf{1, 5});
  CHECK(overlap("test+train[-1:]", {"train[:2]", "train[8:]"}) == SharedOf{1, 0});
  CHECK(overlap("train[:3]", {"train+train"}) == SharedOf{3, 3});
  CHECK(overlap("train[:6]", {"train[:4]", "train[:4]"}) == SharedOf{4, 6});
  CHECK(overlap("train[1:]", {"train[:3]", "train[2:5]", "test"}) == SharedOf{4, 9});
}

TEST_CASE("all and train are the same examples of a source without splits") {
  CHECK(overlap("train[80%:]", {"all"}, Undivided()) == SharedOf{2, 2});
  CHECK(overlap("all[:3]", {"train[2:]"}, Undivided()) == SharedOf{1, 3});
}

TEST_CASE("a split that is only evaluated is not opened a second time for the comparison") {
  CHECK(overlap("test", {"train"}, BrokenTestSplit()) == SharedOf{0, 0});
  CHECK(overlap("test+train[2:]", {"train[:5]"}, BrokenTestSplit()) == SharedOf{3, 0});
  CHECK(overlap("train[2:]", {"all"}, BrokenTestSplit()) == SharedOf{8, 8});
}

TEST_CASE("a fold shares examples with all but the rest of its split") {
  CHECK(overlap("train[fold 1/4]", {"train[not fold 1/4]"}) == SharedOf{0, 3});
  CHECK(overlap("train[fold 1/4]", {"train[not fold 2/4]"}) == SharedOf{3, 3});
  CHECK(overlap("train[fold 4/4]", {"train[fold 4/4]"}) == SharedOf{2, 2});
  CHECK(overlap("train[fold 4/4]", {"train[fold 3/4]"}) == SharedOf{0, 2});
  CHECK(overlap("train[not fold 1/4]", {"train[fold 2/4]"}) == SharedOf{3, 7});
  CHECK(overlap("train[not fold 1/4]", {"train[not fold 4/4]"}) == SharedOf{5, 7});
  CHECK(overlap("train[fold 2/3]", {"train"}) == SharedOf{3, 3});
  CHECK(overlap("train", {"train[:8][fold 1/4]"}) == SharedOf{2, 10});
  CHECK(overlap("train[fold 1/4]", {"train[:50%]"}) == SharedOf{0, 3});  // not known
}

TEST_CASE("the counted overlap is that of the data sets") {
  const auto source = std::make_shared<TwoSplits>();
  for (const char* split : {"train[fold 1/4]", "train[fold 3/4]", "train[not fold 1/4]",
                            "train[:7][not fold 3/3]", "all", "train[even 2/3]+test"}) {
    INFO(split);
    CHECK(overlap(split, {"all"}).second == Dataset(source, split, Place{}).size());
  }
}

}  // namespace bv::test

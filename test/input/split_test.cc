#include "lib/input/split.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "lib/input/dataset.h"
#include "lib/input/rare_classes.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

const Place kPlace{"x.yaml", 5, 12};

std::pair<int64_t, int64_t> range(const std::string& expression, int64_t n) {
  const auto terms = parse_split(expression, kPlace);
  REQUIRE(terms.size() == 1);
  return terms[0].range(n, kPlace);
}
std::string split_problem(const std::string& expression, int64_t n) {
  return error_of([&] { range(expression, n); });
}
using Range = std::pair<int64_t, int64_t>;

// A source with `classes` classes in order, with `per_class` examples each.
class Sorted : public Source {
 public:
  Sorted(int64_t classes, int64_t per_class, bool sorted)
      : classes_(classes), per_class_(per_class), sorted_(sorted) {}
  std::vector<std::string> splits() const override { return {"test", "train"}; }
  int64_t size(size_t split) const override { return classes_ * per_class_; }
  Example read(size_t split, int64_t index) const override {
    return {{"index", at::full({}, index + 1000 * static_cast<int64_t>(split), at::kLong)}};
  }
  bool sorted_by_class(size_t split) const override { return sorted_; }
  at::Tensor labels(size_t split) const override {
    return at::arange(size(split)).div(per_class_, "floor").to(at::kLong);
  }
  std::vector<std::string> class_names() const override { return {"ant", "bee", "cat"}; }
  SyntheticSpec synthetic_spec() const override { return {}; }

 private:
  int64_t classes_, per_class_;
  bool sorted_;
};

std::vector<int64_t> all(const Dataset& data) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < data.size(); ++i) {
    indices.push_back(data.read(i).at("index").item<int64_t>());
  }
  return indices;
}

}  // namespace

TEST_CASE("slices mean what they mean in TFDS", "[split]") {
  CHECK(range("train", 100) == Range{0, 100});
  CHECK(range("train[:]", 100) == Range{0, 100});
  CHECK(range("train[:99%]", 60000) == Range{0, 59400});
  CHECK(range("train[51200:]", 60000) == Range{51200, 60000});
  CHECK(range("train[25_600:51_200]", 60000) == Range{25600, 51200});
  CHECK(range("train[10:20]", 100) == Range{10, 20});
  CHECK(range("train[-10:]", 100) == Range{90, 100});
  CHECK(range("train[:-10]", 100) == Range{0, 90});
  CHECK(range("train[-10%:]", 50) == Range{45, 50});
  CHECK(range("train[ 1 : 2 ]", 50) == Range{1, 2});
  // Python rounds half to even: 50 % of 5 is 2.5 -> 2, of 7 is 3.5 -> 4; 33 % of 200 is 66.
  CHECK(range("train[:50%]", 5) == Range{0, 2});
  CHECK(range("train[50%:]", 7) == Range{4, 7});
  CHECK(range("train[33%:66%]", 200) == Range{66, 132});
  // The usual split of ImageNet's training set: round(0.99 * 1281167) = round(1268355.33).
  CHECK(range("train[99%:]", 1281167) == Range{1268355, 1281167});
}

TEST_CASE("240 random splits select what TFDS selects", "[split]") {
  const auto cases = nlohmann::json::parse(read_file(golden_file("tfds_splits.json")));
  REQUIRE(cases.size() == 240);
  for (const nlohmann::json& one : cases) {
    const auto shards = one.at("shards").get<std::map<std::string, std::vector<int64_t>>>();
    std::string expression = one.at("split");
    if (one.contains("even")) {
      expression +=
          fmt::format("[even {}/{}]", one["even"][0].get<int>(), one["even"][1].get<int>());
    }
    INFO(one.dump());
    nlohmann::json slices = nlohmann::json::array();
    try {
      for (const SplitTerm& term : parse_split(expression, kPlace)) {
        const std::vector<int64_t>& lengths = shards.at(term.base);
        const int64_t size = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
        const auto [begin, end] = term.range(size, kPlace, lengths);
        slices.push_back({term.base, begin, end});
      }
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
      slices = nullptr;
    }
    CHECK(slices == one.at("slices"));
  }
}

TEST_CASE("folds divide a split, with equal shares of every class", "[split]") {
  const auto source = std::make_shared<Sorted>(3, 11, true);
  std::vector<int64_t> together;
  for (int fold = 1; fold <= 4; ++fold) {
    const Dataset held(source, fmt::format("train[fold {}/4]", fold), kPlace);
    const Dataset rest(source, fmt::format("train[not fold {}/4]", fold), kPlace);
    CHECK(held.size() + rest.size() == 33);
    std::vector<int64_t> shares(3);
    for (const int64_t i : all(held)) ++shares[(i - 1000) / 11];
    for (const int64_t share : shares) CHECK((share == 2 || share == 3));
    std::vector<int64_t> both = all(held), others = all(rest);
    together.insert(together.end(), both.begin(), both.end());
    both.insert(both.end(), others.begin(), others.end());
    std::sort(both.begin(), both.end());
    CHECK(std::set<int64_t>(both.begin(), both.end()).size() == 33);
  }
  CHECK(std::set<int64_t>(together.begin(), together.end()).size() == 33);
  CHECK(together.size() == 33);
  // A fold of a slice, and one without labels.
  CHECK(Dataset(source, "train[:12][fold 1/3]", kPlace).size() == 4);
  CHECK(fold_positions(parse_split("a[fold 2/3]", kPlace)[0], 10, {}).size() == 3);
  CHECK(error_of([&] { Dataset(source, "train[:3][fold 4/4]", kPlace); }) ==
        "x.yaml:5:12: error: split 'train[:3][fold 4/4]' is empty: 3 examples do not fill 4 folds");
}

TEST_CASE("the split all has all splits", "[split]") {
  const auto source = std::make_shared<Sorted>(1, 2, false);
  CHECK(all(Dataset(source, "all", kPlace)) == std::vector<int64_t>{0, 1, 1000, 1001});
  CHECK(error_of([&] { Dataset(source, "all[:50%]", kPlace); }) ==
        "x.yaml:5:12: error: split 'all[:50%]': 'all' cannot be sliced; list the splits: test, "
        "train");
}

TEST_CASE("complementary percentages cover a split exactly", "[split]") {
  for (int64_t n : {1, 2, 3, 7, 99, 101, 1437, 50000}) {
    for (int percent = 1; percent < 100; ++percent) {
      const int64_t cut = std::llrint(percent * static_cast<double>(n) / 100);
      if (cut == 0 || cut == n) continue;
      CHECK(range(fmt::format("a[:{}%]", percent), n).second ==
            range(fmt::format("a[{}%:]", percent), n).first);
    }
  }
}

TEST_CASE("bad splits are refused with the reason", "[split]") {
  const std::string examples = "; examples: train, train[:99%], train[51200:], a+b";
  CHECK(split_problem("train[:10", 100) ==
        "x.yaml:5:12: error: bad split 'train[:10': ']' is missing at the end" + examples);
  CHECK(split_problem("train[5]", 100) ==
        "x.yaml:5:12: error: bad split 'train[5]': a slice needs ':'" + examples);
  CHECK(split_problem("train[:x]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:x]': 'x' is not an integer" + examples);
  CHECK(split_problem("train[_1:]", 100) ==
        "x.yaml:5:12: error: bad split 'train[_1:]': '_1' is not an integer" + examples);
  CHECK(split_problem("train[:0.8]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:0.8]': '0.8' is not an integer (write 80%)" +
            examples);
  CHECK(split_problem("train[:0.5shard]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:0.5shard]': '0.5' is not an integer" + examples);
  CHECK(split_problem("train[:1.5]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:1.5]': '1.5' is not an integer" + examples);
  CHECK(split_problem("train[:1.5.2%]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:1.5.2%]': '1.5.2' is not a percentage" + examples);
  CHECK(split_problem("train[:nan%]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:nan%]': 'nan' is not a percentage" + examples);
  CHECK(split_problem("train[:2shard]", 100) ==
        "x.yaml:5:12: error: split 'train[:2shard]': this data has no shards (only tfds, tfrecord "
        "and webdataset data has shards; generated data has none)");
  CHECK(split_problem("train[fold 0/5]", 100) ==
        "x.yaml:5:12: error: bad split 'train[fold 0/5]': '0/5' is not a part such as 2/5, from "
        "1/5 to 5/5" +
            examples);
  CHECK(split_problem("train[fold 1/1]", 100) ==
        "x.yaml:5:12: error: bad split 'train[fold 1/1]': with a single fold, nothing is left to "
        "train on" +
            examples);
  CHECK(split_problem("train[:50%][10:]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:50%][10:]': '10:' is not a part such as fold 2/5" +
            examples);
  CHECK(split_problem("train[:50%]x", 100) ==
        "x.yaml:5:12: error: bad split 'train[:50%]x': 'x' follows ']'" + examples);
  CHECK(split_problem("train[:110%]", 100) ==
        "x.yaml:5:12: error: bad split 'train[:110%]': 110% is not within -100% .. 100%" +
            examples);
  CHECK(split_problem("train[10%:20]", 100) ==
        "x.yaml:5:12: error: bad split 'train[10%:20]': if one end of a slice is given in "
        "percentages, the other must be too" +
            examples);
  CHECK(split_problem("", 100) ==
        "x.yaml:5:12: error: bad split '': a split name is missing" + examples);
  CHECK(split_problem("train+", 100) ==
        "x.yaml:5:12: error: bad split 'train+': a split name is missing" + examples);
  CHECK(split_problem("tr ain", 100) ==
        "x.yaml:5:12: error: bad split 'tr ain': not a split name" + examples);
  CHECK(split_problem("train[::2]", 100) ==
        "x.yaml:5:12: error: bad split 'train[::2]': ':2' is not an integer" + examples);
  CHECK(split_problem("train[101:]", 100) ==
        "x.yaml:5:12: error: split 'train[101:]': 101 is outside the 100 examples of 'train'");
  CHECK(split_problem("train[-9223372036854775808:]", 100) ==
        "x.yaml:5:12: error: split 'train[-9223372036854775808:]': -9223372036854775808 is outside "
        "the 100 examples of 'train'");
  CHECK(split_problem("train[100:]", 100) ==
        "x.yaml:5:12: error: split 'train[100:]' is empty: 'train' has 100 examples");
  CHECK(split_problem("train[20:10]", 100) ==
        "x.yaml:5:12: error: split 'train[20:10]' is empty: 'train' has 100 examples");
  CHECK(split_problem("train[:1%]", 10) ==
        "x.yaml:5:12: error: split 'train[:1%]' is empty: 'train' has 10 examples");
}

TEST_CASE("a data set of several slices has their examples in order", "[split]") {
  const auto source = std::make_shared<Sorted>(3, 10, false);
  const Dataset data(source, "train[28:] + test[:2]+train[5:6]", kPlace);
  CHECK(all(data) == std::vector<int64_t>{1028, 1029, 0, 1, 1005});
  CHECK(data.describe(1) == "train row 29");
  const std::vector<int64_t> mixed = {2, 0, 1, 4};
  const at::Tensor batch = data.read_batch(mixed).at("index");
  CHECK(batch.equal(at::tensor({0, 1028, 1029, 1005}, at::kLong)));
  CHECK_THROWS_AS(data.read(5), Error);
  CHECK(error_of([&] { Dataset(source, "trian", kPlace); }) ==
        "x.yaml:5:12: error: " + unknown_name_message("split", "trian", {"test", "train"}));
}

TEST_CASE("sorted folders are sliced along one permutation, whole splits stay in order",
          "[split]") {
  const auto source = std::make_shared<Sorted>(3, 100, true);
  std::vector<int64_t> in_order(300);
  std::iota(in_order.begin(), in_order.end(), 1000);
  CHECK(all(Dataset(source, "train", kPlace)) == in_order);
  CHECK(all(Dataset(source, "train[:100%]", kPlace)) == in_order);
  const auto first = all(Dataset(source, "train[:80%]", kPlace));
  const auto rest = all(Dataset(source, "train[80%:]", kPlace));
  std::set<int64_t> together(first.begin(), first.end());
  together.insert(rest.begin(), rest.end());
  CHECK(first.size() == 240);
  CHECK(rest.size() == 60);
  CHECK(together == std::set<int64_t>(in_order.begin(), in_order.end()));
  CHECK_FALSE(std::is_sorted(first.begin(), first.end()));
  // The slice has about a third of each class: 20 expected, standard deviation 3.3.
  for (int64_t label = 0; label < 3; ++label) {
    const auto count = std::count_if(rest.begin(), rest.end(),
                                     [&](int64_t i) { return (i - 1000) / 100 == label; });
    CHECK(std::abs(count - 20) < 13);
  }
}

TEST_CASE("a slice that lost classes warns", "[split]") {
  const auto in_order = std::make_shared<Sorted>(3, 10, false);
  CHECK(Dataset(in_order, "train", kPlace).missing_classes().empty());
  CHECK(Dataset(in_order, "train[:21]", kPlace).missing_classes().empty());
  CHECK(Dataset(in_order, "train[:10]", kPlace).missing_classes() ==
        "split 'train[:10]' has no example of 2 of the 3 classes: bee, cat");
  CHECK(Dataset(in_order, "train[:5]+train[20:25]", kPlace).missing_classes() ==
        "split 'train[:5]+train[20:25]' has no example of 1 of the 3 classes: bee");
  const auto many = std::make_shared<Sorted>(20, 10, false);
  CHECK(Dataset(many, "train[:30]", kPlace).missing_classes() ==
        "split 'train[:30]' has no example of 17 of the 20 classes: 3, 4, 5, 6, 7, 8, 9, 10, ...");
}

TEST_CASE("data to evaluate on may lack rare classes", "[split]") {
  const auto lost = [](int64_t classes, int64_t each, const std::string& split) {
    const auto in_order = std::make_shared<Sorted>(classes, each, false);
    return Dataset(in_order, split, kPlace).classes_missing_without_chance();
  };
  CHECK(lost(3, 10, "train") == "");
  CHECK(lost(3, 10, "train[:21]") == "");
  CHECK(lost(3, 20, "train[80%:]") ==
        "split 'train[80%:]' has no example of 2 of the 3 classes: ant, bee");
  CHECK(lost(20, 10, "train[:30]") != "");
  // Of single examples, any choice leaves some out.
  CHECK(lost(20, 1, "train[:30%]") == "");
  // A random 30% misses a class of two examples with a probability of 0.7^2 = 0.49.
  CHECK(lost_by_chance({{0, 2}, {1, 2}, {2, 50}}, {1}, 0.3));
  CHECK_FALSE(lost_by_chance({{0, 2}, {1, 2}, {2, 50}}, {2}, 0.3));
  CHECK_FALSE(lost_by_chance({{0, 2}, {1, 2}, {2, 50}}, {0, 1, 2}, 0.3));
  CHECK_FALSE(lost_by_chance({{0, 50}, {1, 50}}, {1}, 1));
}

}  // namespace bv::test

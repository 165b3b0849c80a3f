#include "lib/input/training_data.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/input/loader/loader.h"
#include "test/input/fake_source.h"
#include "test/support/compare.h"

namespace bv::test {
namespace {

TrainingData mixture(const std::vector<std::pair<int64_t, double>>& sizes_and_weights) {
  std::vector<TrainingData::Part> parts;
  for (const auto& [size, weight] : sizes_and_weights) {
    parts.push_back({fmt::format("part{}", parts.size()),
                     dataset(std::make_shared<FakeSource>(size)), pipeline("value_range(0, 1)"),
                     weight});
  }
  return TrainingData(std::move(parts));
}

}  // namespace

TEST_CASE("a mixture has exact shares everywhere in the stream", "[mixture]") {
  for (const std::vector<double>& weights :
       {std::vector<double>{0.7, 0.3}, {1, 1, 1}, {5, 0.001, 3}, {1e-5, 1}}) {
    std::vector<std::pair<int64_t, double>> parts;
    double sum = 0;
    for (const double weight : weights) {
      parts.emplace_back(37, weight);
      sum += weight;
    }
    const TrainingData data = mixture(parts);
    std::vector<int64_t> counts(weights.size());
    constexpr int64_t kPositions = 1 << 20;
    for (int64_t p = 0; p < kPositions; ++p) {
      ++counts[data.pick(p, 5, true).part];
      // Whole blocks are exact, to rounding.
      if ((p + 1) % (1 << 19) != 0) continue;
      for (size_t k = 0; k < weights.size(); ++k) {
        CHECK(std::abs(static_cast<double>(counts[k]) -
                       static_cast<double>(p + 1) * weights[k] / sum) <= 1);
      }
    }
  }
  // And within a block the shares are almost exact: 700 of 1000, give or take ten.
  const TrainingData data = mixture({{100, 7}, {100, 3}});
  for (int64_t begin = 0; begin < 20'000; begin += 500) {
    int64_t first = 0;
    for (int64_t p = begin; p < begin + 1000; ++p) first += data.pick(p, 1, true).part == 0;
    CHECK(first >= 690);
    CHECK(first <= 710);
  }
}

TEST_CASE("the examples of each data set of a mixture are counted", "[mixture]") {
  const TrainingData data = mixture({{37, 0.7}, {10, 0.3}, {5, 0.001}});
  std::vector<int64_t> counts(3);
  for (int64_t positions = 0; positions < 20'000; ++positions) {
    if (positions % 97 == 0 || positions % 8192 < 2) {
      REQUIRE(data.examples_of_parts(positions, 5) == counts);
    }
    ++counts[data.pick(positions, 5, true).part];
  }
  CHECK(mixture({{37, 1}}).examples_of_parts(1234, 5) == std::vector<int64_t>{1234});
}

TEST_CASE("keep_only leaves the features that it names, of every data set", "[mixture]") {
  std::vector<TrainingData::Part> parts;
  for (const char* pp : {"value_range(0, 1)", "value_range(0, 1)|copy(\"label\", \"other\")"}) {
    parts.push_back({fmt::format("part{}", parts.size()), dataset(std::make_shared<FakeSource>(5)),
                     pipeline(pp), 1});
  }
  const TrainingData all(parts), some(parts, {"image"});
  for (int64_t p = 0; p < 10; ++p) {
    const auto pick = all.pick(p, 3, true);
    const Example whole = all.compute(pick, 3, p), kept = some.compute(pick, 3, p);
    CHECK(whole.size() == (pick.part == 0 ? 2 : 3));
    CHECK(kept.size() == 1);
    CHECK(kept.at("image").equal(whole.at("image")));
  }
}

TEST_CASE("a mixture passes over each data set as if it were alone", "[mixture]") {
  const TrainingData data = mixture({{50, 0.6}, {7, 0.4}});
  CHECK(data.size() == 57);
  std::map<size_t, std::multiset<int64_t>> seen;
  for (int64_t p = 0; p < 30 * 1024; ++p) {
    const TrainingData::Pick pick = data.pick(p, 9, true);
    seen[pick.part].insert(pick.index);
  }
  // After whole blocks, every example has occurred equally often, except for the incomplete pass.
  for (const auto& [part, indices] : seen) {
    const auto size = static_cast<int64_t>(part == 0 ? 50 : 7);
    int64_t least = 1 << 30, most = 0;
    for (int64_t i = 0; i < size; ++i) {
      least = std::min(least, static_cast<int64_t>(indices.count(i)));
      most = std::max<int64_t>(most, static_cast<int64_t>(indices.count(i)));
    }
    CHECK(most - least <= 1);
  }
  // In the order of the stream, every pass has each example once.
  for (const int64_t part : {0, 1}) {
    const int64_t size = part == 0 ? 50 : 7;
    std::set<int64_t> pass;
    for (int64_t p = 0; p < 5000; ++p) {
      const TrainingData::Pick pick = data.pick(p, 9, true);
      if (static_cast<int64_t>(pick.part) != part) continue;
      REQUIRE(pass.insert(pick.index).second);
      if (std::ssize(pass) == size) pass.clear();
    }
  }
  // Another seed gives another order, and the same seed the same.
  int64_t same = 0;
  for (int64_t p = 0; p < 1000; ++p) {
    const TrainingData::Pick a = data.pick(p, 9, true), b = data.pick(p, 10, true);
    same += a.part == b.part && a.index == b.index;
    CHECK(a.index == data.pick(p, 9, true).index);
  }
  CHECK(same < 500);
}

TEST_CASE("the batches of a mixture do not depend on threads or ranks", "[mixture]") {
  const auto data = std::make_shared<TrainingData>(mixture({{31, 2}, {11, 1}}));
  const auto batches = [&](int threads, int ranks, int64_t from) {
    std::vector<Example> all;
    for (int rank = 0; rank < ranks; ++rank) {
      LoaderOptions options;
      options.batch_size = 12;
      options.threads = threads;
      options.rank = rank;
      options.ranks = ranks;
      options.seed = 3;
      Loader loader(data, options);
      loader.seek(from);
      Example copy;
      for (const auto& [key, value] : loader.next()) copy[key] = value.clone();
      all.push_back(copy);
    }
    return all;
  };
  const Example one = batches(1, 1, 7)[0];
  CHECK(same_bits(batches(3, 1, 7)[0], one));
  const std::vector<Example> two = batches(2, 2, 7);
  for (const auto& [key, value] : one) {
    CHECK(two[0].at(key).equal(value.slice(0, 0, 6)));
    CHECK(two[1].at(key).equal(value.slice(0, 6, 12)));
  }
}

TEST_CASE("a failing example of a mixture is named with its data set", "[mixture]") {
  const bool alone = GENERATE(false, true);  // the other data sets have no share
  std::vector<TrainingData::Part> parts;
  for (const char* name : {"good", "bad"}) {
    if (alone && std::string(name) == "good") continue;
    const auto source = std::make_shared<FakeSource>(40);
    if (std::string(name) == "bad") {
      source->on_read = [](int64_t index) {
        if (index % 2 == 1) throw Error::bare(Exit::data, "truncated JPEG");
      };
    }
    parts.push_back({name, dataset(source), pipeline("value_range(0, 1)"), 1});
  }
  const auto data = std::make_shared<TrainingData>(std::move(parts));
  LoaderOptions options;
  options.batch_size = 64;
  options.error_budget = 1000;
  options.warns = false;
  Loader loader(data, options);
  loader.next();
  const std::vector<FailedExample> failed = loader.take_failed();
  REQUIRE_FALSE(failed.empty());
  for (const FailedExample& example : failed) CHECK(example.name.starts_with("bad: train/"));
}

}  // namespace bv::test

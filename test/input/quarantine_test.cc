// Lists of examples that are left out of a data set.
#include "lib/input/quarantine.h"

#include <ATen/ops/tensor.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "lib/input/check/broken_example.h"
#include "test/input/fake_source.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

// The labels of 12 examples are 0, 1, 2, 3, 0, ... Two can have the same name. Example 3 names the
// files 3.png and 3.mask, and example 4 is a row that cannot be read.
class ListedSource : public FakeSource {
 public:
  explicit ListedSource(bool twins = false) : FakeSource(12), twins_(twins) {}
  std::optional<std::vector<std::string>> files_of(size_t, int64_t index) const override {
    std::vector<std::string> files;
    if (index != 4) files = {fmt::format("{}.png", index), fmt::format("{}.mask", index)};
    return files;
  }
  at::Tensor labels(size_t) const override {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < 12; ++i) all.push_back(i % 4);
    return at::tensor(all, at::kLong);
  }
  std::string describe(size_t split, int64_t index) const override {
    return FakeSource::describe(split, twins_ && index == 7 ? 6 : index);
  }

 private:
  const bool twins_;
};

std::string line(const std::string& data, int index,
                 std::optional<std::vector<std::string>> files = std::nullopt) {
  return line_of({data, fmt::format("train/{}.png", index), "", std::nullopt, "truncated PNG",
                  std::move(files)});
}

struct Rest {
  std::shared_ptr<const Dataset> data;
  std::vector<std::string> warnings;
};

// Leaves the examples in `list` out of a data set called `name`.
Rest leave_out(const std::string& list, const std::string& name = "input",
               const std::string& split = "train", bool twins = false) {
  const TempFolder temp;
  temp.write("bad.jsonl", list);
  const Config config = parse_config("quarantine: " + (temp / "bad.jsonl"), "x.yaml");
  Rest rest;
  rest.data = Quarantine::read(config)->leave_out(
      std::make_shared<Dataset>(std::make_shared<ListedSource>(twins), split, Place{}), name, 2);
  throw_problems(config);
  for (std::string line : warnings(config)) {
    for (size_t at; (at = line.find(temp.path() + "/")) != std::string::npos;)
      line.erase(at, temp.path().size() + 1);
    rest.warnings.push_back(line);
  }
  return rest;
}

std::vector<std::string> names_of(const Dataset& data) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < data.size(); ++i) names.push_back(data.describe(i));
  return names;
}

// Returns the error without the folder of the list.
std::string list_refusal(const std::string& list, const std::string& name = "input",
                         bool twins = false) {
  std::string text = error_of([&] { leave_out(list, name, "train", twins); });
  for (size_t at; (at = text.find("/")) != std::string::npos && text.find("bad.jsonl") > at;)
    text.erase(0, text.find("bad.jsonl"));
  return text;
}

}  // namespace

TEST_CASE("the examples of a list leave the data set; the others keep their order and labels") {
  const Rest rest = leave_out(line("input", 3) + line("input", 0) + line("input", 11) +
                              line("input", 3));  // one of them twice
  const Dataset& data = *rest.data;
  REQUIRE(data.size() == 9);
  CHECK(names_of(data)[0] == "train/1.png");
  CHECK(names_of(data)[2] == "train/4.png");
  CHECK(names_of(data)[8] == "train/10.png");
  CHECK(data.read(2).at("label").item<int64_t>() == 4);
  CHECK(data.labels() == std::vector<int64_t>{1, 2, 0, 1, 2, 3, 0, 1, 2});
  CHECK(data.label_counts() == std::map<int64_t, int64_t>{{0, 2}, {1, 3}, {2, 3}, {3, 1}});
  CHECK(data.label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{2, 0}, {5, 3}});
  CHECK(rest.warnings ==
        std::vector<std::string>{
            "x.yaml:1:13: warning: quarantine: 3 of 12 examples of input are excluded"});
  CHECK(data.fingerprint() != leave_out("").data->fingerprint());
}

TEST_CASE("a slice has the same examples as before, without those of the list") {
  const Rest rest =
      leave_out(line("input", 5) + line("photos", 2), "input", "train[4:8]+train[:3]");
  CHECK(names_of(*rest.data) == std::vector<std::string>{"train/4.png", "train/6.png",
                                                         "train/7.png", "train/0.png",
                                                         "train/1.png"});
}

TEST_CASE("a data set that loses all examples of a class says so") {
  const Rest rest = leave_out(line("input", 3) + line("input", 7) + line("input", 11));
  CHECK(rest.data->missing_classes() == "split 'train' has no example of 1 of the 4 classes: 3");
}

TEST_CASE("entries of another data set are passed over; others that match nothing give a warning") {
  const std::string list =
      line("evals.val", 1) + line("input", 2) + line("input", 70) + line("photos", 71);
  const Rest rest = leave_out(list);
  CHECK(rest.data->size() == 11);
  CHECK(rest.warnings[0] ==
        "x.yaml:1:13: warning: quarantine: 2 of 3 lines for input in bad.jsonl match no example; "
        "the first is line 3, 'train/70.png'");
  const Rest none = leave_out(line("evals.val", 1) + line("input.own", 2));
  CHECK(none.data->size() == 12);
  CHECK(none.warnings ==
        std::vector<std::string>{"x.yaml:1:13: warning: quarantine: bad.jsonl has no examples of "
                                 "input, only of evals.val, input.own"});
  CHECK(leave_out("").warnings.empty());
  // The list of a run's skipped examples has other keys.
  CHECK(leave_out("{\"data\": \"evals.a\", \"step\": 3, \"example\": \"train/4.png\", \"reason\": "
                  "\"x\"}\n",
                  "evals.a")
            .data->size() == 11);
}

TEST_CASE("a quarantine list of a folder named input applies to every data set") {
  CHECK(name_in_list("photos") == "photos");
  CHECK(name_in_list("inputs") == "inputs");
  CHECK(name_in_list("evals.val") == "./evals.val");
  for (const std::string folder : {"input", "input.own"}) {
    CHECK(name_in_list(folder) == "./" + folder);
    CHECK(leave_out(line(name_in_list(folder), 1), "evals.val").data->size() == 11);
  }
}

TEST_CASE("a skipped example of a mixture is left out of the data set with which its name begins") {
  const auto skipped = [](const std::string& example) {
    return fmt::format(
        "{{\"data\": \"input\", \"step\": 3, \"example\": \"{}\", \"reason\": "
        "\"truncated PNG\", \"files\": [\"3.png\", \"3.mask\"]}}\n",
        example);
  };
  const std::string list = skipped("own: train/3.png") + skipped("public: train/5.png");
  const Rest rest = leave_out(list, "input.own");
  REQUIRE(rest.data->size() == 11);
  CHECK(names_of(*rest.data)[3] == "train/4.png");
  CHECK(rest.warnings ==
        std::vector<std::string>{
            "x.yaml:1:13: warning: quarantine: 1 of 12 examples of input.own is excluded"});
  CHECK(
      list_refusal(list, "input.public").starts_with("bad.jsonl:2: error: 'public: train/5.png' "));
  CHECK(leave_out(list, "input.o").data->size() == 12);
  CHECK(leave_out(list, "evals.own").data->size() == 12);
}

TEST_CASE("the names of examples are completed only if the list may have them") {
  struct LongNames : FakeSource {
    LongNames() : FakeSource(12) {}
    std::string describe(size_t split, int64_t index) const override {
      ++completed;
      return FakeSource::describe(split, index);
    }
    std::string describe_unread(size_t, int64_t index) const override {
      return fmt::format("train/{}", index);
    }
    mutable std::atomic<int> completed = 0;
  };
  const TempFolder temp;
  temp.write("bad.jsonl", line("input", 11) + line("input", 3));
  const Config config = parse_config("quarantine: " + (temp / "bad.jsonl"), "x.yaml");
  const auto source = std::make_shared<LongNames>();
  const auto rest = Quarantine::read(config)->leave_out(
      std::make_shared<Dataset>(source, "train", Place{}), "input", 2);
  CHECK(source->completed.load() == 3);  // 1, 3 and 11
  CHECK(rest->size() == 10);
  CHECK(names_of(*rest).back() == "train/10.png");
}

TEST_CASE("a list whose examples name other files now is refused") {
  using Files = std::vector<std::string>;
  const std::string fits = line("input", 3, Files{"3.png", "3.mask"}) + line("input", 4, Files{}) +
                           line("evals.val", 5, Files{"x.png"}) + line("input", 6);
  CHECK(leave_out(fits).data->size() == 9);
  const std::string renew =
      " in this list, which no longer fits the data; renew it with `bvtrain data check --config "
      "CONFIG --output ";
  const auto why = [&](const std::string& list) {
    const std::string text = list_refusal(list);
    REQUIRE(text.find(renew) != std::string::npos);
    CHECK(text.ends_with("/bad.jsonl`"));
    return text.substr(0, text.find(renew));
  };
  CHECK(why(line("input", 3) + line("input", 5, Files{"3.png", "3.mask"})) ==
        "bad.jsonl:2: error: 'train/5.png' names 5.png, 5.mask now, but 3.png, 3.mask");
  CHECK(why(line("input", 5, Files{})) ==
        "bad.jsonl:1: error: 'train/5.png' names 5.png, 5.mask now, but no file");
  CHECK(why(line("photos", 4, Files{"4.png", "4.mask"})) ==
        "bad.jsonl:1: error: 'train/4.png' names no file now, but 4.png, 4.mask");
  CHECK(list_refusal("{\"data\": \"input\", \"example\": \"a\", \"files\": \"a.png\"}\n") ==
        "bad.jsonl:1: error: 'files' is a string, expected a list of strings");
}

TEST_CASE("malformed lists and those that leave nothing are refused") {
  CHECK(list_refusal(line("input", 1) + "{\"data\": \"input\"") ==
        "bad.jsonl:2: error: is not JSON; expected a line of `bvtrain data check`");
  CHECK(list_refusal("\n") ==
        "bad.jsonl:1: error: is not JSON; expected a line of `bvtrain data check`");
  CHECK(list_refusal("[1]\n") == "bad.jsonl:1: error: is a list, expected an object");
  CHECK(list_refusal("{\"data\": \"input\"}\n") == "bad.jsonl:1: error: has no 'example'");
  CHECK(list_refusal("{\"example\": \"a\"}\n") == "bad.jsonl:1: error: has no 'data'");
  CHECK(list_refusal("{\"data\": \"input\", \"example\": 3}\n") ==
        "bad.jsonl:1: error: 'example' is the number 3, expected a string");
  CHECK(list_refusal(line("input", 1) + line("input", 6), "input", /*twins=*/true) ==
        "bad.jsonl:2: error: several examples of input are called 'train/6.png'");
  std::string all;
  for (int i = 0; i < 12; ++i) all += line("input", i);
  CHECK(list_refusal(all).ends_with("leaves no example of input"));
  const Config config = parse_config("quarantine: none.jsonl", "x.yaml");
  CHECK(error_of([&] { Quarantine::read(config); }) == "none.jsonl: error: no such file");
  CHECK(Quarantine::read(parse_config("a: 1", "x.yaml")) == nullptr);
}

}  // namespace bv::test

// What every registered evaluator must do.
#include "lib/input/image/jpeg.h"
#include "lib/util/file.h"
#include "test/evals/support.h"

namespace bv::test {
namespace {

constexpr int64_t kExamples = 50, kTrain = 40;

// The data that evaluators read.
struct Data {
  std::string train, test;  // `data` sections
  std::string pairs;        // an npz
  std::string pp = "";
  std::string more = "";  // keys of the loader, each followed by a comma
};

struct Files {
  Files() {
    write_npz(folder / "test.npz", examples(kExamples));
    write_npz(folder / "train.npz", examples(kTrain, 5));
    write_npz(folder / "pairs.npz",
              {{"zimg", noise({kExamples, 8}, 1)}, {"ztxt", noise({kExamples, 8}, 2)}});
    const auto npz = [&](const char* name) {
      return fmt::format("{{name: npz, fname: '{}'}}", folder / name);
    };
    data = {npz("train.npz"), npz("test.npz"), folder / "pairs.npz"};
  }
  TempFolder folder;
  Data data;
};

// Three red pictures and two blue ones. One red picture, example 1, is cut off.
struct Pictures {
  Pictures() {
    for (const std::string name : {"a/0.jpg", "a/1.jpg", "a/2.jpg", "b/0.jpg", "b/1.jpg"}) {
      std::filesystem::create_directories(
          std::filesystem::path(folder / ("pictures/" + name)).parent_path());
      at::Tensor image = at::zeros({8, 8, 3}, at::kByte);
      image.select(2, name.starts_with("a") ? 0 : 2).fill_(200);
      const at::Tensor bytes = encode_jpeg(image, 95);
      std::string text(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                       static_cast<size_t>(bytes.numel()));
      if (name == "a/1.jpg") text.resize(text.size() / 2);
      write_file_atomically(folder / ("pictures/" + name), text);
    }
    data.train = data.test =
        fmt::format("{{name: image_folder, data_dir: '{}'}}", folder / "pictures");
    data.pp =
        "decode|resize(2)|value_range(0, 1)|onehot(5, key=\"label\", key_result=\"labels\")|"
        "onehot(5, key=\"label\", key_result=\"teacher\")";
    data.more = "skip_errors: 1, ";
  }
  TempFolder folder;
  Data data;
};

// Returns the keys that an evaluator needs. Add a line for a new evaluator with its own keys.
std::string keys(const std::string& name, const Data& data, int64_t batch_size) {
  const auto pp = [&](const char* key) {
    return data.pp.empty() ? "" : fmt::format(", {}: '{}'", key, data.pp);
  };
  const std::string batch = fmt::format("{}batch_size: {}", data.more, batch_size);
  const std::string input = fmt::format("{}, data: {}{}", batch, data.test, pp("pp_fn"));
  if (name == "fewshot_lsr") {
    return fmt::format(
        "{{{}, datasets: {{a: {{train: {}, test: {}}}}}, shots: [1, 4], representation_layer: "
        "pre_logits{}{}}}",
        batch, data.train, data.test, pp("pp_train"), pp("pp_eval"));
  }
  if (name == "knn") {
    return fmt::format("{{{}, train: {}, k: [1, 5], representation_layer: pre_logits}}", input,
                       data.train);
  }
  if (name == "classification") return fmt::format("{{{}, loss_name: softmax_xent}}", input);
  if (name == "save") return fmt::format("{{{}, outfile: '{{workdir}}/s.npz'}}", input);
  if (name.ends_with("retrieval") || name.ends_with("contrastive"))
    return fmt::format("{{file: '{}'}}", data.pairs);
  if (name.ends_with("distance"))
    return fmt::format("{{{}, what: [logits, teacher], distances: [{{kind: kl}}]}}", input);
  return fmt::format("{{{}}}", input);
}

// `mean` averages values per example.
Measured run(const std::string& name, Evaluator& evaluator, const std::string& workdir) {
  if (name != "mean") return measure(evaluator, workdir);
  Measured measured;
  EvalContext context;
  context.predict = [&](const Batch& batch, const std::vector<std::string>& activations) {
    measured.rows += batch.at("_mask").sum().item<int64_t>();
    return Outputs{{"loss", fake_outputs(batch, activations).at("logits").select(1, 0)}};
  };
  evaluator.run(context, [&](std::string_view metric, double value) {
    measured.values.emplace_back(metric, value);
  });
  return measured;
}

TEST_CASE("the registered evaluators") {
  CHECK(Evaluator::Registry::names() ==
        std::vector<std::string>{"calibration", "class_metrics", "classification", "contrastive",
                                 "distance", "fewshot_lsr", "knn", "mean", "proj.distill.distance",
                                 "proj.image_text.contrastive", "proj.image_text.retrieval",
                                 "regression", "retrieval", "save"});
}

TEST_CASE("each evaluator sees every example once and measures the same for any batch size") {
  const Files files;
  for (const std::string& name : Evaluator::Registry::names()) {
    std::optional<Measured> first;
    NamedTensors saved;
    for (const int64_t batch_size : {1, 7, 64}) {
      INFO(name << " with batches of " << batch_size);
      const auto evaluator = make_evaluator(name, keys(name, files.data, batch_size));
      CHECK(evaluator->examples() == 0);
      const Batch batch = evaluator->probe(2);
      const bool asks = !batch.empty();
      if (asks) CHECK(batch.at("image").size(0) == 2);
      for (int pass = 0; pass < 2; ++pass) {
        const Measured measured = run(name, *evaluator, files.folder.path());
        CHECK(measured.rows == (asks ? evaluator->examples() : 0));
        if (!first) first = measured;
        REQUIRE(measured.names() == first->names());
        for (size_t i = 0; i < measured.values.size(); ++i) {
          INFO(measured.values[i].first);
          CHECK(std::isfinite(measured.values[i].second));
          CHECK(measured.values[i].second ==
                Approx(first->values[i].second).epsilon(1e-12).margin(0));
        }
      }
      if (name != "save") {
        CHECK_FALSE(first->values.empty());
        continue;
      }
      const NamedTensors now = read_npz(files.folder / "s.npz");
      if (saved.empty()) saved = now;
      REQUIRE(now.size() == saved.size());
      for (const auto& [array, values] : now) CHECK(values.equal(saved.at(array)));
    }
  }
}

TEST_CASE("an evaluation pads as few examples as possible") {
  const Files files;
  using Sizes = std::vector<int64_t>;
  for (const auto& [batch_size, expected] : std::vector<std::pair<int64_t, Sizes>>{
           {1024, {50}}, {50, {50}}, {48, {25, 25}}, {20, {17, 17, 17}}, {7, Sizes(8, 7)}}) {
    INFO("batches of at most " << batch_size);
    const auto evaluator = make_evaluator("mean", keys("mean", files.data, batch_size));
    Sizes sizes;
    EvalContext context;
    context.predict = [&](const Batch& batch, const std::vector<std::string>&) {
      sizes.push_back(batch.at("image").size(0));
      return Outputs{{"loss", batch.at("image").flatten(1).select(1, 0)}};
    };
    evaluator->run(context, [](std::string_view, double) {});
    CHECK(sizes == expected);
  }
}

TEST_CASE("each evaluator of a data set notices another label, of any example") {
  const Files files;
  const auto fingerprint = [&](const std::string& name) {
    const auto evaluator = make_evaluator(name, keys(name, files.data, 16));
    CHECK(evaluator->fingerprint() == 0);
    evaluator->probe(2);
    return evaluator->fingerprint();
  };
  const std::vector<std::string> names = Evaluator::Registry::names();
  std::map<std::string, uint64_t> before;
  for (const std::string& name : names) before[name] = fingerprint(name);
  NamedTensors changed = examples(kExamples);
  changed["label"][kExamples - 1] = (changed["label"][kExamples - 1].item<int64_t>() + 1) % 5;
  write_npz(files.folder / "test.npz", changed);
  for (const std::string& name : names) {
    INFO(name);
    const bool reads_data = !keys(name, files.data, 16).starts_with("{file:");
    CHECK((before[name] != 0) == reads_data);
    CHECK((fingerprint(name) != before[name]) == reads_data);
  }
}

TEST_CASE("evaluators of several data sets refuse images of different forms") {
  const Files files;
  NamedTensors bytes = examples(kExamples);
  bytes["image"] = at::zeros(bytes.at("image").sizes(), at::kByte);
  write_npz(files.folder / "bytes.npz", bytes);
  Data data = files.data;
  data.test = fmt::format("{{name: npz, fname: '{}'}}", files.folder / "bytes.npz");
  const auto line = [&](const std::string& name) {
    return error_of([&] { make_evaluator(name, keys(name, data, 4))->probe(1); });
  };
  const std::string start = "evaluator 'e': its data sets give different images: ",
                    end = "; change the preprocessing so that they agree";
  CHECK_THAT(line("knn"),
             Catch::EndsWith(start + "3 channels (8-bit) and 3 channels (float32)" + end));
  CHECK_THAT(line("fewshot_lsr"),
             Catch::EndsWith(start + "3 channels (float32) and 3 channels (8-bit)" + end));
}

TEST_CASE("each evaluator names a key that it does not know") {
  const Files files;
  for (const std::string& name : Evaluator::Registry::names()) {
    INFO(name);
    std::string yaml = keys(name, files.data, 4);
    yaml.insert(1, "colour: red, ");
    CHECK_THAT(refusal(name, yaml), Catch::StartsWith("t.yaml:1:2: error: unknown key 'colour'"));
  }
}

TEST_CASE("examples that cannot be read are left out within skip_errors, in every pass") {
  const Pictures pictures;
  for (const std::string& name : Evaluator::Registry::names()) {
    INFO(name);
    if (keys(name, pictures.data, 2).starts_with("{file:")) continue;  // it reads no examples
    const auto evaluator = make_evaluator(name, keys(name, pictures.data, 2));
    CHECK(evaluator->probe(2).at("image").size(0) == 2);
    // One of five examples fails, in each data set of fewshot_lsr and knn.
    const int64_t sets = evaluator->examples() / 5;
    std::optional<Measured> first;
    for (int pass = 0; pass < 3; ++pass) {
      const Measured measured = run(name, *evaluator, pictures.folder.path());
      CHECK(measured.rows == 4 * sets);
      if (!first) first = measured;
      CHECK(measured.values == first->values);
    }
  }
  const NamedTensors saved = read_npz(pictures.folder / "s.npz");
  CHECK(saved.at("inputs/_id").equal(at::tensor({0, 2, 3, 4}, at::kLong)));
  CHECK(saved.at("inputs/label").equal(at::tensor({0, 0, 1, 1}, at::kLong)));
  CHECK(saved.at("outputs/logits").sizes() == at::IntArrayRef{4, 5});

  const Measured calibrated = measure("calibration", keys("calibration", pictures.data, 2));
  double sum = 0;
  for (const auto& bin : calibrated.details.at(0).calibration) sum += bin.examples;
  CHECK(sum == 4);
  CHECK(measure("knn", keys("knn", pictures.data, 2)).at("prec@1_k=1") == 1);
}

}  // namespace
}  // namespace bv::test

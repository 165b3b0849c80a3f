// What every registered evaluator must do.
#include "lib/input/image/jpeg.h"
#include "lib/util/file.h"
#include "test/evals/support.h"

namespace bv {
namespace {

constexpr int64_t kExamples = 50, kTrain = 40;

// Its data and the files it reads.
struct Files {
  Files() {
    write_npz(folder / "test.npz", examples(kExamples));
    write_npz(folder / "train.npz", examples(kTrain, 5));
    write_npz(folder / "pairs.npz",
              {{"zimg", noise({kExamples, 8}, 1)}, {"ztxt", noise({kExamples, 8}, 2)}});
  }
  TempFolder folder;
};

// The keys an evaluator needs. New evaluators with keys of their own add a line.
std::string keys(const std::string& name, const Files& files, int64_t batch_size) {
  const std::string train = fmt::format("{{name: npz, fname: '{}'}}", files.folder / "train.npz"),
                    test = fmt::format("{{name: npz, fname: '{}'}}", files.folder / "test.npz"),
                    batch = fmt::format("batch_size: {}", batch_size);
  const std::string input = fmt::format("{}, data: {}", batch, test);
  if (name == "fewshot_lsr") {
    return fmt::format(
        "{{{}, datasets: {{a: {{train: {}, test: {}}}}}, shots: [1, 4], representation_layer: "
        "pre_logits}}",
        batch, train, test);
  }
  if (name == "knn") return fmt::format("{{{}, train: {}, k: [1, 5]}}", input, train);
  if (name == "classification") return fmt::format("{{{}, loss_name: softmax_xent}}", input);
  if (name == "save") return fmt::format("{{{}, outfile: '{{workdir}}/s.npz'}}", input);
  if (name.ends_with("retrieval") || name.ends_with("contrastive"))
    return fmt::format("{{file: '{}'}}", files.folder / "pairs.npz");
  if (name.ends_with("distance"))
    return fmt::format("{{{}, what: [logits, teacher], distances: [{{kind: kl}}]}}", input);
  return fmt::format("{{{}}}", input);
}

// `mean` averages values per example.
Measured run(const std::string& name, Evaluator& evaluator, const std::string& workdir) {
  if (name != "mean") return measure(evaluator, workdir);
  Measured measured;
  EvalContext context;
  context.predict = [&](const Batch& batch, const std::vector<std::string>& layers) {
    measured.rows += batch.at("_mask").sum().item<int64_t>();
    return Outputs{{"loss", fake_outputs(batch, layers).at("logits").select(1, 0)}};
  };
  evaluator.run(context, [&](std::string_view metric, double value) {
    measured.values.emplace_back(metric, value);
  });
  return measured;
}

TEST_CASE("the registered evaluators") {
  CHECK(Evaluator::Registry::names() ==
        std::vector<std::string>{"calibration", "classification", "contrastive", "distance",
                                 "fewshot_lsr", "knn", "mean", "proj.distill.distance",
                                 "proj.image_text.contrastive", "proj.image_text.retrieval",
                                 "retrieval", "save"});
}

TEST_CASE("each evaluator sees every example once and measures the same for any batch size") {
  const Files files;
  for (const std::string& name : Evaluator::Registry::names()) {
    std::optional<Measured> first;
    NamedTensors saved;
    for (const int64_t batch_size : {1, 7, 64}) {
      INFO(name << " with batches of " << batch_size);
      const auto evaluator = make_evaluator(name, keys(name, files, batch_size));
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

TEST_CASE("each evaluator names a key that it does not know") {
  const Files files;
  for (const std::string& name : Evaluator::Registry::names()) {
    INFO(name);
    std::string yaml = keys(name, files, 4);
    yaml.insert(1, "colour: red, ");
    CHECK_THAT(refusal(name, yaml), Catch::StartsWith("t.yaml:1:2: error: unknown key 'colour'"));
  }
}

TEST_CASE("examples that can't be read are left out within skip_errors") {
  const TempFolder folder;
  for (const std::string name : {"a/0.jpg", "a/1.jpg", "a/2.jpg", "b/0.jpg", "b/1.jpg"}) {
    std::filesystem::create_directories(
        std::filesystem::path(folder / ("pictures/" + name)).parent_path());
    at::Tensor image = at::zeros({8, 8, 3}, at::kByte);
    image.select(2, name.starts_with("a") ? 0 : 2).fill_(200);  // red, blue
    const at::Tensor bytes = encode_jpeg(image, 95);
    std::string text(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                     static_cast<size_t>(bytes.numel()));
    if (name == "a/1.jpg") text.resize(text.size() / 2);
    write_file_atomically(folder / ("pictures/" + name), text);
  }
  const std::string input = fmt::format(
      "batch_size: 2, skip_errors: 1, data: {{name: image_folder, data_dir: '{}'}}, pp_fn: "
      "'decode|resize(2)|value_range(0, 1)|onehot(5, key=\"label\", key_result=\"labels\")'",
      folder / "pictures");
  measure(*make_evaluator("save", fmt::format("{{{}, outfile: '{}'}}", input, folder / "s.npz")));
  const NamedTensors saved = read_npz(folder / "s.npz");
  CHECK(saved.at("inputs/_id").equal(at::tensor({0, 2, 3, 4}, at::kLong)));
  CHECK(saved.at("inputs/label").equal(at::tensor({0, 0, 1, 1}, at::kLong)));
  CHECK(saved.at("outputs/logits").sizes() == at::IntArrayRef{4, 5});

  double sum = 0;
  for (const auto& bin : measure("calibration", "{" + input + "}").details.at(0).calibration)
    sum += bin.examples;
  CHECK(sum == 4);
  const std::string train =
      fmt::format("train: {{name: image_folder, data_dir: '{}'}}, representation_layer: pre_logits",
                  folder / "pictures");
  CHECK(measure("knn", "{" + input + ", " + train + ", k: 1}").at("prec@1_k=1") == 1);
}

}  // namespace
}  // namespace bv

// knn: votes, ties, several k. save: names, placeholders, and the written arrays.
#include "lib/ckpt/workdir/workdir.h"
#include "test/evals/support.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

std::string source(const std::string& file) {
  return fmt::format("{{name: npz, fname: '{}'}}", file);
}

// Writes a data set of vectors of 5 numbers, which fake_outputs() returns as logits.
void store_vectors(const std::string& file, const at::Tensor& vectors,
                   const std::vector<int64_t>& labels) {
  write_npz(file, {{"image", at::zeros({vectors.size(0), 2, 2, 3})},
                   {"logits", vectors},
                   {"label", at::tensor(labels, at::kLong)}});
}

// Returns vectors in the plane with these angles in degrees.
at::Tensor at_angles(const std::vector<double>& degrees) {
  at::Tensor vectors = at::zeros({std::ssize(degrees), 5});
  for (int64_t i = 0; i < std::ssize(degrees); ++i) {
    vectors[i][0] = 3 * std::cos(degrees[i] * M_PI / 180);  // lengths do not matter
    vectors[i][1] = 3 * std::sin(degrees[i] * M_PI / 180);
  }
  return vectors;
}

TEST_CASE("knn: majority and similarity differ where they should") {
  const TempFolder folder;
  store_vectors(folder / "train.npz", at_angles({1, 40, 41, 90, 91}), {2, 1, 1, 0, 0});
  store_vectors(folder / "test.npz", at_angles({0, 42, 89}), {2, 1, 0});
  const auto run = [&](const std::string& more) {
    return measure("knn", fmt::format("{{train: {}, data: {}, {}}}", source(folder / "train.npz"),
                                      source(folder / "test.npz"), more));
  };
  const Measured majority = run("k: [1, 3, 5], vote: majority");
  CHECK(majority.names() == std::vector<std::string>{"prec@1_k=1", "prec@1_k=3", "prec@1_k=5"});
  CHECK(majority.at("prec@1_k=1") == 1);
  CHECK(majority.at("prec@1_k=3") == Approx(2 / 3.));  // the first: 2, 1, 1
  CHECK(majority.at("prec@1_k=5") == Approx(1 / 3.));  // classes 0 and 1 tie: the lower one wins
  CHECK(run("k: 5, temperature: 0.01").at("prec@1_k=5") == 1);
  CHECK(run("k: 5, temperature: 1.0e-9").at("prec@1_k=5") == 1);
  CHECK(run("k: 5, temperature: 1.0e+6").at("prec@1_k=5") == Approx(2 / 3.));  // barely
  CHECK(run("k: 999, vote: majority").at("prec@1_k=999") == majority.at("prec@1_k=5"));
  CHECK_THAT(
      refusal("knn", fmt::format("{{train: {0}, data: {0}, k: 0}}", source(folder / "train.npz"))),
      Catch::Contains("k: must be positive"));
  CHECK_THAT(refusal("knn", fmt::format("{{data: {}}}", source(folder / "train.npz"))),
             Catch::Contains("train.name: missing: a string is required"));
  CHECK_THAT(refusal("knn", fmt::format("{{train: {0}, data: {0}, vote: majority, temperature: 1}}",
                                        source(folder / "train.npz"))),
             Catch::Contains("unknown key 'temperature'"));
}

TEST_CASE("knn: equal neighbours count in the order of the data; any batch size gives the same") {
  const TempFolder folder;
  store_vectors(folder / "train.npz", at_angles({5, 5, 5, 5}), {3, 1, 1, 1});
  store_vectors(folder / "test.npz", at_angles({0}), {3});
  const auto run = [&](const std::string& train, const std::string& test, const std::string& more) {
    return measure("knn", fmt::format("{{train: {}, data: {}, {}}}", source(folder / train),
                                      source(folder / test), more));
  };
  CHECK(run("train.npz", "test.npz", "k: 1").at("prec@1_k=1") == 1);
  CHECK(run("train.npz", "test.npz", "k: 4").at("prec@1_k=4") == 0);

  write_npz(folder / "a.npz", examples(700));
  write_npz(folder / "b.npz", examples(600, 9));
  const auto values = [&](int batch_size) {
    return run("a.npz", "b.npz",
               fmt::format("k: [1, 20], representation_layer: pre_logits, "
                           "batch_size: {}",
                           batch_size))
        .values;
  };
  CHECK(values(1) == values(64));
  CHECK(values(7) == values(64));
  CHECK(values(7)[1].second > 0.3);  // chance is 0.2
  // When a set is searched in itself, each example is its own nearest neighbour.
  CHECK(run("a.npz", "a.npz", "k: 1").at("prec@1_k=1") == 1);
}

TEST_CASE("save writes inputs and outputs without padding, at the step's name") {
  const TempFolder folder;
  const NamedTensors data = examples(10);
  write_npz(folder / "d.npz", data);
  const std::string input = "batch_size: 4, data: " + source(folder / "d.npz");
  const auto save = make_evaluator("save", "{" + input + "}");
  save->probe(1);
  CHECK(measure(*save, folder.path(), 42).values.empty());
  const NamedTensors saved = read_npz(folder / "e-000000042.npz");
  std::vector<std::string> names;
  for (const auto& [name, array] : saved) names.push_back(name);
  CHECK(names == std::vector<std::string>{"inputs/_id", "inputs/image", "inputs/label",
                                          "inputs/labels", "inputs/teacher", "outputs/logits"});
  CHECK(saved.at("inputs/image").equal(data.at("image")));
  CHECK(saved.at("inputs/_id").equal(at::arange(10, at::kLong)));
  CHECK(saved.at("outputs/logits").equal(data.at("image").flatten(1).slice(1, 0, 5)));

  measure(
      *make_evaluator("save", fmt::format("{{{}, inputs: [label], outputs: [pre_logits], outfile: "
                                          "'{{workdir}}/a/b/{{step}}-{{step:03d}}.npz'}}",
                                          input)),
      folder.path(), 7);
  const NamedTensors chosen = read_npz(folder / "a/b/7-007.npz");
  REQUIRE(chosen.size() == 2);
  CHECK(chosen.at("inputs/label").equal(data.at("label")));
  CHECK(chosen.at("outputs/pre_logits").equal(data.at("image").flatten(1)));
}

TEST_CASE("save writes nothing to an empty folder that has taken the workdir's place") {
  const TempFolder folder;
  const std::string dir = folder / "w";
  write_npz(folder / "d.npz", examples(3));
  const std::string input = "data: " + source(folder / "d.npz");
  Workdir workdir(dir);
  workdir.claim();
  const auto run = [&](const std::string& outfile) {
    measure(*make_evaluator("save", fmt::format("{{{}, outfile: '{}'}}", input, outfile)), dir, 3,
            [&] { workdir.folder()->require_there(); });
  };
  run("{workdir}/there.npz");
  CHECK(std::filesystem::exists(dir + "/there.npz"));
  // Like the mount point of a disk that was unmounted.
  std::filesystem::rename(dir, folder / "moved");
  std::filesystem::create_directory(dir);
  CHECK_THAT(error_of([&] { run("{workdir}/a/lost.npz"); }, Exit::storage),
             Catch::StartsWith(dir + ": error: the workdir is gone: "));
  CHECK(std::filesystem::is_empty(dir));
  run(folder / "elsewhere.npz");
  CHECK(std::filesystem::exists(folder / "elsewhere.npz"));
}

TEST_CASE("save: without a workdir there is no file; refused names") {
  const TempFolder folder;
  write_npz(folder / "d.npz", examples(3));
  const std::string input = "data: " + source(folder / "d.npz");
  const std::string log =
      logged([&] { CHECK(measure(*make_evaluator("save", "{" + input + "}")).rows == 0); });
  CHECK_THAT(log, Catch::Contains(
                      "evaluator 'e' writes nothing: there is no folder for {workdir} in a run "
                      "without a workdir, and in bvtrain eval with --ckpt or --best; give an "
                      "outfile without {workdir}"));
  measure(*make_evaluator("save", fmt::format("{{{}, outfile: '{}'}}", input, folder / "x.npz")));
  CHECK(std::filesystem::exists(folder / "x.npz"));

  const auto said = [&](const std::string& outfile) {
    return refusal("save", fmt::format("{{outfile: '{}', {}}}", outfile, input));
  };
  const std::string before = read_text(folder / "d.npz");
  const std::string named = "is a file that the config names; choose another name";
  CHECK(said(folder / "d.npz") == "t.yaml:1:11: error: outfile: " + named);
  CHECK(said(folder / "./d.npz") == "t.yaml:1:11: error: outfile: " + named);
  const std::string third = folder / "d3.npz";
  std::filesystem::copy_file(folder / "d.npz", third);
  CHECK(refusal("save", fmt::format("{{outfile: '{}', data: {}}}", folder / "d{step}.npz",
                                    source(third))) == third + ": error: " + named);
  CHECK(read_text(folder / "d.npz") == before);
  CHECK(read_text(third) == before);
  CHECK(said("{workdir}/x.txt") == "t.yaml:1:11: error: outfile: must end in .npz");
  for (const std::string name : {"stop", "step:9d", "step:0999d", "step:09x", "", "step:0-1d"}) {
    CHECK(said("a{" + name + "}.npz") ==
          fmt::format(
              "t.yaml:1:11: error: outfile: unknown placeholder '{{{}}}'; known: {{workdir}}, "
              "{{step}}, {{step:09d}}",
              name));
  }
  CHECK_THAT(said("a{step.npz"), Catch::Contains("unknown placeholder"));
  CHECK_THAT(said("gs://b/a.npz"), Catch::Contains("remote paths are not supported"));
  CHECK_THAT(refusal("save", fmt::format("{{inputs: [imag], {}}}", input)),
             Catch::StartsWith("error: evaluator 'e': pp_fn gives no 'imag' (it gives "));
}

}  // namespace
}  // namespace bv::test

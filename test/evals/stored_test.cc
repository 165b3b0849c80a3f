// Evaluators on stored arrays: retrieval, contrastive and distance are compared with the reference;
// and rejected inputs.
#include <fstream>

#include "test/evals/support.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

std::string file_key(const std::string& file, const std::string& more = "") {
  return fmt::format("{{file: '{}'{}{}}}", file, more.empty() ? "" : ", ", more);
}

TEST_CASE("retrieval equals the reference's") {
  const std::string file = golden_file("retrieval.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  for (const std::string type : {"retrieval", "proj.image_text.retrieval"}) {
    const Measured measured = measure(type, file_key(file));
    CHECK(measured.names() == std::vector<std::string>{"img2txt_recall@1", "img2txt_recall@5",
                                                       "img2txt_recall@10", "txt2img_recall@1",
                                                       "txt2img_recall@5", "txt2img_recall@10"});
    for (const auto& [name, value] : measured.values) {
      INFO(name);
      CHECK(static_cast<float>(value) == golden.at(name).item<float>());
    }
  }
}

TEST_CASE("retrieval from embeddings equals retrieval from their distances, and a plain sort") {
  const TempFolder folder;
  const at::Tensor zimg = noise({40, 6}, 1);
  const at::Tensor owner = at::arange(90, at::kLong).mul(11).remainder(40);
  const at::Tensor ztxt = zimg.index_select(0, owner) + noise({90, 6}, 2);
  const at::Tensor dist = -zimg.to(at::kDouble).mm(ztxt.to(at::kDouble).t());
  write_npz(folder / "z.npz",
            {{"zimg", zimg}, {"ztxt", ztxt}, {"text_image_correspondence", owner}});
  write_npz(folder / "d.npz", {{"far", dist}, {"owner", owner}});
  const Measured a = measure("retrieval", file_key(folder / "z.npz"));
  CHECK(a.values ==
        measure("retrieval",
                file_key(folder / "d.npz", "distance: far, text_image_correspondence: owner"))
            .values);
  for (const int64_t k : {1, 5, 10}) {
    const at::Tensor texts = dist.argsort(int64_t{1}).slice(1, 0, k),
                     images = dist.argsort(int64_t{0}).slice(0, 0, k);
    const at::Tensor img2txt = owner.index_select(0, texts.flatten())
                                   .view_as(texts)
                                   .eq(at::arange(40, at::kLong).unsqueeze(1))
                                   .any(1)
                                   .to(at::kDouble)
                                   .mean();
    const at::Tensor txt2img = images.eq(owner.unsqueeze(0)).any(0).to(at::kDouble).mean();
    CHECK(a.at(fmt::format("img2txt_recall@{}", k)) == Approx(img2txt.item<double>()));
    CHECK(a.at(fmt::format("txt2img_recall@{}", k)) == Approx(txt2img.item<double>()));
  }
}

TEST_CASE("retrieval: ties go to the lower index") {
  const TempFolder folder;
  write_npz(folder / "d.npz", {{"dist", at::zeros({12, 12})}});
  const Measured measured = measure("retrieval", file_key(folder / "d.npz"));
  for (const std::string direction : {"img2txt", "txt2img"}) {
    for (const int k : {1, 5, 10})
      CHECK(measured.at(fmt::format("{}_recall@{}", direction, k)) == Approx(k / 12.0));
  }
}

TEST_CASE("retrieval never finds an image without a text, also with fewer texts than k") {
  const TempFolder folder;
  write_npz(folder / "d.npz",
            {{"dist", at::zeros({3, 3})}, {"owner", at::arange(3, at::kLong).floor_divide(2)}});
  const Measured measured =
      measure("retrieval", file_key(folder / "d.npz", "text_image_correspondence: owner"));
  for (const int k : {5, 10}) {
    CHECK(measured.at(fmt::format("img2txt_recall@{}", k)) == Approx(2 / 3.0));
    CHECK(measured.at(fmt::format("txt2img_recall@{}", k)) == 1);
  }
}

TEST_CASE("the contrastive loss equals the reference's") {
  const std::string file = golden_file("losses.npz");  // has its own zimg, ztxt, t, mask
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  const auto mean = [&](const std::string& name) {
    return golden.at(name).to(at::kDouble).mean().item<double>();
  };
  const Measured masked = measure("contrastive", file_key(file));
  CHECK(masked.names() == std::vector<std::string>{"ncorrect_minibatch", "loss"});
  CHECK(masked.at("loss") ==
        Approx(golden.at("contrastive_masked_mean/loss").item<double>()).epsilon(3e-6));
  CHECK(masked.at("ncorrect_minibatch") ==
        golden.at("contrastive_masked_mean/ncorrect").item<double>());

  const TempFolder folder;
  write_npz(folder / "z.npz", {{"a", golden.at("zimg")}, {"b", golden.at("ztxt")}});
  const Measured all =
      measure("proj.image_text.contrastive",
              file_key(folder / "z.npz",
                       fmt::format("image: a, text: b, t: {}", golden.at("t").item<double>())));
  CHECK(all.at("loss") == Approx(mean("contrastive/loss")).epsilon(3e-6));
  CHECK(all.at("ncorrect_minibatch") == mean("contrastive/ncorrect"));
}

TEST_CASE("contrastive in minibatches is the mean over them, whatever the blocks") {
  const TempFolder folder;
  const at::Tensor zimg = noise({2500, 3}, 1), ztxt = zimg + noise({2500, 3}, 2);
  const auto loss = [](const at::Tensor& a, const at::Tensor& b) {  // the sum
    const at::Tensor logits = a.to(at::kDouble).mm(b.to(at::kDouble).t()) * 2;
    return -0.5 * (logits.log_softmax(0) + logits.log_softmax(1)).trace().item<double>();
  };
  write_npz(folder / "z.npz", {{"zimg", zimg}, {"ztxt", ztxt}});
  CHECK(measure("contrastive", file_key(folder / "z.npz", "t: 2")).at("loss") ==
        Approx(loss(zimg, ztxt) / 2500));
  double sum = 0;
  for (int64_t begin = 0; begin < 2500; begin += 600) {
    const int64_t size = std::min<int64_t>(600, 2500 - begin);
    sum += loss(zimg.narrow(0, begin, size), ztxt.narrow(0, begin, size));
  }
  CHECK(measure("contrastive", file_key(folder / "z.npz", "t: 2, minibatch: 600")).at("loss") ==
        Approx(sum / 2500));
}

const std::vector<std::pair<std::string, std::string>> kDistances = {
    {"kind: kl", "kl"},
    {"kind: kl, t: 4", "kl_t=4"},
    {"kind: euclidean", "euclidean"},
    {"kind: l2", "l2"},
    {"kind: hard", "hard"},
    {"kind: hard, ls: 0.1", "hard_ls=0.1"},
    {"kind: logsoftmax_euclidean", "logsoftmax_euclidean"},
    {"kind: agree, k: 1", "agree_k=1"},
    {"kind: agree, k: 5", "agree_k=5"}};

TEST_CASE("distances equal the reference's, stored or predicted, whatever the batch size") {
  const std::string file = golden_file("losses.npz");
  if (file.empty()) return;
  const NamedTensors golden = read_npz(file);
  std::string list;
  for (const auto& [yaml, name] : kDistances)
    list += fmt::format("{}{{{}}}", list.empty() ? "" : ", ", yaml);
  const Measured stored = measure(
      "distance", file_key(file, fmt::format("what: [student, teacher], distances: [{}]", list)));
  const TempFolder folder;
  write_npz(folder / "d.npz", {{"image", at::zeros({6, 2, 2, 3})},
                               {"logits", golden.at("student")},
                               {"deit", golden.at("teacher").unsqueeze(2)}});
  std::vector<Measured> all = {stored};
  for (const int batch_size : {1, 4, 6}) {
    all.push_back(measure("proj.distill.distance",
                          fmt::format("{{data: {{name: npz, fname: '{}'}}, what: [logits, deit], "
                                      "distances: [{}], batch_size: {}}}",
                                      folder / "d.npz", list, batch_size)));
  }
  for (const Measured& measured : all) {
    REQUIRE(measured.values.size() == 4 * kDistances.size());
    for (const auto& [yaml, name] : kDistances) {
      INFO(name);
      const at::Tensor values = golden.at("dist/" + name).to(at::kDouble);
      const double exact = name.starts_with("agree") ? 0 : 1e-5;
      CHECK(measured.at("kind=" + name + "/all") == 6);
      CHECK(measured.at("kind=" + name + "/avg") ==
            Approx(values.mean().item<double>()).epsilon(exact).margin(exact / 10));
      CHECK(measured.at("kind=" + name + "/min") ==
            Approx(values.min().item<double>()).epsilon(exact).margin(exact / 10));
      CHECK(measured.at("kind=" + name + "/max") ==
            Approx(values.max().item<double>()).epsilon(exact).margin(exact / 10));
    }
  }
}

TEST_CASE("agree: of equal entries the first counts") {
  const TempFolder folder;
  write_npz(folder / "d.npz", {{"s", at::zeros({1, 40})},
                               {"t", at::eye(40).slice(0, 0, 1)},
                               {"u", at::eye(40).slice(0, 1, 2)}});
  const auto agree = [&](const std::string& teacher, int k) {
    return measure("distance", file_key(folder / "d.npz",
                                        fmt::format("what: [s, {}], distances: [{{kind: agree, k: "
                                                    "{}}}]",
                                                    teacher, k)))
        .at(fmt::format("kind=agree_k={}/avg", k));
  };
  CHECK(agree("t", 1) == 1);
  CHECK(agree("u", 1) == 0);
  CHECK(agree("u", 2) == 1);
}

TEST_CASE("the name of a distance begins with its kind, and keeps the spelling of its argument") {
  const TempFolder folder;
  write_npz(folder / "d.npz", {{"s", at::eye(4)}});
  const Measured measured =
      measure("distance", file_key(folder / "d.npz",
                                   "what: [s, s], distances: [{k: 2, kind: agree}, {epsilon: 1e-6, "
                                   "kind: euclidean}]"));
  CHECK(measured.at("kind=agree_k=2/avg") == 1);
  CHECK(measured.at("kind=euclidean_epsilon=1e-6/all") == 4);
}

TEST_CASE("evaluators tell other values in their file of arrays, and equal ones in a copy") {
  const TempFolder folder;
  const auto content = [&](const std::string& type, const std::string& more, uint64_t seed,
                           const std::string& name) {
    write_npz(folder / name, {{"zimg", noise({4, 3}, seed)}, {"ztxt", noise({4, 3}, 9)}});
    const auto evaluator = make_evaluator(type, file_key(folder / name, more));
    CHECK(evaluator->content() == 0);
    evaluator->probe(1);
    return evaluator->content();
  };
  const std::pair<std::string, std::string> types[] = {
      {"contrastive", ""},
      {"retrieval", ""},
      {"distance", "what: [zimg, ztxt], distances: [{kind: l2}]"}};
  for (const auto& [type, more] : types) {
    INFO(type);
    const uint64_t first = content(type, more, 1, "a.npz");
    CHECK(first != 0);
    CHECK(content(type, more, 1, "b.npz") == first);
    CHECK(content(type, more, 2, "a.npz") != first);
  }
}

TEST_CASE("wrong stored arrays are refused with the file") {
  const TempFolder folder;
  const std::string file = folder / "z.npz";
  at::Tensor bad = noise({4, 3}, 1);
  bad[2][1] = std::nanf("");
  write_npz(file, {{"zimg", noise({4, 3}, 1)},
                   {"ztxt", noise({5, 3}, 1)},
                   {"wide", noise({4, 7}, 1)},
                   {"one", noise({4, 1}, 1)},
                   {"bad", bad},
                   {"owner", at::tensor({0, 1, 2, 3, 4}, at::kLong)},
                   {"short", at::tensor({0, 1}, at::kLong)},
                   {"none", at::zeros({4}, at::kLong)}});
  const auto retrieval = [&](const std::string& more) {
    return refusal("retrieval", file_key(file, more));
  };
  const std::string where = file + ": error: ";
  CHECK(retrieval("") == where +
                             "no array 'text_image_correspondence' with the image of each text, "
                             "for 4 images and 5 texts");
  CHECK(retrieval("text_image_correspondence: owner") ==
        where + "'owner'[4] is 4, but there are 4 images");
  CHECK(retrieval("text_image_correspondence: short") ==
        where + "'short' has 2 entries for 5 texts");
  CHECK(retrieval("text_image_correspondence: wide") ==
        where + "array 'wide' is float32 (4, 7), expected a list of integers");
  CHECK(retrieval("image: wide") == where + "'wide' has vectors of 7, 'ztxt' of 3");
  CHECK(retrieval("image: bad") == where + "array 'bad' contains nan or inf");
  CHECK(retrieval("image: owner") ==
        where + "array 'owner' has shape (5), expected rows of vectors");
  CHECK_THAT(retrieval("image: zimgs"), Catch::StartsWith(where + "unknown array 'zimgs' (did you "
                                                                  "mean 'zimg'?)"));
  CHECK_THAT(
      retrieval("distance: x, image: y"),
      Catch::Contains("distance: is given together with image or text; give one or the other"));
  CHECK(refusal("retrieval", "{}") == "t.yaml: error: file: missing: a string is required");
  CHECK_THAT(refusal("retrieval", file_key(folder / "absent.npz")), Catch::Contains("absent.npz"));

  const auto contrastive = [&](const std::string& more) {
    return refusal("contrastive", file_key(file, more));
  };
  CHECK(contrastive("") == where + "'zimg' is (4, 3), but 'ztxt' is (5, 3)");
  CHECK(contrastive("text: bad") == where + "array 'bad' contains nan or inf");
  CHECK(contrastive("text: zimg, mask: none") == where + "'none' leaves nothing");
  CHECK(contrastive("text: zimg, mask: m") == where + "there is no array 'm'");
  CHECK(contrastive("text: zimg, mask: short") == where + "'short' has 2 entries for 4 pairs");
  CHECK_THAT(contrastive("minibatch: 0"), Catch::Contains("minibatch: must be positive"));

  const auto distance = [&](const std::string& more) {
    return refusal("distance", file_key(file, more));
  };
  CHECK_THAT(distance("what: [zimg, zimg], distances: [{kind: l3}]"),
             Catch::Contains("unknown kind of distance 'l3' (did you mean 'l2'?)"));
  CHECK_THAT(distance("what: [zimg, zimg], distances: [{kind: l2, t: 2}]"),
             Catch::Contains("the distance 'l2' takes no 't'"));
  CHECK_THAT(distance("what: [zimg, zimg], distances: [{t: 2}]"),
             Catch::Contains("kind: missing: a string is required"));
  CHECK_THAT(distance("what: [zimg, zimg], distances: [{kind: kl, t: [2]}]"),
             Catch::Contains("t: expected a string, got a list"));
  CHECK(distance("what: [zimg, wide], distances: [{kind: l2}]") ==
        where + "'zimg' is (4, 3), but 'wide' is (4, 7)");
  const auto agree = make_evaluator(
      "distance", file_key(file, "what: [zimg, zimg], distances: [{kind: agree, k: 4}]"));
  CHECK_THAT(error_of([&] { agree->probe(1); }),
             Catch::EndsWith("error: distance 'agree': k is 4, but the vectors have 3 entries"));
  const auto hard = make_evaluator(
      "distance", file_key(file, "what: [one, one], distances: [{kind: hard, ls: 0.1}]"));
  CHECK_THAT(error_of([&] { hard->probe(1); }),
             Catch::EndsWith("error: distance 'hard': ls is spread over the other classes, but the "
                             "vectors have 1 entry"));
  CHECK(distance("what: [one, one], distances: [{kind: hard}]") == "");
  CHECK_THAT(distance("what: [zimg, zimg]"), Catch::Contains("distances: missing"));
}

}  // namespace
}  // namespace bv::test

// The labels of an npz file whose images are predicted.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/predict/predict.h"
#include "test/predict/small_cnn.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"

namespace bv::test {

TEST_CASE("label 2 of an npz file means the class '2', wherever it is in the list of classes") {
  const TempFolder folder;
  const std::string file = folder / "in.npz";
  std::string log;
  const auto classes = [&](std::vector<std::string> names, std::vector<int64_t> label,
                           const std::string& loss = "softmax_xent") {
    const at::Tensor labels = at::tensor(label, at::kLong);
    write_npz(file, {{"image", at::zeros({labels.size(0), 4, 4, 1})}, {"label", labels}});
    PredictModel model;
    model.config = parse_config("num_classes: 4\nloss: " + loss + "\n", "t.yaml");
    model.class_names = std::move(names);
    PredictRequest request;
    request.inputs = {file};
    request.outputs = {"image"};
    request.pp = "";
    request.labels = true;
    std::vector<int64_t> found;
    log = logged([&] {
      predict(model, request, [&](const PredictedBatch& batch) {
        for (const PredictedRow& row : batch.rows) {
          found.insert(found.end(), row.label->classes.begin(), row.label->classes.end());
        }
      });
    });
    return found;
  };
  using Numbers = std::vector<int64_t>;
  const Numbers labels = {2, 10, 0, 1};
  CHECK(classes({"0", "1", "10", "2"}, labels) == Numbers{3, 2, 0, 1});
  CHECK_THAT(log, Catch::Contains(file + ": has no class names, but the model has: these names are "
                                         "numbers, so label 2 is the class '2'"));
  CHECK(error_of([&] {
          classes({"0", "1", "10", "2"}, {2, 3});
        }) == file + ": error: has examples of 3, but the classes of the model are 0, 1, 10, 2");
  CHECK(classes({"cat", "dog"}, {1, 0}) == Numbers{1, 0});
  CHECK_THAT(log, Catch::Contains(file + ": has no class names, but the model has: labels are "
                                         "compared by number (0 is 'cat')"));
  CHECK(classes({}, labels) == labels);
  CHECK(log.find("class names") == std::string::npos);
  CHECK(classes({"0", "1", "10", "2"}, labels, "mse").empty());  // they are no classes
  CHECK(log.find("class names") == std::string::npos);
}

TEST_CASE("labels of an npz file may be numbers for a regression, but not for classes") {
  const TempFolder folder;
  const std::string file = folder / "in.npz";
  const auto labels = [&](const std::string& loss, const at::Tensor& label) {
    write_npz(file, {{"image", at::zeros({2, 4, 4, 1})}, {"label", label}});
    PredictModel model;
    model.config = parse_config("num_classes: 2\nloss: " + loss + "\n", "t.yaml");
    PredictRequest request;
    request.inputs = {file};
    request.outputs = {"image"};
    request.pp = "";
    request.labels = true;
    std::vector<std::vector<float>> values;
    const std::string log = logged([&] {
      predict(model, request, [&](const PredictedBatch& batch) {
        for (const PredictedRow& row : batch.rows) {
          if (row.label) values.push_back(row.label->values);
        }
      });
    });
    CHECK((log.find(file + ": the array 'label' is not used: it does not hold one integer for each "
                           "image") != std::string::npos) == (loss == "softmax_xent"));
    return values;
  };
  using Values = std::vector<std::vector<float>>;
  CHECK(labels("mse", at::tensor({0.5F, 2.F})) == Values{{0.5F}, {2.F}});
  CHECK(labels("mse", at::tensor({1.F, 2.F, 3.F, 4.F}).reshape({2, 2})) ==
        Values{{1.F, 2.F}, {3.F, 4.F}});
  CHECK(labels("mse", at::tensor({3, 4}, at::kLong)) == Values{{3.F}, {4.F}});
  CHECK(labels("softmax_xent", at::tensor({0.5F, 2.F})).empty());
}

TEST_CASE("a label of an npz file that is text is left out with a warning") {
  const TempFolder folder;
  const std::string file = folder / "in.npz";
  write_npz(file, {{"image", at::zeros({2, 4, 4, 1})}}, {{"label", {"cat", "dog"}}});
  CHECK(is_npz_text(file, "label"));
  CHECK_FALSE(is_npz_text(file, "image"));
  CHECK_FALSE(is_npz_text(file, "none"));
  PredictModel model;
  model.config = parse_config("num_classes: 2\nloss: softmax_xent\n", "t.yaml");
  PredictRequest request;
  request.inputs = {file};
  request.outputs = {"image"};
  request.pp = "";
  const auto log_of = [&](bool labels) {
    request.labels = labels;
    return logged([&] { predict(model, request, [](const PredictedBatch&) {}); });
  };
  CHECK_THAT(log_of(true),
             Catch::Contains(file + ": the array 'label' is not used: it holds text"));
  CHECK(log_of(false).find("'label'") == std::string::npos);
}

TEST_CASE("predict refuses labels that are no class of the model, unless an evaluator takes them") {
  const TempFolder folder;
  const std::string images = folder / "in.npz", weights = folder / "w.npz";
  write_npz(weights, small_cnn());
  const at::Tensor labels = at::tensor({1, 2, 2}, at::kLong);
  write_npz(images, {{"image", at::zeros({3, 8, 8, 1})}, {"label", labels}});
  const auto predict_with = [&](const std::string& type) {
    PredictModel model;
    model.config = parse_config(
        fmt::format("{{model_name: cnn, model: {{widths: [4]}}, num_classes: 2, model_init: '{}', "
                    "evals: {{val: {{type: {}, data: {{name: npz, fname: '{}', split: all}}, "
                    "pp_fn: ''}}}}}}",
                    weights, type.empty() ? "knn" : type, images),
        "t.yaml");
    PredictRequest request;
    if (type.empty()) {
      request.inputs = {images};
      request.pp = "";
    } else {
      request.eval = "val";
    }
    request.outputs = {"logits"};
    request.labels = true;
    int64_t rows = 0;
    predict(model, request, [&](const PredictedBatch& batch) { rows += std::ssize(batch.rows); });
    CHECK(rows == 3);
  };
  const std::string what = "the label of row 1 is 2, but the classes of the model are 0 .. 1";
  CHECK(error_of([&] { predict_with(""); }) ==
        images + ": error: " + what + "; to predict without labels, leave the array 'label' out");
  const std::string refused = error_of([&] { predict_with("class_metrics"); });
  CHECK_THAT(refused, Catch::StartsWith("--eval val: error: the label of "));
  CHECK_THAT(refused, Catch::EndsWith("the classes of the model are 0 .. 1"));
  CHECK_THAT(
      logged([&] { predict_with("knn"); }),
      Catch::Contains("--eval val: 2 labels are no class of the model, so their images count "
                      "as wrong; the first: the label of "));
}

TEST_CASE("labels for a multilabel model of one class are 1 or 0: whether an image has the class") {
  const TempFolder folder;
  const std::string images = folder / "in.npz", weights = folder / "w.npz";
  write_npz(weights, small_cnn(/*classes=*/1));
  const auto classes = [&](const at::Tensor& labels) {
    write_npz(images, {{"image", at::zeros({labels.size(0), 8, 8, 1})}, {"label", labels}});
    PredictModel model;
    model.config = parse_config(
        fmt::format("{{model_name: cnn, model: {{widths: [4]}}, num_classes: 1, loss: sigmoid_xent,"
                    " task_kw: {{multilabel: true}}, model_init: '{}'}}",
                    weights),
        "t.yaml");
    model.class_names = {"hit"};
    PredictRequest request;
    request.inputs = {images};
    request.outputs = {"logits"};
    request.pp = "";
    request.labels = true;
    std::vector<std::vector<int64_t>> found;
    const std::string log = logged([&] {
      predict(model, request, [&](const PredictedBatch& batch) {
        for (const PredictedRow& row : batch.rows) found.push_back(row.label->classes);
      });
    });
    CHECK(log.find("class names") == std::string::npos);  // no label is the number of a class
    return found;
  };
  using Classes = std::vector<std::vector<int64_t>>;
  CHECK(classes(at::tensor({0, 1, 0}, at::kLong)) == Classes{{}, {0}, {}});
  CHECK(classes(at::tensor({1, 0}, at::kLong).to(at::kByte).view({2, 1})) == Classes{{0}, {}});
  CHECK(error_of([&] {
          classes(at::tensor({0, 2}, at::kLong));
        }) == images +
                  ": error: the label of row 1 is 2, but the model has one class, so a label is "
                  "1 (the image has it) or 0; to predict without labels, leave the array 'label' "
                  "out");
}

}  // namespace bv::test

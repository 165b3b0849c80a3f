// Prediction output: exact lines, quoting, rows with errors.
#include "lib/predict/prediction_text.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "test/support/error.h"

namespace bv::test {
namespace {

// Two readable images and an unreadable one between them. The class probabilities are exactly 0,
// 1/2, 1 and 1, 1/2, 0.
PredictedBatch example_batch() {
  PredictedBatch batch;
  batch.rows = {{.name = "a.jpg"}, {.name = "b,\"c\".jpg", .error = "too short"}, {.name = "d"}};
  batch.arrays["logits"] = at::tensor({-200.F, 0.F, 20.F, 20.F, 0.F, -200.F}).reshape({2, 3});
  batch.class_names = {"cat", "dog, wet", "ox"};
  batch.sigmoid = true;
  return batch;
}

RightLabel right(std::vector<int64_t> classes) { return {.classes = std::move(classes)}; }

// Only images that could not be read.
PredictedBatch unread() {
  PredictedBatch batch = example_batch();
  batch.rows = {{.name = "e", .error = "bad"}};
  batch.arrays.clear();
  return batch;
}

std::atomic<int> g_operators{0};

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction&) {
  ++g_operators;
  return nullptr;
}

std::string whole(PredictionText& text, const std::vector<PredictedBatch>& batches) {
  std::string all;
  for (const PredictedBatch& batch : batches) all += text.add(batch);
  return all + text.end();
}

}  // namespace

TEST_CASE("predictions as JSON lines") {
  CHECK(whole(*json_lines(2), {unread(), example_batch()}) ==
        R"({"file":"e","error":"bad"}
{"file":"a.jpg","top":[{"index":2,"class":"ox","probability":1.0},{"index":1,"class":"dog, wet","probability":0.5}]}
{"file":"b,\"c\".jpg","error":"too short"}
{"file":"d","top":[{"index":0,"class":"cat","probability":1.0},{"index":1,"class":"dog, wet","probability":0.5}]}
)");
  PredictedBatch labelled = example_batch();
  labelled.labelled = true;
  labelled.rows[0].label = right({1});
  labelled.rows[0].name = "\xe4";  // not UTF-8
  CHECK(json_lines(1)->add(labelled).starts_with(
      "{\"file\":\"\xef\xbf\xbd\",\"label\":{\"index\":1,\"class\":\"dog, wet\"},\"top\":[{"));
  // JSON has no NaN or infinity, but a diverged model may predict them.
  PredictedBatch diverged = example_batch();
  diverged.numbers = true;
  diverged.rows = {{.name = "a"}};
  diverged.arrays["logits"] = at::tensor({std::nanf(""), -INFINITY, 0.5F}).reshape({1, 3});
  CHECK(json_lines(1)->add(diverged) == "{\"file\":\"a\",\"values\":[\"nan\",\"-inf\",0.5]}\n");
  diverged.numbers = false;
  diverged.class_names.clear();
  diverged.arrays["logits"] = at::full({1, 1}, std::nanf(""));
  CHECK(json_lines(1)->add(diverged) ==
        "{\"file\":\"a\",\"top\":[{\"index\":0,\"probability\":\"nan\"}]}\n");
}

TEST_CASE("logits order the classes, even if their probabilities round to the same number") {
  PredictedBatch batch = example_batch();
  batch.rows = {{.name = "a"}};
  batch.arrays["logits"] = at::tensor({20.F, 40.F, 30.F}).reshape({1, 3});
  CHECK(json_lines(3)->add(batch) ==
        "{\"file\":\"a\",\"top\":[{\"index\":1,\"class\":\"dog, wet\",\"probability\":1.0},"
        "{\"index\":2,\"class\":\"ox\",\"probability\":1.0},"
        "{\"index\":0,\"class\":\"cat\",\"probability\":1.0}]}\n");
  batch.arrays["logits"] = at::zeros({1, 3});  // of equal ones the first comes first
  CHECK(json_lines(1)->add(batch) ==
        "{\"file\":\"a\",\"top\":[{\"index\":0,\"class\":\"cat\",\"probability\":0.5}]}\n");
}

TEST_CASE("predictions as CSV") {
  CHECK(whole(*csv(2), {unread(), example_batch(), unread()}) ==
        "file,class_1,name_1,probability_1,class_2,name_2,probability_2,error\n"
        "e,,,,,,,bad\n"
        "a.jpg,2,ox,1,1,\"dog, wet\",0.5,\n"
        "\"b,\"\"c\"\".jpg\",,,,,,,too short\n"
        "d,0,cat,1,1,\"dog, wet\",0.5,\n"
        "e,,,,,,,bad\n");
  PredictedBatch labelled = example_batch();
  labelled.labelled = true;
  labelled.rows[0].label = right({1});
  labelled.rows[2].label = right({7});  // not a class of the model
  labelled.class_names.clear();
  CHECK(whole(*csv(1), {labelled}) ==
        "file,label,label_name,class_1,name_1,probability_1,error\n"
        "a.jpg,1,,2,,1,\n"
        "\"b,\"\"c\"\".jpg\",,,,,,too short\n"
        "d,7,,0,,1,\n");
  // There are no more columns than classes.
  CHECK(csv(9)
            ->add(example_batch())
            .starts_with("file,class_1,name_1,probability_1,class_2,name_2,"
                         "probability_2,class_3,name_3,probability_3,error\n"));
}

TEST_CASE("predictions as a table") {
  CHECK(whole(*prediction_table(1), {example_batch(), unread()}) ==
        "a.jpg   predicted 2 ox    1.000\n"
        "d       predicted 0 cat   1.000\n");
  PredictedBatch labelled = example_batch();
  labelled.labelled = true;
  labelled.rows[0].label = right({2});
  labelled.rows[2].label = right({1});
  CHECK(whole(*prediction_table(2), {labelled}) ==
        "a.jpg   label 2 ox         predicted 2 ox         1.000   1 dog, wet   0.500\n"
        "d       label 1 dog, wet   predicted 0 cat        1.000   1 dog, wet   0.500\n"
        "1 of 2 are right\n");
  // Text from files cannot control the terminal.
  PredictedBatch hostile = example_batch();
  hostile.rows[0].name = "\x1b[2J";
  hostile.class_names[2] = "\n";
  CHECK(whole(*prediction_table(1), {hostile}).starts_with("\\x1b[2J   predicted 2 \\n"));
}

TEST_CASE("predictions of numbers: all of them, in their order") {
  PredictedBatch batch = example_batch();
  batch.numbers = true;
  batch.class_names.clear();
  batch.arrays["logits"] = at::tensor({3.5F, -2.F, 0.25F, 1e6F}).reshape({2, 2});
  CHECK(whole(*json_lines(1), {batch}) ==
        R"({"file":"a.jpg","values":[3.5,-2.0]}
{"file":"b,\"c\".jpg","error":"too short"}
{"file":"d","values":[0.25,1000000.0]}
)");
  CHECK(whole(*csv(1), {unread(), batch}) ==
        "file,value_1,value_2,error\n"
        "e,,,bad\n"
        "a.jpg,3.5,-2,\n"
        "\"b,\"\"c\"\".jpg\",,,too short\n"
        "d,0.25,1000000,\n");
  CHECK(whole(*prediction_table(1), {batch}) ==
        "a.jpg   predicted 3.5   -2\n"
        "d       predicted 0.25   1e+06\n");
}

TEST_CASE("predictions of numbers stand next to the right values") {
  PredictedBatch batch = example_batch();
  batch.numbers = batch.labelled = true;
  batch.arrays["logits"] = at::tensor({3.5F, -2.F, 0.25F, 1e6F}).reshape({2, 2});
  batch.rows[0].label = RightLabel{.values = {3.25F, -1.F}};
  batch.rows[2].label = RightLabel{.values = {1.F, 2e6F}};
  CHECK(whole(*json_lines(1), {batch}) ==
        R"({"file":"a.jpg","labels":[3.25,-1.0],"values":[3.5,-2.0]}
{"file":"b,\"c\".jpg","error":"too short"}
{"file":"d","labels":[1.0,2000000.0],"values":[0.25,1000000.0]}
)");
  PredictedBatch none = unread();
  none.numbers = none.labelled = true;
  CHECK(whole(*csv(1), {none, batch}) ==
        "file,label_cat,value_cat,\"label_dog, wet\",\"value_dog, wet\",error\n"
        "e,,,,,bad\n"
        "a.jpg,3.25,3.5,-1,-2,\n"
        "\"b,\"\"c\"\".jpg\",,,,,too short\n"
        "d,1,0.25,2000000,1000000,\n");
  CHECK(whole(*prediction_table(), {batch}) ==
        "a.jpg   label 3.25    predicted 3.5     label -1      predicted -2\n"
        "d       label 1       predicted 0.25    label 2e+06   predicted 1e+06\n");
}

TEST_CASE("several classes of an image stand next to those that are predicted") {
  PredictedBatch batch = example_batch();
  batch.multilabel = batch.labelled = true;
  batch.rows[0].label = right({1, 2});
  batch.rows[2].label = right({0});
  CHECK(
      whole(*json_lines(1), {batch}) ==
      R"({"file":"a.jpg","labels":[{"index":1,"class":"dog, wet"},{"index":2,"class":"ox"}],"top":[{"index":2,"class":"ox","probability":1.0}]}
{"file":"b,\"c\".jpg","error":"too short"}
{"file":"d","labels":[{"index":0,"class":"cat"}],"top":[{"index":0,"class":"cat","probability":1.0}]}
)");
  CHECK(whole(*csv(1), {batch}) ==
        "file,label,label_name,class_1,name_1,probability_1,error\n"
        "a.jpg,1;2,\"dog, wet;ox\",2,ox,1,\n"
        "\"b,\"\"c\"\".jpg\",,,,,,too short\n"
        "d,0,cat,0,cat,1,\n");
  CHECK(whole(*prediction_table(), {batch}) ==
        "a.jpg   labels 1 dog, wet, 2 ox   predicted 2 ox         1.000   1 dog, wet   0.500\n"
        "d       labels 0 cat              predicted 0 cat        1.000   1 dog, wet   0.500\n"
        "1 of 2 are exact matches\n");
  batch.threshold = 0.75;
  CHECK(whole(*prediction_table(), {batch})
            .ends_with("predicted 0 cat   1.000\n"
                       "1 of 2 are exact matches\n"));
  batch.rows[0].label = right({2});
  CHECK(whole(*prediction_table(), {batch}).ends_with("2 of 2 are exact matches\n"));
  // The number of shown classes does not change what is correct.
  CHECK(whole(*prediction_table(3), {batch}).ends_with("2 of 2 are exact matches\n"));
  // No class is predicted, and none is right.
  batch.arrays["logits"] = at::zeros({2, 3});
  batch.rows[0].label = right({});
  CHECK(whole(*prediction_table(), {batch}) ==
        "a.jpg   labels none    predicted none\n"
        "d       labels 0 cat   predicted none\n"
        "1 of 2 are exact matches\n");
  CHECK(json_lines(1)->add(batch).starts_with("{\"file\":\"a.jpg\",\"labels\":[],"));
}

TEST_CASE(
    "each of several right classes is a right prediction, and an image without one is not "
    "counted") {
  PredictedBatch batch = example_batch();
  batch.labelled = true;
  batch.rows[0].label = right({0, 2});
  batch.rows[2].label = right({});
  CHECK(whole(*prediction_table(), {batch}) ==
        "a.jpg   label 0 cat, 2 ox   predicted 2 ox    1.000\n"
        "d       label none          predicted 0 cat   1.000\n"
        "1 of 1 are right\n");
  CHECK(json_lines(1)->add(batch).starts_with(
      R"({"file":"a.jpg","labels":[{"index":0,"class":"cat"},{"index":2,"class":"ox"}],"top")"));
}

TEST_CASE("no operator is called for each class of each image") {
  constexpr int kClasses = 1000, kAtMost = 100;
  PredictedBatch batch = example_batch();
  batch.class_names.clear();
  batch.arrays["logits"] = at::zeros({2, kClasses});
  for (const bool numbers : {false, true}) {
    batch.numbers = numbers;
    batch.multilabel = !numbers;
    g_operators = 0;
    const at::CallbackHandle handle = at::addGlobalCallback(
        at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
    prediction_table()->add(batch);
    json_lines(kClasses)->add(batch);
    at::removeCallback(handle);
    CHECK(g_operators < kAtMost);
  }
}

TEST_CASE("classes need logits of two dimensions") {
  PredictedBatch batch = example_batch();
  batch.arrays["logits"] = at::zeros({2, 3, 3});
  CHECK(error_of([&] { csv(1)->add(batch); }) ==
        "--output: error: classes need logits (n, classes); write the outputs to an *.npz");
}

}  // namespace bv::test

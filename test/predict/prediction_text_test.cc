// The text of predictions: exact lines, quoting, rows with errors.
#include "lib/predict/prediction_text.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "test/support/error.h"

namespace bv::test {
namespace {

// Two images that could be read and, between them, one that could not. The probabilities of the
// classes are exactly 0, 1/2, 1 and 1, 1/2, 0.
PredictedBatch example() {
  PredictedBatch batch;
  batch.rows = {{.name = "a.jpg"}, {.name = "b,\"c\".jpg", .error = "too short"}, {.name = "d"}};
  batch.arrays["logits"] = at::tensor({-200.F, 0.F, 20.F, 20.F, 0.F, -200.F}).reshape({2, 3});
  batch.class_names = {"cat", "dog, wet", "ox"};
  batch.sigmoid = true;
  return batch;
}

// Only images that could not be read.
PredictedBatch unread() {
  PredictedBatch batch = example();
  batch.rows = {{.name = "e", .error = "bad"}};
  batch.arrays.clear();
  return batch;
}

std::string whole(PredictionText& text, const std::vector<PredictedBatch>& batches) {
  std::string all;
  for (const PredictedBatch& batch : batches) all += text.add(batch);
  return all + text.end();
}

}  // namespace

TEST_CASE("predictions as JSON lines") {
  CHECK(whole(*json_lines(2), {unread(), example()}) ==
        R"({"file":"e","error":"bad"}
{"file":"a.jpg","top":[{"index":2,"class":"ox","probability":1.0},{"index":1,"class":"dog, wet","probability":0.5}]}
{"file":"b,\"c\".jpg","error":"too short"}
{"file":"d","top":[{"index":0,"class":"cat","probability":1.0},{"index":1,"class":"dog, wet","probability":0.5}]}
)");
  PredictedBatch labelled = example();
  labelled.labelled = true;
  labelled.rows[0].label = 1;
  labelled.rows[0].name = "\xe4";  // not UTF-8
  CHECK(json_lines(1)->add(labelled).starts_with(
      "{\"file\":\"\xef\xbf\xbd\",\"label\":{\"index\":1,\"class\":\"dog, wet\"},\"top\":[{"));
}

TEST_CASE("predictions as CSV") {
  CHECK(whole(*csv(2), {unread(), example(), unread()}) ==
        "file,class_1,name_1,probability_1,class_2,name_2,probability_2,error\n"
        "e,,,,,,,bad\n"
        "a.jpg,2,ox,1,1,\"dog, wet\",0.5,\n"
        "\"b,\"\"c\"\".jpg\",,,,,,,too short\n"
        "d,0,cat,1,1,\"dog, wet\",0.5,\n"
        "e,,,,,,,bad\n");
  PredictedBatch labelled = example();
  labelled.labelled = true;
  labelled.rows[0].label = 1;
  labelled.rows[2].label = 7;  // not a class of the model
  labelled.class_names.clear();
  CHECK(whole(*csv(1), {labelled}) ==
        "file,label,label_name,class_1,name_1,probability_1,error\n"
        "a.jpg,1,,2,,1,\n"
        "\"b,\"\"c\"\".jpg\",,,,,,too short\n"
        "d,7,,0,,1,\n");
  // There are no more columns than classes.
  CHECK(
      csv(9)->add(example()).starts_with("file,class_1,name_1,probability_1,class_2,name_2,"
                                         "probability_2,class_3,name_3,probability_3,error\n"));
}

TEST_CASE("predictions as a table") {
  CHECK(whole(*prediction_table(1), {example(), unread()}) ==
        "a.jpg   predicted 2 ox    1.000\n"
        "d       predicted 0 cat   1.000\n");
  PredictedBatch labelled = example();
  labelled.labelled = true;
  labelled.rows[0].label = 2;
  labelled.rows[2].label = 1;
  CHECK(whole(*prediction_table(2), {labelled}) ==
        "a.jpg   label 2 ox         predicted 2 ox         1.000   1 dog, wet   0.500\n"
        "d       label 1 dog, wet   predicted 0 cat        1.000   1 dog, wet   0.500\n"
        "1 of 2 are right\n");
  // No text of a file controls the terminal.
  PredictedBatch hostile = example();
  hostile.rows[0].name = "\x1b[2J";
  hostile.class_names[2] = "\n";
  CHECK(whole(*prediction_table(1), {hostile}).starts_with("\\x1b[2J   predicted 2 \\n"));
}

TEST_CASE("predictions of numbers: all of them, in their order") {
  PredictedBatch batch = example();
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

TEST_CASE("classes need logits of two dimensions") {
  PredictedBatch batch = example();
  batch.arrays["logits"] = at::zeros({2, 3, 3});
  CHECK(error_of([&] { csv(1)->add(batch); }) ==
        "--output: error: classes need logits (n, classes); write the outputs to an *.npz");
}

}  // namespace bv::test

// Labels of the source csv: classes, several labels, numbers.
#include "lib/input/sources/common/manifest/label_column.h"
#include "test/input/csv_support.h"
#include "test/support/clock.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("csv: whole numbers are class numbers", "[csv]") {
  const CsvFolder folder;
  const auto data = folder.data(
      "image,label,age,weight,note\nimages/a.jpg,3,40,1.5,old\n"
      "images/b.jpg,0,41,2,\"a, b\"\n");
  REQUIRE(data->size() == 2);
  CHECK(data->class_names().empty());
  CHECK(labels_of(*data) == std::vector<int64_t>{3, 0});
  const Example row = data->read(1);
  CHECK(row.size() == 5);
  CHECK(text_of(row.at("image")) == flat_jpeg(100));
  CHECK(row.at("label").scalar_type() == at::kLong);
  CHECK(row.at("label").dim() == 0);
  CHECK(row.at("age").item<int64_t>() == 41);
  CHECK(row.at("weight").scalar_type() == at::kFloat);
  CHECK(row.at("weight").item<float>() == 2);
  CHECK(text_at(row, "note") == "a, b");
  CHECK(folder.local(data->describe(1)) == "t.csv:3");
  // The numbers of a row need no image.
  const Example values = data->read_values(1);
  CHECK(values.at("weight").item<float>() == 2);
  CHECK_FALSE(values.contains("image"));
  CHECK(data->source().splits() == Names{"all", "train"});
}

TEST_CASE("csv: names of classes are sorted by bytes", "[csv]") {
  const CsvFolder folder;
  const std::string text = "path,class\nimages/a.jpg,dog\nimages/b.jpg,Cat\nimages/c.jpg,dog\n";
  const auto data = folder.data(text);
  CHECK(data->class_names() == Names{"Cat", "dog"});
  CHECK(labels_of(*data) == std::vector<int64_t>{1, 0, 1});
  CHECK(data->read(2).at("label").item<int64_t>() == 1);
  // `classes` fixes the order.
  const auto fixed = folder.data(text, "classes: [dog, bee, Cat]\n");
  CHECK(fixed->class_names() == Names{"dog", "bee", "Cat"});
  CHECK(labels_of(*fixed) == std::vector<int64_t>{0, 2, 0});
  CHECK(folder.problem(text, "classes: [dog, cat]\n") ==
        "t.csv:3:14: error: unknown class 'Cat' (did you mean 'cat'?); known: dog, cat");
  // With numbers in the file, `classes` gives the names of the numbers.
  const std::string numbers = "path,class\nimages/a.jpg,1\nimages/b.jpg,0\n";
  CHECK(folder.data(numbers, "classes: [dog, cat]\n")->class_names() == Names{"dog", "cat"});
  CHECK(labels_of(*folder.data(numbers, "classes: [dog, cat]\n")) == std::vector<int64_t>{1, 0});
  CHECK(labels_of(*folder.data(numbers, "classes: ['1', '0']\n")) == std::vector<int64_t>{0, 1});
  CHECK(folder.problem("path,class\nimages/a.jpg,2\n", "classes: [dog, cat]\n") ==
        "t.csv:2:14: error: unknown class '2'; known: dog, cat");
  // Numbers with leading zeros are names, even next to others.
  CHECK(folder.data("path,class\nimages/a.jpg,10\nimages/b.jpg,09\n")->class_names() ==
        Names{"09", "10"});
}

TEST_CASE("csv: class names are compared only with the unknown labels that are shown", "[csv]") {
  Names classes;
  for (int i = 0; i < 1000; ++i) classes.push_back(fmt::format("bird number {:050}", i));
  LabelColumn column(classes);
  const RowText row{"1", 1};
  const double start = cpu_seconds();
  // The numbers of the classes.
  for (int i = 0; i < 20'000; ++i) column.add(fmt::format("{}", i % 1000), 0, row);
  int with_similar = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      column.add("a " + classes[i], 0, row);
      FAIL("an unknown class is taken");
    } catch (const RowFault& fault) {
      with_similar += contains(fault.what(), "(did you mean '" + classes[i] + "'?)");
    }
  }
  CHECK(with_similar == 20);
  CHECK(cpu_seconds() - start < (kSanitized ? 20 : 2));
}

TEST_CASE("csv: numbers with a point are targets of a regression", "[csv]") {
  const CsvFolder folder;
  const auto data = folder.data("image,label\nimages/a.jpg,1\nimages/b.jpg,-2.5e1\n");
  CHECK(labels_of(*data).empty());
  CHECK(data->class_names().empty());
  CHECK(data->read(0).at("label").scalar_type() == at::kFloat);
  CHECK(data->read(1).at("label").item<float>() == -25);
  CHECK(folder.problem("image,label\nimages/a.jpg,0.5\nimages/b.jpg,cat\n") ==
        "t.csv:3:14: error: the label 'cat' is not a number, but line 2 has the label '0.5': for a "
        "classification give the names of all classes in `classes`");
  CHECK(folder.problem("image,label\nimages/a.jpg,0.5\nimages/b.jpg,nan\n") ==
        "t.csv:3:14: error: the label 'nan' means that the value is missing: remove the row, or "
        "list the class 'nan' in `classes`");
  CHECK(folder.problem("image;label\nimages/a.jpg;0,5\n") ==
        "t.csv:2:14: error: the label '0,5' has a decimal comma: write a decimal point");
  CHECK(folder.problem("image,label\nimages/a.jpg,1e99\n") ==
        "t.csv:2:14: error: the label is a number that is too large");
}

TEST_CASE("csv: a missing value and a formula's error are not classes", "[csv]") {
  const CsvFolder folder;
  for (const char* text : {"#N/A", "n/a", "-nan", "N/A"}) {
    CHECK(folder.problem(std::string("image,label\nimages/a.jpg,0\nimages/b.jpg,") + text + "\n") ==
          fmt::format("t.csv:3:14: error: the label '{0}' means that the value is missing: remove "
                      "the row, or list the class '{0}' in `classes`",
                      text));
  }
  for (const char* text : {"#REF!", "#VALUE!", "#DIV/0!"}) {
    CHECK(
        folder.problem(std::string("image,label\nimages/a.jpg,cat\nimages/b.jpg,") + text + "\n") ==
        fmt::format("t.csv:3:14: error: the label '{0}' is the error of a spreadsheet's formula: "
                    "correct the row, or list the class '{0}' in `classes`",
                    text));
  }
  const auto data =
      folder.data("image,label\nimages/a.jpg,n/a\nimages/b.jpg,cat\n", "classes: [cat, n/a]\n");
  CHECK(labels_of(*data) == std::vector<int64_t>{1, 0});
}

TEST_CASE("csv: a single name among many numbers is suspicious", "[csv]") {
  const CsvFolder folder;
  std::string text = "image,label\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("images/a.jpg,{}\n", i % 3);
  CHECK(folder.remarks(text).empty());
  CHECK(folder.remarks(text + "images/b.jpg,x\n") ==
        Names{"t.csv: 1 of 101 labels is not a number, such as 'x' in line 102: all labels are "
              "taken as class names"});
  CHECK(folder.remarks(text + "images/b.jpg,x\nimages/b.jpg,y\n").empty());
  // Of few labels, a single one may be meant.
  std::string few = "image,label\nimages/b.jpg,x\n";
  for (int i = 0; i < 8; ++i) few += fmt::format("images/a.jpg,{}\n", i);
  CHECK(folder.remarks(few).empty());
  CHECK(folder.remarks(few + "images/a.jpg,8\n") ==
        Names{"t.csv: 1 of 10 labels is not a number, such as 'x' in line 2: all labels are taken "
              "as class names"});
}

TEST_CASE("csv: several labels in a cell", "[csv]") {
  const CsvFolder folder;
  const auto labels = [](const Dataset& data, int64_t i) { return data.read(i).at("labels"); };
  const auto blanks = folder.data(
      "image,label\nimages/a.jpg,cat dog\nimages/b.jpg,\nimages/c.jpg,bee\n", "multilabel: true\n");
  CHECK(blanks->class_names() == Names{"bee", "cat", "dog"});
  CHECK(labels(*blanks, 0).equal(at::tensor({0.F, 1.F, 1.F})));
  CHECK(labels(*blanks, 1).equal(at::tensor({0.F, 0.F, 0.F})));
  CHECK_FALSE(blanks->read(0).contains("label"));
  // A bar anywhere makes blanks part of names.
  const auto bars =
      folder.data("image,label\nimages/a.jpg,traffic light\nimages/b.jpg,car | traffic light\n",
                  "multilabel: true\n");
  CHECK(bars->class_names() == Names{"car", "traffic light"});
  CHECK(labels(*bars, 0).equal(at::tensor({0.F, 1.F})));
  CHECK(labels(*bars, 1).equal(at::tensor({1.F, 1.F})));
  const auto given =
      folder.data("image,label\nimages/a.jpg,b;c\n", "multilabel: true\nclasses: [c, a, b]\n");
  CHECK(labels(*given, 0).equal(at::tensor({1.F, 0.F, 1.F})));
  // So does a given class with a blank in its name.
  const auto one = folder.data("image,label\nimages/a.jpg,red dress\n",
                               "multilabel: true\nclasses: [blue, red dress]\n");
  CHECK(labels(*one, 0).equal(at::tensor({0.F, 1.F})));
  const auto numbers = folder.data("image,label\nimages/a.jpg,0 2\n", "multilabel: true\n");
  CHECK(labels(*numbers, 0).equal(at::tensor({1.F, 0.F, 1.F})));
  DataEnv env;
  env.source.num_classes = 5;
  CHECK(labels(*folder.data("image,label\nimages/a.jpg,0 2\n", "multilabel: true\n", env), 0)
            .sizes() == at::IntArrayRef({5}));
  CHECK(
      folder.problem("image,label\nimages/a.jpg,b;d\n", "multilabel: true\nclasses: [a, b, c]\n") ==
      "t.csv:2:14: error: unknown class 'd'; known: a, b, c");
  CHECK(folder.problem("image,label\nimages/a.jpg,0.5\n", "multilabel: true\n") ==
        "t.csv: error: with multilabel the labels must be names or integers, but some have a "
        "decimal point");
  CHECK(folder.problem("image,label\nimages/a.jpg,-1\n", "multilabel: true\n") ==
        "t.csv:2:14: error: the label is -1, must be within 0 .. 1048575");
}

TEST_CASE("csv: several labels between commas or in a list are refused", "[csv]") {
  const CsvFolder folder;
  const std::string begin = "image,label\nimages/a.jpg,dog\nimages/b.jpg,";
  const auto problem = [&](const std::string& cell, const std::string& rest = "") {
    return folder.problem(begin + cell + "\n", "multilabel: true\n" + rest);
  };
  for (const std::string labels : {"cat,dog", "cat, dog", "0,2"}) {
    CHECK(problem("\"" + labels + "\"") ==
          "t.csv:3:14: error: '" + labels +
              "' has a comma, which does not separate labels: write `;` or `|` between them; if '" +
              labels + "' is the name of a single class, list all names in `classes`");
  }
  CHECK(problem("\"['cat', 'dog']\"") ==
        "t.csv:3:14: error: the labels are a list, ['cat', 'dog']: write them without brackets and "
        "quotes, separated by `;` or `|`; if ['cat', 'dog'] is the name of a single class, list "
        "all names in `classes`");
  CHECK_THAT(problem("['cat']"), Catch::Contains("the labels are a list, ['cat']: write them"));
  CHECK_THAT(problem("\"[\"\"cat\"\";\"\"dog\"\"]\""), Catch::Contains("are a list"));
  // A comma may be part of a name.
  CHECK(folder.data(begin + "\"tench, fish;dog\"\n", "multilabel: true\n")->class_names() ==
        Names{"dog", "tench, fish"});
  CHECK(
      folder.data(begin + "\"tench, fish\"\n", "multilabel: true\nclasses: [dog, 'tench, fish']\n")
          ->class_names() == Names{"dog", "tench, fish"});
}

TEST_CASE("csv: a column of numbers that one cell turns into text is named", "[csv]") {
  const CsvFolder folder;
  const std::string text = "image,label,w\nimages/a.jpg,0,1\nimages/b.jpg,1,2.5\n";
  CHECK(folder.remarks(text).empty());
  CHECK(folder.remarks(text + "images/c.jpg,1,-\nimages/c.jpg,1,\n") ==
        Names{"t.csv: line 4: 'w' is '-', which is not a number as in the rows before: the whole "
              "column is read as strings"});
  CHECK(folder.remarks("image,label,w\nimages/a.jpg,0,old\nimages/b.jpg,1,2.5\n").empty());
}

TEST_CASE("csv: a column of labels that other data has is not taken as zeros", "[csv]") {
  const CsvFolder folder;
  const std::string text = "image,x,y\nimages/a.jpg,1,0.25\nimages/b.jpg,-3,1e3\n";
  const ClassNames run{{"x", "y"}};
  const auto only = folder.data(text, "label: [x]\n");
  Dataset part = *only;
  CHECK(error_of([&] { part.use_classes(run, /*skip_unknown=*/false); }) ==
        "error: has no label 'y', which the training data has; its labels are x");
  // The order may differ.
  Dataset turned = *folder.data(text, "label: [y, x]\n");
  CHECK(turned.use_classes(run, /*skip_unknown=*/false).empty());
  CHECK(turned.read(0).at("labels").equal(at::tensor({1.F, 0.25F})));
  // Classes in one cell: an image of the others has none of these.
  Dataset cell = *folder.data("image,label\nimages/a.jpg,x\n", "multilabel: true\n");
  CHECK(cell.use_classes(run, /*skip_unknown=*/false).empty());
  CHECK(cell.read(0).at("labels").equal(at::tensor({1.F, 0.F})));
}

TEST_CASE("csv: a list of label columns", "[csv]") {
  const CsvFolder folder;
  const std::string text = "image,x,y,label\nimages/a.jpg,1,0.25,9\nimages/b.jpg,-3,1e3,8\n";
  const auto data = folder.data(text, "label: [y, x]\n");
  CHECK(data->class_names() == Names{"y", "x"});
  CHECK(data->read(0).at("labels").equal(at::tensor({0.25F, 1.F})));
  CHECK(data->read(1).at("label").item<int64_t>() == 8);  // an ordinary column then
  CHECK(labels_of(*data).empty());
  CHECK(folder.problem("image,x,y\nimages/a.jpg,1,nan\n", "label: [x, y]\n") ==
        "t.csv:2:16: error: the label 'nan' is not a finite number");
  CHECK(folder.problem(text, "label: [x, z]\n") ==
        "t.csv:1:1: error: no column 'z' for `label`; columns: image, x, y, label");
  CHECK(folder.problem(text, "label: [x, image]\n") ==
        "t.csv:1:1: error: the column 'image' cannot be `label` too: it is `path`");
  CHECK(folder.problem(text, "label: [x]\nmultilabel: true\n") ==
        "t.yaml:4:13: error: multilabel: is for one column of labels, but `label` is a list of "
        "columns");
}

TEST_CASE("csv: the metadata.csv of a Hugging Face image folder", "[csv]") {
  const CsvFolder folder;
  const std::string text = "file_name,breed,age\nimages/a.jpg,pug,3\nimages/b.jpg,collie,12\n";
  const auto classes = folder.data(text, "label: breed\n");
  CHECK(classes->class_names() == Names{"collie", "pug"});
  CHECK(text_of(classes->read(1).at("image")) == flat_jpeg(100));
  CHECK(folder.data(text, "label: [age]\n")->read(1).at("labels").equal(at::tensor({12.0F})));
}

TEST_CASE("csv: generated examples have the labels of the keys", "[csv]") {
  const CsvFolder folder;
  const DataEnv env{{.seed = 1, .num_classes = 3}, /*synthetic=*/true};
  const auto labels = [&](const std::string& keys) {
    return folder.data("", keys, env)->read(1).at("labels");
  };
  CHECK(labels("multilabel: true\n").equal(at::tensor({0.0F, 1.0F, 0.0F})));
  CHECK(labels("multilabel: true\nclasses: [a, b]\n").equal(at::tensor({0.0F, 1.0F})));
  CHECK(labels("label: [x, y, z]\n").sizes() == at::IntArrayRef{3});
  CHECK(folder.data("", "", env)->read(1).at("label").scalar_type() == at::kLong);
}

}  // namespace bv::test

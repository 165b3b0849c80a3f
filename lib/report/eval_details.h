// What an evaluator provides to the report besides its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bv {

struct EvalDetails {
  // A wrongly classified example.
  struct Wrong {
    int64_t index = 0;  // its position in the evaluation data
    std::string name;   // in the data set, such as "test/cat/17.jpg"; empty: not known
    int64_t truth = 0, guess = 0;
    double confidence = 0;  // the probability of the predicted class
    int64_t height = 0, width = 0, channels = 0;
    std::vector<uint8_t> pixels;  // [height, width, channels]
  };
  // The examples whose predicted class has a probability within one interval: bin b of B holds
  // (b / B, (b + 1) / B].
  struct Bin {
    double examples = 0;                  // how many (the sum of their weights)
    double confidence = 0, accuracy = 0;  // means over the examples
  };
  // The figures of one class. NaN: not defined for this class.
  struct ClassFigures {
    int64_t examples = 0;  // that belong to it
    double precision = 0, recall = 0, f1 = 0, average_precision = 0, auroc = 0;
  };
  using Points = std::vector<std::pair<double, double>>;  // (x, y), at most 200 to a curve
  // The curves of one class against the others, or the mean of all classes.
  struct Curves {
    std::string name;         // of the class, or "mean"
    Points roc;               // false and true positive rate
    Points precision_recall;  // recall and precision
  };
  // Errors of a regression.
  struct Residuals {
    std::string target;
    Points points;  // truth, and prediction - truth
  };
  std::string evaluator;  // its name in the config
  int64_t step = 0;
  std::vector<std::string> class_names;         // one per class
  std::vector<std::vector<int64_t>> confusion;  // [truth][guess]: examples
  std::vector<Wrong> wrong;
  std::vector<Bin> calibration;
  std::vector<ClassFigures> classes;  // one per class
  std::vector<Curves> curves;
  std::vector<Residuals> residuals;
};

}  // namespace bv

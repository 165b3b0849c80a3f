// What an evaluator gives to the report besides its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bv {

struct EvalDetails {
  // A wrongly classified example.
  struct Wrong {
    int64_t index = 0;  // its position in the evaluation data
    std::string name;   // in the data set, such as "test/cat/17.jpg"; empty: not known
    int64_t truth = 0, guess = 0;
    double confidence = 0;  // the probability of the guess
    int64_t height = 0, width = 0, channels = 0;
    std::vector<uint8_t> pixels;  // [height, width, channels]
  };
  // The examples whose guess has a probability within one interval: bin b of B holds
  // (b / B, (b + 1) / B].
  struct Bin {
    double examples = 0;                  // how many (the sum of their weights)
    double confidence = 0, accuracy = 0;  // means over the examples
  };
  std::string evaluator;  // its name in the config
  int64_t step = 0;
  std::vector<std::string> class_names;         // one per class
  std::vector<std::vector<int64_t>> confusion;  // [truth][guess]: examples
  std::vector<Wrong> wrong;
  std::vector<Bin> calibration;
};

}  // namespace bv

// Statistics of the examples of a data set: their classes, the sizes of their images and the values
// of their pixels.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/input/check/example_look.h"

namespace bv {

struct CountedClass {
  std::string name;  // its number if the data does not name it
  int64_t examples = 0;
};

// The minimum, the maximum and the median of integers. If their count is even, the median is the
// lower of the two in the middle.
class SizeCounts {
 public:
  void add(int64_t size) { ++counts_[size]; }
  // There is at least one.
  int64_t least() const { return counts_.begin()->first; }
  int64_t most() const { return counts_.rbegin()->first; }
  int64_t median() const;

 private:
  std::map<int64_t, int64_t> counts_;
};

struct DataStats {
  std::string name;                   // of the data set
  int64_t examples = 0;               // including the broken ones
  int64_t broken = 0;                 // what follows leaves them out
  std::vector<CountedClass> classes;  // in the order of their numbers; empty if not known
  bool several = false;               // an example may have several classes, or none
  // The examples whose label is -1, or that have none of several classes. They are not in
  // `classes`.
  int64_t without_class = 0;
  int64_t images = 0, grey = 0, alpha = 0;
  int64_t bytes = 0;  // of the images as they are stored
  SizeCounts widths, heights;
  // The values of the pixels by the number of channels: 1 for grey, 3 for colour. If there are grey
  // and coloured images, grey ones count as coloured ones with three equal channels.
  std::map<int64_t, std::vector<PixelMoments>> pixels;

  // Returns the classes with fewer than 1 % of the mean number of examples, but at least one.
  std::vector<std::string> nearly_empty() const;
  std::vector<std::string> empty() const;  // classes without examples

  std::string text() const;  // several lines
  nlohmann::ordered_json json() const;
};

// Reads every example once with several threads. Shows the progress. `num_classes` is the
// least number of classes if the data does not name them; 0: not known. An example that cannot be
// read is counted. Throws Error for any other failure, and Stopped if a signal asks the process to
// stop. The numbers do not depend on `threads`.
DataStats measure_data(const OpenedData& opened, int threads, int64_t num_classes);

}  // namespace bv

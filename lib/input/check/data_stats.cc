#include "lib/input/check/data_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/input/ordered_work.h"
#include "lib/report/log.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostRows = 60;           // of the table of classes
constexpr int64_t kGrey = 1, kColour = 3;  // channels

// Counts labels.
class LabelCounter {
 public:
  void add(const std::vector<int64_t>& labels) {
    for (const int64_t label : labels) {
      if (counts_.size() < limits::kClasses || counts_.contains(label)) ++counts_[label];
    }
  }

  // Returns the number of examples without a class: their label is -1. Returns 0 if any label is
  // below -1, because the labels are then not class numbers.
  int64_t without_class() const {
    return counts_.empty() || counts_.begin()->first != -1 ? 0 : counts_.begin()->second;
  }

  // Returns the classes with these names and all classes that were seen. If there are no names, the
  // numbers from 0 to `least` - 1 are classes too. Empty if no labels from 0 on were seen, or if
  // they are not class numbers.
  std::vector<CountedClass> classes(const std::vector<std::string>& names, int64_t least) const {
    const auto most = static_cast<int64_t>(limits::kClasses);
    std::vector<CountedClass> all;
    if (counts_.lower_bound(0) == counts_.end() || counts_.begin()->first < -1 ||
        counts_.rbegin()->first >= most)
      return all;
    const int64_t known = names.empty() ? std::min(least, most) : std::ssize(names);
    const int64_t count = std::max(known, counts_.rbegin()->first + 1);
    for (int64_t label = 0; label < count; ++label) {
      const auto found = counts_.find(label);
      all.push_back({label < std::ssize(names) ? names[label] : std::to_string(label),
                     found == counts_.end() ? 0 : found->second});
    }
    return all;
  }

 private:
  std::map<int64_t, int64_t> counts_;
};

void add_image(const SeenImage& image, DataStats& stats) {
  ++stats.images;
  stats.grey += std::ssize(image.by_channel) == kGrey;
  stats.alpha += image.alpha;
  stats.bytes += image.bytes;
  stats.widths.add(image.width);
  stats.heights.add(image.height);
  std::vector<PixelMoments>& all = stats.pixels[std::ssize(image.by_channel)];
  all.resize(image.by_channel.size());
  for (size_t c = 0; c < all.size(); ++c) all[c].merge(image.by_channel[c]);
}

// Counts grey images as coloured ones if there are both.
void join_grey(std::map<int64_t, std::vector<PixelMoments>>& pixels) {
  const auto grey = pixels.find(kGrey), colour = pixels.find(kColour);
  if (grey == pixels.end() || colour == pixels.end()) return;
  for (PixelMoments& channel : colour->second) channel.merge(grey->second[0]);
  pixels.erase(grey);
}

std::string class_row(const CountedClass& one, size_t width, int64_t of) {
  const double percent =
      of == 0 ? 0 : 100 * static_cast<double>(one.examples) / static_cast<double>(of);
  return fmt::format("  {:<{}}  {:>12}  {:6.2f} %\n", printable(one.name), width,
                     human_count(one.examples), percent);
}

// Returns the table of classes with their shares of `all` examples. If there are many classes, it
// contains those with the most and the fewest examples.
std::string class_table(const std::vector<CountedClass>& classes, int64_t all) {
  std::vector<CountedClass> rows = classes;
  const bool cut = rows.size() > kMostRows;
  if (cut) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.examples > b.examples; });
  }
  size_t width = 0;
  for (const CountedClass& one : rows) width = std::max(width, printable(one.name).size());
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (cut && i == kMostRows / 2) {
      text += fmt::format("  ... and {} in between\n",
                          human_count(static_cast<int64_t>(rows.size() - kMostRows)));
      i = rows.size() - kMostRows / 2;
    }
    text += class_row(rows[i], width, all);
  }
  return text;
}

std::string sizes_text(const char* name, const SizeCounts& sizes) {
  return fmt::format("{} {} to {}, median {}", name, sizes.least(), sizes.most(), sizes.median());
}

std::string numbers_text(const std::vector<PixelMoments>& channels, bool deviations) {
  std::vector<std::string> numbers;
  for (const PixelMoments& one : channels)
    numbers.push_back(fmt::format("{:.6g}", deviations ? one.deviation() : one.mean));
  return join(numbers, ", ");
}

nlohmann::ordered_json sizes_json(const SizeCounts& sizes) {
  return {{"min", sizes.least()}, {"median", sizes.median()}, {"max", sizes.most()}};
}

}  // namespace

int64_t SizeCounts::median() const {
  int64_t all = 0, before = 0;
  for (const auto& [size, count] : counts_) all += count;
  for (const auto& [size, count] : counts_) {
    before += count;
    if (2 * before >= all) return size;
  }
  return 0;
}

std::vector<std::string> DataStats::nearly_empty() const {
  int64_t sum = 0;
  for (const CountedClass& one : classes) sum += one.examples;
  std::vector<std::string> names;
  for (const CountedClass& one : classes) {
    const bool few = 100 * one.examples * std::ssize(classes) < sum;
    if (few && one.examples > 0) names.push_back(one.name);
  }
  return names;
}

std::vector<std::string> DataStats::empty() const {
  std::vector<std::string> names;
  for (const CountedClass& one : classes) {
    if (one.examples == 0) names.push_back(one.name);
  }
  return names;
}

std::string DataStats::text() const {
  std::string text = fmt::format("{}: {} examples", name, human_count(examples));
  if (broken > 0)
    text += fmt::format(", {} of them broken and not counted below", human_count(broken));
  text += "\n";
  if (!classes.empty()) {
    text += fmt::format("classes: {}{}\n{}", human_count(std::ssize(classes)),
                        several && classes.size() > 1 ? "; an example may have several" : "",
                        class_table(classes, examples - broken - (several ? 0 : without_class)));
  }
  if (const auto names = nearly_empty(); !names.empty())
    text += fmt::format("below 1 % of the mean: {}\n", join(names, ", "));
  if (const auto names = empty(); !names.empty())
    text += fmt::format("without examples: {}\n", join(names, ", "));
  if (without_class > 0) text += fmt::format("without a class: {}\n", human_count(without_class));
  if (images == 0) return text + "images: none\n";
  text +=
      fmt::format("images: {}, {}; {} grey, {} with alpha\n", human_count(images),
                  human_bytes(static_cast<double>(bytes)), human_count(grey), human_count(alpha));
  text +=
      fmt::format("pixels: {}; {}\n", sizes_text("width", widths), sizes_text("height", heights));
  for (const auto& [channels, moments] : pixels) {
    const std::string of =
        pixels.size() > 1 ? fmt::format(" of images with {} channels", channels) : "";
    text += fmt::format("mean{}: {}\nstandard deviation{}: {}\n", of, numbers_text(moments, false),
                        of, numbers_text(moments, true));
  }
  return text;
}

nlohmann::ordered_json DataStats::json() const {
  nlohmann::ordered_json out = {{"data", name},
                                {"examples", examples},
                                {"broken", broken},
                                {"classes", nlohmann::ordered_json::array()}};
  for (const CountedClass& one : classes)
    out["classes"].push_back({{"name", one.name}, {"examples", one.examples}});
  out["nearly_empty"] = nearly_empty();
  out["empty"] = empty();
  out["without_class"] = without_class;
  out["images"] = images;
  out["bytes"] = bytes;
  out["grey"] = grey;
  out["alpha"] = alpha;
  out["width"] = images > 0 ? sizes_json(widths) : nlohmann::ordered_json();
  out["height"] = images > 0 ? sizes_json(heights) : nlohmann::ordered_json();
  out["pixels"] = nlohmann::ordered_json::array();
  for (const auto& [channels, moments] : pixels) {
    nlohmann::ordered_json mean = nlohmann::ordered_json::array(), deviation = mean;
    for (const PixelMoments& one : moments) {
      mean.push_back(one.mean);
      deviation.push_back(one.deviation());
    }
    out["pixels"].push_back({{"channels", channels}, {"mean", mean}, {"std", deviation}});
  }
  return out;
}

DataStats measure_data(const OpenedData& opened, int threads, int64_t num_classes) {
  DataStats stats;
  stats.name = opened.name;
  stats.examples = opened.data->size();
  LabelCounter labels;
  bool numbers = false;  // targets to predict, or class shares
  const LookOptions options{.pp = false, .moments = true, .num_classes = num_classes};
  int64_t without_any = 0;
  results_in_order(
      stats.examples, threads, [&](int64_t i) { return look_at_example(opened, i, options); },
      [&](int64_t i, const ExampleLook& look) {
        if (look.broken) {
          ++stats.broken;
        } else {
          labels.add(look.classes);
          stats.several |= look.several;
          without_any += look.several && look.classes.empty();
          numbers |= look.numbers;
          for (const SeenImage& image : look.images) add_image(image, stats);
        }
        log::progress(fmt::format("{}: {} of {} examples", opened.name, human_count(i + 1),
                                  human_count(stats.examples)));
      });
  log::clear_progress();
  join_grey(stats.pixels);
  if (numbers) return stats;
  stats.classes = labels.classes(opened.data->class_names(), num_classes);
  stats.without_class = labels.without_class() + without_any;
  return stats;
}

}  // namespace bv

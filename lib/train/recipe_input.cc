// Recipe's code that reads `input` and opens the training data.

#include <algorithm>
#include <cmath>

#include "lib/config/count.h"
#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/input/cache/cache_config.h"
#include "lib/input/data_notes.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/input/loader/check_examples.h"
#include "lib/input/loader/compute_example.h"
#include "lib/train/recipe.h"
#include "lib/train/recipe_reading.h"
#include "lib/train/training_labels.h"
#include "lib/util/host.h"

namespace bv {
namespace {

const KeyTable mixture_keys(
    "input.*",
    {"One of several training data sets. The key is its name in `input.data`, which sets its "
     "fraction of the examples.",
     "input:\n"
     "  data: {own: 0.7, public: 0.3}\n"
     "  own: {data: {name: image_folder, data_dir: own}, pp: decode|resize(64)}\n"
     "  public: {data: {name: cifar, data_dir: cifar-10-batches-bin}, pp: resize(64)}\n"
     "  batch_size: 256",
     "input_pipeline.py training"},
    {{"data", "map of input.data", "required",
      "The data set: its source and the part of it to use.", "{name: digits, split: train}"},
     {"pp", "string", "\"\"",
      "Preprocessing and augmentation of its images: ops separated by `|`. After it, the examples "
      "of all data sets must have the same features, types and shapes.",
      "decode|resize(64)|value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"},
     kSampleKey,
     kQuarantineKey,
     {"shuffle_buffer_size", "any", "none",
      "Has no effect and gives a warning. Every pass over a data set is shuffled as a whole."},
     {"cache_raw", "any", "none",
      "Has no effect and gives a warning. The operating system caches files that are read "
      "again."}});

// Checks that an example has what a model needs.
void check_image(const Config& input, const Example& example) {
  const auto image = example.find("image");
  if (image == example.end())
    input.fail("pp", fmt::format("gives no 'image' (it gives {})", names_of(example)));
  const std::string fault = image_fault(image->second.dim(), image->second.scalar_type());
  if (!fault.empty()) input.fail("pp", fault);
}

// Returns the ops of `pp`. If the cache has a short_side, they receive smaller images, whether the
// cache is open or not.
std::shared_ptr<const Pipeline> make_pipeline(const Config& keys,
                                              const std::optional<ImageCacheOptions>& cache) {
  auto pp = std::make_shared<Pipeline>(keys, "pp");
  if (cache && cache->short_side > 0) pp->shrink_decoded(cache->short_side);
  return pp;
}

// Records a problem for each key of big_vision's `input` that requires Python.
void refuse_functions(const Config& input) {
  const std::vector<std::string> given = input.keys();
  for (const auto& [key, instead] :
       {std::pair("pre_filter_fn", "list the examples to use in a manifest (name: jsonl or csv)"),
        std::pair("post_filter_fn", "list the examples to use in a manifest (name: jsonl or csv)"),
        std::pair("pack", "sequences are not packed: give all examples one shape"),
        std::pair("tfdata", "write the arguments of the source into `data`")}) {
    // has() would make messages list the key as known.
    if (std::find(given.begin(), given.end(), key) == given.end() || !input.has(key)) continue;
    input.mark_read(key);
    input.problem(key, fmt::format("is not supported; {}", instead));
  }
}

// The keys of `input` that a mixture needs in its data sets' sections.
constexpr const char* kCommonKeys[] = {"pp", "sample", "quarantine", "shuffle_buffer_size",
                                       "cache_raw"};

// Records a problem for each of these keys.
void refuse_common_keys(const Config& input, const std::string& first) {
  for (const char* key : kCommonKeys) {
    if (!input.has(key)) continue;
    input.mark_read(key);
    input.problem(
        key, fmt::format("each data set of a mixture has its own: write input.{}.{}", first, key));
  }
  if (!input.get<bool>("shuffle", true))
    input.problem("shuffle", "a mixture has no order to keep: its data sets take turns at random");
}

// Whether `data` names data sets that have sections in `input`, as a mixture does. Its values need
// not be valid weights.
bool names_sections(const Config& input, const Config& data) {
  const std::vector<std::string> names = data.keys(), sections = input.keys();
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const bool given = std::find(sections.begin(), sections.end(), name) != sections.end();
    return given && input.is_map(name) && !data.is_map(name) && !data.is_list(name);
  });
}

// Returns the data sets of a mixture with their weights, if these are above 0.
std::vector<std::pair<std::string, double>> read_shares(const Config& input, const Config& data) {
  std::vector<std::pair<std::string, double>> shares;
  double sum = 0;
  for (const std::string& name : data.keys()) {
    const auto weight = data.get<double>(name);
    if (!(weight >= 0) || !std::isfinite(weight))
      data.fail(name, fmt::format("the weight of a data set must be at least 0, got {}", weight));
    if (weight > 0) shares.emplace_back(name, weight);
    sum += weight;
    if (weight == 0 && input.has(name)) input.mark_read(name);
  }
  for (const auto& [name, weight] : shares) {
    if (weight / sum < TrainingData::kLeastShare)
      data.fail(name, fmt::format("{} of {} is too small a fraction", weight, sum));
  }
  if (shares.empty()) data.fail("", "every data set has the weight 0");
  return shares;
}

}  // namespace

void read_example(const Config& config, std::string_view pp_key,
                  const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() == Exit::data) config.fail(pp_key, error.what());
    if (error.code() == Exit::usage && error.needs_place() && error.component().empty())
      config.fail(pp_key, error.message());
    throw;
  }
}

bool given_wrongly(const Config& config, std::string_view path) {
  const std::vector<std::string> keys = config.keys(), below = config.section("input").keys();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) {
                       return familiar_key("", key).ours.starts_with(path);
                     }) ||
         std::any_of(below.begin(), below.end(), [&](const std::string& key) {
           return key.starts_with(path) || familiar_key("input", key).ours.starts_with(path);
         });
}

// Reads the data sets with their pp strings. Returns whether all pp strings are valid.
bool Recipe::read_data_sets(const Config& input, const DataEnv& env) {
  const Config data = input.section("data");
  std::vector<std::pair<std::string, double>> shares;  // of a mixture
  if (is_mixture(data) || names_sections(input, data)) {
    if (!attempt(data, [&] { shares = read_shares(input, data); })) {
      for (const std::string& name : data.keys()) input.mark_read(name);
      for (const char* key : kCommonKeys) input.mark_read(key);
      return false;
    }
    refuse_common_keys(input, shares[0].first);
  } else {
    shares.emplace_back("", 1);
  }
  const size_t problems = problem_count(config);
  bool misnamed = false;
  for (const auto& [name, weight] : shares) {
    const Config keys = name.empty() ? input : input.section(name);
    InputPart& part =
        inputs_.emplace_back(InputPart{keys, {name, nullptr, nullptr, weight}, {}, {}});
    part.training.pp = make_pipeline(keys, image_cache_);
    misnamed |= !keys.has("pp") && given_wrongly(config, "input.pp");
    if (name.empty()) continue;
    refuse_functions(keys);
    keys.superseded("shuffle_buffer_size", "every pass is shuffled as a whole");
    keys.superseded("cache_raw", "the system's page cache serves repeated reads");
  }
  const bool sound = !misnamed && problem_count(config) == problems;
  for (InputPart& part : inputs_) {
    attempt(config, [&] { part.sample = read_sample_rule(part.keys); });
    attempt(config, [&] { part.quarantine = Quarantine::read(part.keys); });
    if (!part.sample.is_uniform() && !loader.shuffle)
      part.keys.problem("sample", "draws examples in random order; leave out 'shuffle: false'");
    DataEnv own = env;
    own.source.keep_broken |= part.keys.has("quarantine");  // the list may contain them
    if (part.training.pp) own.labels_from = part.training.pp->made_from("labels");
    attempt(config, [&] { part.open = prepare_data(part.keys.section("data"), own); });
  }
  return sound;
}

void Recipe::read_input(bool synthetic) {
  const Config input = config.section("input");
  bool has_classes = read_num_classes();
  data_env_.source = {seed, num_classes};
  data_env_.open_sources = std::make_shared<OpenSources>();
  data_env_.synthetic = synthetic;
  data_env_.labels_are_numbers = config.is_text("task", "regress");
  loader.rank = group.rank();
  loader.ranks = group.size();
  if (config.has("input") && !config.is_map("input")) return;  // section() has recorded it
  attempt(config, [&] { read_loader(input); });
  DataEnv env = data_env_;
  env.source.keep_broken = loader.error_budget > 0;
  env.skip_section = loader.section;
  env.source.min_split_size = length.batch_size;
  bool has_pp = false;
  attempt(config, [&] { has_pp = read_data_sets(input, env); });
  const auto keep_only = input.get<std::vector<std::string>>("keep_only", {});
  if (!keep_only.empty() && inputs_.size() < 2)
    input.problem("keep_only", "is for mixtures of data sets; end pp with keep(...)");
  input.done(/*although_incomplete=*/true);

  if (inputs_.empty() ||
      std::any_of(inputs_.begin(), inputs_.end(), [](const InputPart& part) { return !part.open; }))
    return;
  open_data(keep_only);
  const bool counted = attempt(config, [&] { count_classes(); });
  // The pp strings may contain onehot(num_classes, ...), which is known now.
  if (counted && config_counts_classes_) {
    for (InputPart& part : inputs_) part.training.pp = make_pipeline(part.keys, image_cache_);
    make_data(keep_only);
  }
  // A pp string has been read as if num_classes were 1 if it is no number.
  const auto uses_number = [](const InputPart& part) {
    return part.training.pp->text().find("num_classes") != std::string::npos;
  };
  classes_known_ =
      counted && (has_classes || std::none_of(inputs_.begin(), inputs_.end(), uses_number));
  has_classes = has_classes && counted;
  length.data_size = data->size();
  if (length.batch_size > length.data_size) {
    input.problem("batch_size", fmt::format("{} is more than the {} training examples",
                                            length.batch_size, length.data_size));
  }
  warn_of_data();
  if (!has_pp || !classes_known_) return;  // its labels would be out of range
  std::vector<const Pipeline*> pps;
  for (const InputPart& part : inputs_) pps.push_back(part.training.pp.get());
  if (image_cache_) attempt(config, [&] { check_image_cache(input, pps); });
  for (const InputPart& part : inputs_) check_examples(part, has_classes);
}

void Recipe::warn_of_data() const {
  for (const InputPart& part : inputs_) {
    const std::string missing =
        data_env_.labels_are_numbers ? "" : part.training.data->missing_classes();
    if (!missing.empty()) part.keys.warn("data", missing);
    if (data_env_.labels_are_numbers && part.training.data->divided_by_numbers()) {
      part.keys.section("data").warn(
          "split",
          "treats the integers in 'label' as classes: slices of data sorted by them are cut from a "
          "fixed random order, and folds are stratified; to avoid this, write the numbers as 5.0, "
          "or use `label: [NAME]` in csv");
    }
    const std::string several =
        part.training.pp->uses_data_labels()
            ? several_labels_note(part.keys.section("data"), part.training.data->source())
            : "";
    if (!several.empty()) part.keys.warn("data", several);
    for (const std::string& line : data_notes(*part.training.data, *part.training.pp))
      part.keys.warn("data", line);
    if (data_env_.synthetic) continue;
    for (const std::string& line : sampled_notes(*part.training.data, *part.training.pp))
      part.keys.warn("data", line);
  }
}

void Recipe::open_data(const std::vector<std::string>& keep_only) {
  find_classes();
  for (InputPart& part : inputs_) {
    part.training.data = part.open(classes_.names.empty() ? std::nullopt : std::optional(classes_));
    if (part.quarantine && !data_env_.synthetic)
      part.training.data =
          part.quarantine->leave_out(part.training.data, part.name(), loader.threads);
  }
  data_env_.classes = classes_;
  for (InputPart& part : inputs_) attempt(config, [&] { make_sampler_of(part); });
  make_data(keep_only);
  if (!data_env_.synthetic && inputs_[0].training.pp->uses_data_labels())
    data_env_.classes->trained = data->labels_of_splits();
}

void Recipe::make_sampler_of(InputPart& part) {
  if (part.sample.is_uniform()) return;
  if (data_env_.synthetic) {
    part.keys.warn("sample", "has no effect on generated data");
    return;
  }
  if (part.sample.kind != SampleRule::Kind::weights && !part.training.pp->uses_data_labels()) {
    part.keys.fail("sample",
                   fmt::format("uses the classes of the feature 'label', but pp makes the labels "
                               "from '{}'; {{weights: FEATURE}} uses any feature",
                               part.training.pp->made_from("labels")));
  }
  part.training.sampler = make_sampler(part.sample, *part.training.data, part.keys,
                                       {loader.threads, loader.error_budget, loader.section});
  const bool weighed = config.is_map("task_kw") && config.section("task_kw").has("class_weights");
  if (!weighed) return;
  part.keys.warn("sample",
                 part.sample.kind == SampleRule::Kind::weights
                     ? "draws examples by weight, and task_kw.class_weights weights their "
                       "classes: if both balance the classes, rare ones count too much"
                     : "balances the classes, and so does task_kw.class_weights");
}

void Recipe::make_data(const std::vector<std::string>& keep_only) {
  std::vector<TrainingData::Part> parts;
  for (const InputPart& part : inputs_) parts.push_back(part.training);
  auto made = std::make_shared<TrainingData>(std::move(parts), keep_only);
  if (image_cache_) made->use_cache(*image_cache_);
  if (byte_images_) image_normalization = made->leave_normalization();
  data = std::move(made);
}

// Computes a few examples of a data set, which must have the same form as those of the first one.
void Recipe::check_examples(const InputPart& part, bool has_classes) {
  read_example(part.keys, "pp", [&] {
    Example first =
        compute_first_example(*part.training.data, *part.training.pp, seed, loader.error_budget);
    keep_features(first, data->keep_only());
    check_image(part.keys, first);
    check_layout(part, first);
    const bool is_first = &part == &inputs_[0];
    check_more_examples(*part.training.data, *part.training.pp, seed, is_first ? first : first_,
                        loader.error_budget, "input", data->keep_only(),
                        data_env_.labels_are_numbers);
    if (!is_first) return;
    first_ = std::move(first);
    check_labels(part.keys, has_classes);
  });
}

// Reads the loader's keys.
void Recipe::read_loader(const Config& input) {
  // One core is reserved for the thread that launches kernels on a GPU.
  const int cores = usable_cores();
  loader.threads =
      read_count(input, "threads", 1, device.is_cpu() ? cores : std::max(1, cores - 1));
  loader.threads_place = input.place("threads");
  loader.prefetch = read_count(input, "prefetch", 1, 2);
  loader.seed = seed;
  loader.pinned = !device.is_cpu();
  loader.shuffle = input.get<bool>("shuffle", true);
  refuse_functions(input);
  attempt(config, [&] { loader.error_budget = read_error_budget(input); });
  attempt(config, [&] { read_max_pixels(input); });
  attempt(config, [&] { image_cache_ = read_image_cache(input); });
  if (!is_mixture(input.section("data"))) {
    input.superseded("shuffle_buffer_size",
                     "every epoch is shuffled as a whole; 'shuffle: false' keeps the order");
    input.superseded("cache_raw", "the system's page cache serves repeated reads");
  }
  input.superseded("num_parallel_calls", "input.threads");
  const auto batch_size = input.get<int64_t>("batch_size");
  if (batch_size < 1) input.fail("batch_size", fmt::format("must be positive, got {}", batch_size));
  if (batch_size % loader.ranks != 0) {
    input.fail("batch_size", fmt::format("Batch size ({}) must be divisible by device number ({})",
                                         batch_size, loader.ranks));
  }
  length.batch_size = loader.batch_size = batch_size;
}

}  // namespace bv

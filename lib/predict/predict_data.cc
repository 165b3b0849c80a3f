#include "lib/predict/predict_data.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "lib/ckpt/formats/npz.h"
#include "lib/export/trained_model.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/input/loader/compute_example.h"
#include "lib/input/loader/example_failure.h"
#include "lib/input/prepare_data.h"
#include "lib/input/quarantine.h"
#include "lib/predict/predict_inputs.h"
#include "lib/report/log.h"
#include "lib/train/data_changes.h"
#include "lib/util/host.h"

namespace bv {
namespace {

// Returns the section of the evaluator `name`, which must have its own data.
Config evaluator(const Config& config, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [key, keys] : config.section("evals").items()) {
    keys.mark_read();
    if (key == name && keys.has("data")) return keys;
    known.push_back(key);
  }
  if (std::find(known.begin(), known.end(), name) != known.end())
    throw Error(Exit::usage, "--eval " + name, "this evaluator has no `data`");
  throw Error(Exit::usage, "--eval " + name, unknown_name_message("evaluator", name, known));
}

// Sets the limit of the config or, if it has no `input`, that of the training.
void read_pixel_limit(const PredictModel& model) {
  const bool own = model.config.is_map("input") || !model.trained;
  const Config& config = own ? model.config : *model.trained;
  read_max_pixels(config.section("input"));
  throw_problems(config);
}

// Opens the files of `--input`. Numbers their labels as those of an evaluator's data: by the names
// of the model's classes. `numbers`: they are no classes.
std::shared_ptr<const Dataset> open_files(const PredictModel& model, const PredictRequest& request,
                                          bool numbers) {
  auto data = std::make_shared<Dataset>(open_inputs(request.inputs), "inputs", Place{});
  const std::string& file = request.inputs.front();  // only an .npz file has labels
  if (request.labels && file.ends_with(".npz") && is_npz_text(file, "label"))
    log::warn("{}: the array 'label' is not used: it holds text", file);
  if (!request.labels || numbers || !data->source().labels(0).defined()) return data;
  if (labels_tell_presence(model.config)) return data;  // they are no class numbers
  try {
    for (const std::string& line :
         match_classes(*data, {model.class_names, "the model"}, /*skip_unknown=*/false))
      log::warn("{}: {}", file, line);
  } catch (const Error& error) {
    if (error.code() != Exit::usage || !error.needs_place()) throw;
    const std::string& why = error.message();  // it may end with a key of a data set's section
    throw Error(Exit::usage, file, why.substr(0, why.find("; `unknown_classes")));
  }
  return data;
}

std::shared_ptr<const Dataset> open_data(const PredictModel& model, const PredictRequest& request,
                                         bool numbers) {
  const Config& config = model.config;
  read_pixel_limit(model);
  if (request.eval.empty()) return open_files(model, request, numbers);
  DataEnv env;
  env.source.seed = static_cast<uint64_t>(config.get<int64_t>("seed", 0));
  env.source.num_classes = config.get<int64_t>("num_classes", 0);
  env.source.keep_broken = true;
  const Config keys = evaluator(config, request.eval);
  const auto quarantine = Quarantine::read(keys);
  const auto open = prepare_data(keys.section("data"), env);
  const Pipeline pp(keys, "pp_fn");
  std::optional<ClassNames> classes;
  if (pp.reads_data_labels(keys.get("label_key", "labels")))
    classes = ClassNames{model.class_names, "the model"};
  throw_problems(config);
  auto data = open(classes);
  if (quarantine) data = quarantine->leave_out(data, "evals." + request.eval, usable_cores());
  throw_problems(config);
  // The checkpoint counts an evaluator's `train` with its data.
  if (model.checkpoint && !keys.has("train")) {
    const EvalExamples now = {data->size(), data->content()};
    for (const std::string& line : other_examples(*model.checkpoint, config, {{request.eval, now}}))
      log::warn("{}", line);
  }
  return data;
}

// Returns the pp_fn of the first evaluator that has one, without its label ops.
std::optional<Pipeline> evaluator_pp(const Config& config) {
  const auto keys = first_evaluator_with_pp(config);
  if (!keys) return std::nullopt;
  Pipeline pp(*keys, "pp_fn");
  throw_problems(config);
  pp.end_with_image();
  return pp;
}

Pipeline read_pp(const PredictModel& model, const PredictRequest& request) {
  if (request.pp) return Pipeline(*request.pp, Place{"--pp"});
  if (!request.eval.empty()) {
    Pipeline pp(evaluator(model.config, request.eval), "pp_fn");
    throw_problems(model.config);
    return pp;
  }
  if (model.trained) {
    if (auto pp = evaluator_pp(*model.trained)) return *pp;
  }
  if (auto pp = evaluator_pp(model.config)) return *pp;
  throw Error(Exit::usage, model.config.place().text(),
              "no evaluator has a pp_fn; give --pp (--pp \"\" uses images as they are)");
}

Place place_of_pp(const PredictModel& model, const PredictRequest& request) {
  const bool of_evaluator = !request.pp && !request.eval.empty();
  return of_evaluator ? evaluator(model.config, request.eval).place("pp_fn") : Place{"--pp"};
}

// `pp`: what read_pp() has returned.
RightLabels read_labels(const PredictModel& model, const PredictRequest& request,
                        const Pipeline& pp, bool numbers) {
  const auto read = [&] {
    if (request.eval.empty()) return RightLabels(model.config, numbers);
    const Config keys = evaluator(model.config, request.eval);
    return RightLabels(model.config, keys, request.pp ? Pipeline(keys, "pp_fn") : pp, numbers);
  };
  RightLabels labels = read();
  throw_problems(model.config);
  return labels;
}

bool must_be_classes(const PredictModel& model, const PredictRequest& request) {
  if (request.eval.empty()) return true;
  const Config keys = evaluator(model.config, request.eval);
  return keys.has("type") ? keys.is_text("type", "class_metrics") : request.eval == "class_metrics";
}

// Returns those of the features `keys` of a row that the batch has.
template <class Keys>
Example row_of(const Batch& batch, int64_t row, const Keys& keys) {
  Example example;
  for (const std::string& key : keys) {
    if (const auto found = batch.find(key); found != batch.end()) example[key] = found->second[row];
  }
  return example;
}

bool is_file(const Example& raw) {
  const auto image = raw.find("image");  // pp may make it from another feature
  return image != raw.end() && image->second.dim() == 1;
}

// Throws if the images are files, but the training's pp decodes none: it was for arrays. `pp`: what
// read_pp() has returned.
void check_decodes(const PredictModel& model, const PredictRequest& request, const Pipeline& pp,
                   const Example& raw) {
  const bool own = !request.pp && request.eval.empty();
  if (!own || !is_file(raw) || pp.decodes() || pp.decodes_later()) return;
  std::string ops = "decode|resize(SIZE)";
  if (model.image.size() == 3) {
    const std::string side = std::to_string(model.image[0]);
    ops = fmt::format(
        "{}|resize({})", model.image[2] == 1 ? "decode(1)" : "decode",
        model.image[0] == model.image[1] ? side : fmt::format("[{}, {}]", side, model.image[1]));
  }
  if (!pp.text().empty()) ops += "|" + pp.text();
  const char* const quote = ops.find('"') == std::string::npos ? "\"" : "'";
  throw Error(Exit::usage, model.origin,
              fmt::format("the model was trained on arrays, so its pp decodes no image files; give "
                          "--pp {0}{1}{0}",
                          quote, ops));
}

LoaderOptions loader_options(const PredictModel& model, const PredictRequest& request,
                             int64_t batch_size) {
  LoaderOptions options;
  options.batch_size = batch_size;
  // An evaluator's random ops draw as they do in the run.
  if (!request.eval.empty())
    options.seed = static_cast<uint64_t>(model.config.get<int64_t>("seed", 0));
  options.threads = usable_cores();
  options.shuffle = false;
  options.evaluation = true;
  options.error_budget = std::numeric_limits<int64_t>::max();
  options.warns = false;
  return options;
}

}  // namespace

PredictData::PredictData(const PredictModel& model, const PredictRequest& request, bool numbers)
    : data_(open_data(model, request, numbers)),
      pp_(std::make_shared<Pipeline>(read_pp(model, request))),
      pp_place_(place_of_pp(model, request)),
      size_(request.first > 0 ? std::min(request.first, data_->size()) : data_->size()),
      wants_labels_(request.labels),
      of_evaluator_(!request.eval.empty()),
      pp_makes_labels_(!request.eval.empty() && !request.pp),
      labels_(read_labels(model, request, *pp_, numbers)),
      labels_place_(request.eval.empty() ? request.inputs.front() : "--eval " + request.eval),
      labels_are_classes_(must_be_classes(model, request)),
      options_(loader_options(model, request, std::min(request.batch_size, size_))) {
  if (!request.eval.empty() && evaluator(model.config, request.eval).has("tta")) {
    log::warn(
        "--eval {}: the evaluator averages over augmented views (tta), predict does not, so "
        "some predictions may differ",
        request.eval);
  }
  find_first_image([&](const Example& raw) { check_decodes(model, request, *pp_, raw); });
  if (!encoded_ || request.pp || !model.trained) trained_on_ = model.image_values;
  loader_ = std::make_unique<Loader>(data_, pp_, options_);
}

// Sets options_.prototype, labelled_ and encoded_. If there is a readable image, next() reports the
// unreadable ones before it.
void PredictData::find_first_image(const std::function<void(const Example&)>& check) {
  const c10::NoGradGuard no_grad;
  std::vector<std::string> failures;
  for (int64_t index = 0; index < size_; ++index) {
    try {
      options_.prototype = compute_example(*data_, *pp_, options_.seed, index, index);
    } catch (...) {
      const ExampleFailure failure = current_failure(*data_, index);
      failures.push_back(failure.text());
      if (!failure.fatal) continue;
      check(data_->read(index));  // a better message
      // Exit::data would mean that the example is at fault.
      throw Error::in("input", failure.code == Exit::data ? Exit::usage : failure.code,
                      failure.text());
    }
    const Example raw = data_->read(index);
    check(raw);
    if (!options_.prototype.contains("image"))
      throw Error(Exit::usage, pp_place_, "gives no 'image'");
    labelled_ = wants_labels_ && has_labels(raw) && label(index, options_.prototype);
    encoded_ = is_file(raw);
    return;
  }
  for (const std::string& text : failures) log::warn("skipped {}", text);
  throw Error(Exit::data, "bvtrain predict",
              fmt::format("none of the {} images could be read", size_));
}

// Returns whether the data have labels; image files have none. Warns of labels that are not used.
bool PredictData::has_labels(const Example& raw) const {
  if (of_evaluator_ || data_->source().labels(0).defined()) return true;
  const auto found = raw.find("label");
  if (found == raw.end()) return false;
  // An example without a label has a single integer as its `label`.
  const at::Tensor& value = found->second;
  if (value.dim() == 0 && at::isIntegralType(value.scalar_type(), /*includeBool=*/false))
    return false;
  if (labels_.numbers()) return true;
  log::warn("{}: the array 'label' is not used: it does not hold one integer for each image",
            labels_place_);
  return false;
}

std::optional<RightLabel> PredictData::label(int64_t index, const Example& computed) const {
  return labels_.of(pp_makes_labels_ ? computed : Example(), *data_, index);
}

bool PredictData::next() {
  if (done_ == size_) return false;
  rows_.clear();
  const Batch* batch = nullptr;
  try {
    batch = &loader_->next();
  } catch (const Error& error) {
    // The error budget is unlimited, so an Exit::data error here is not the fault of one example.
    if (error.code() != Exit::data) throw;
    throw Error::in(
        error.component(), Exit::usage,
        fmt::format("{}; --pp replaces the pp, which is '{}'", error.message(), pp_->text()));
  }
  const int64_t n = std::min(batch->at("_mask").size(0), size_ - done_);
  for (const FailedExample& each : loader_->take_failed()) failures_[each.name] = each.reason;
  const bool* readable = batch->at("_mask").const_data_ptr<bool>();
  std::vector<int64_t> good;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = done_ + i;
    PredictedRow& row = rows_.emplace_back(PredictedRow{.name = data_->describe(index)});
    if (!readable[i]) {
      row.error = failures_.at(in_utf8(row.name));
      log::warn("skipped {}: {}", row.name, row.error);
    } else {
      if (labelled_) row.label = label(index, row_of(*batch, i, labels_.keys()));
      good.push_back(i);
    }
  }
  done_ += n;
  images_ = batch->at("image").narrow(0, 0, n);
  if (std::ssize(good) < n) images_ = at::index_select(images_, 0, at::tensor(good));
  check_values();
  return true;
}

// Warns, for the first batch that has images, if their scale differs from that of training.
void PredictData::check_values() {
  if (!trained_on_) return;
  const std::optional<ValueSpan> span = value_span(images_);
  if (!span) return;
  if (far_apart(*span, *trained_on_)) {
    log::warn(
        "the images have values from {} after preprocessing, but those of the training had values "
        "from {}: are they scaled in the same way?",
        span->text(), trained_on_->text());
  }
  trained_on_.reset();
}

}  // namespace bv

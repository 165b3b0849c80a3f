#include "lib/evals/common/eval_input.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/config/count.h"
#include "lib/evals/common/ranks.h"
#include "lib/input/data_notes.h"
#include "lib/input/loader/check_examples.h"
#include "lib/input/loader/compute_example.h"
#include "lib/input/shuffle.h"

namespace bv {
namespace {

constexpr uint64_t kProbeSeed = 0x9E0B;  // for the order in which probe() takes examples

// Returns the smallest multiple of `ranks` that divides `size` examples into no more batches than
// `most`, which is a multiple too. So the last batch has little padding, which costs as much time
// as examples do.
int64_t balanced_batch_size(int64_t size, int64_t most, int64_t ranks) {
  const auto divide_up = [](int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); };
  if (size == 0) return most;
  const int64_t batches = divide_up(size, most);
  return divide_up(divide_up(size, batches), ranks) * ranks;
}

}  // namespace

EvalLoaderOptions read_eval_loader(const Config& config, const EvalEnv& env,
                                   const std::string& label_key) {
  EvalLoaderOptions options;
  options.label_key = label_key;
  options.error_budget = read_error_budget(config);
  attempt(config, [&] { options.quarantine = Quarantine::read(config); });
  options.keep_broken = options.error_budget > 0 || config.has("quarantine");
  options.section = "evals." + env.name;
  options.batch_size = config.get<int64_t>("batch_size", env.batch_size);
  options.prefetch = read_count(config, "prefetch", 0, 1);
  options.threads = read_count(config, "threads", 1, env.threads);
  options.threads_place = config.place("threads");
  options.seed = env.seed;
  options.pinned = env.pinned;
  options.shuffle = false;
  options.evaluation = true;
  options.rank = env.group->rank();
  options.ranks = env.group->size();
  if (options.batch_size < 1) {
    config.problem("batch_size", "must be positive");
  } else if (options.batch_size % options.ranks != 0) {
    config.problem(config.has("batch_size") ? "batch_size" : "",
                   fmt::format("Batch size ({}) must be divisible by device number ({})",
                               options.batch_size, options.ranks));
  }
  for (const char* key : {"cache", "cache_final", "cache_raw"})
    config.superseded(key, "evaluators keep their threads and buffers between passes");
  config.superseded("warmup", "evaluators need no warm-up");
  return options;
}

EvalInput::EvalInput(const Config& config, const EvalEnv& env, const std::string& label_key)
    : EvalInput(config.section("data"), std::make_shared<Pipeline>(config, "pp_fn"),
                read_eval_loader(config, env, label_key), env.data) {}

EvalInput::EvalInput(const Config& data, std::shared_ptr<const Pipeline> pp,
                     const EvalLoaderOptions& options, const DataEnv& env, const std::string& part)
    : classes_(env.classes),
      pp_(std::move(pp)),
      options_(options),
      numbers_(env.labels_are_numbers && env.classes),
      name_(options.section + (part.empty() ? "" : "." + part)) {
  DataEnv own = env;
  own.source.keep_broken = options.keep_broken;
  own.skip_section = options_.section;
  own.labels_from = pp_->made_from("labels");
  attempt(data, [&] {
    // The function below keeps `data` for the warnings, which are recorded when the data is opened.
    const auto quarantine = env.synthetic ? nullptr : options.quarantine;
    open_ = [data, pp = pp_, quarantine, name = name_, synthetic = env.synthetic,
             numbers = env.labels_are_numbers, threads = std::max(options.threads, 1),
             uses_labels = pp_->reads_data_labels(options.label_key),
             open = prepare_data(data, own)](const std::optional<ClassNames>& given) {
      const auto classes = uses_labels ? given : std::nullopt;
      auto opened = open(classes);
      if (quarantine) opened = quarantine->leave_out(opened, name, threads);
      for (const std::string& line : data_notes(*opened, *pp)) data.warn({}, line);
      // Labels without names may be regression targets, unless onehot() takes them.
      const bool have_classes = !opened->class_names().empty() || pp->class_count();
      if (classes && have_classes) {
        if (const std::string line = untrained_classes(*opened, classes->trained); !line.empty())
          data.warn({}, line);
      }
      if (synthetic) return opened;
      if (!numbers && have_classes && uses_labels) {
        if (const std::string line = opened->classes_missing_without_chance(); !line.empty())
          data.warn({}, line);
      }
      for (const std::string& line : sampled_notes(*opened, *pp)) data.warn({}, line);
      return opened;
    };
  });
}

EvalInput::EvalInput(EvalInput&&) noexcept = default;

EvalInput::~EvalInput() = default;

const Dataset& EvalInput::data() {
  check(open_ != nullptr, "the evaluation data could not be prepared, so it cannot be opened");
  if (!data_) data_ = open_(classes_);
  return *data_;
}

std::vector<std::string> EvalInput::class_names(const std::string& label_key) {
  if (!pp_->uses_data_labels(label_key)) return {};
  return data().class_names();
}

std::optional<std::pair<int64_t, int64_t>> EvalInput::largest_label(const std::string& key) {
  const auto bounds = data().label_bounds();
  if (bounds.empty()) return std::nullopt;
  const int64_t index = bounds.back().first;
  try {
    const Example example = compute_example(*data_, *pp_, options_.seed, index, index);
    const auto found = example.find(key);
    if (found == example.end() || found->second.dim() != 0) return std::nullopt;
    return std::pair(index, found->second.to(at::kLong).item<int64_t>());
  } catch (...) {  // probe() decides what an unreadable example means
    return std::nullopt;
  }
}

void EvalInput::match_classes(EvalInput& other, const std::string& owner) {
  if (!data_) classes_ = {other.data().class_names(), owner};
}

int64_t EvalInput::examples() const { return data_ ? data_->size() : 0; }

uint64_t EvalInput::fingerprint() const { return data_ ? data_->fingerprint() : 0; }

uint64_t EvalInput::content() const { return data_ ? data_->content() : 0; }

Batch EvalInput::probe(int64_t n) {
  const int64_t size = data().size();
  n = std::min(n, size);
  const bool all = n == size;
  std::map<std::string, std::vector<at::Tensor>> columns;
  int64_t failed = 0, taken = 0;
  for (int64_t k = 0; taken < n && k < size && (taken == 0 || k < 2 * n); ++k) {
    const int64_t i = all || k == 0 ? k : shuffle(kProbeSeed, 0, k, size);
    Example example;
    try {
      example = compute_example(*data_, *pp_, options_.seed, i, i);
    } catch (...) {
      const ExampleFailure failure = current_failure(*data_, i);
      if (failure.of_config) throw;
      if (taken > 0 && !failure.fatal) continue;  // for_each() counts it
      n = std::min(n, size - ++failed);
      if (failure.fatal || failed > options_.error_budget || n == 0)
        throw start_error(failure, options_.section);
      continue;
    }
    for (const auto& [name, value] : example) columns[name].push_back(value);
    if (taken++ == 0) {
      check_more_examples(*data_, *pp_, options_.seed, example, options_.error_budget,
                          options_.section, {}, numbers_);
    }
  }
  Batch batch;
  for (auto& [name, values] : columns) {
    for (const auto& value : values) {
      if (value.sizes() != values[0].sizes()) {
        throw Error(
            Exit::usage, "",
            fmt::format("evaluation examples have different shapes of '{}'; add a resize or "
                        "crop to pp_fn",
                        name));
      }
    }
    batch[name] = at::stack(values);
  }
  batch["_mask"] = at::ones({taken}, at::kBool);
  return batch;
}

void EvalInput::for_each(const EvalContext& context,
                         const std::function<void(const Batch&)>& each) {
  data();
  if (!loader_) {
    LoaderOptions options = options_;
    options.batch_size = balanced_batch_size(data_->size(), options.batch_size, options.ranks);
    loader_ = std::make_unique<Loader>(data_, pp_, options);
  }
  loader_->seek(0);
  int64_t seen = 0;
  for (int64_t b = 0; b < loader_->batches_per_pass(); ++b) {
    if (context.poll) context.poll();
    const Batch& batch = loader_->next();
    const at::Tensor& mask = batch.at("_mask");
    for (int64_t i = 0; i < mask.size(0); ++i) seen += mask.const_data_ptr<bool>()[i];
    each(batch);
  }
  std::vector<FailedExample> failed = loader_->take_failed();
  const at::Tensor counts = at::zeros({3}, at::kLong);
  auto* count = counts.mutable_data_ptr<int64_t>();
  count[0] = seen;
  count[1] = loader_->failed_rows();
  count[2] = std::ssize(failed);
  sum_over_ranks(*context.group, counts);
  if (count[1] > options_.error_budget) {
    throw Error::in("input", Exit::data,
                    fmt::format("{} examples of an evaluation failed on all ranks together; "
                                "{}.skip_errors allows {}",
                                count[1], options_.section, options_.error_budget));
  }
  check(count[0] == data_->size() - count[1], "evaluation saw {} examples instead of {}", count[0],
        data_->size() - count[1]);
  if (count[2] > 0) failed = gather_failed(*context.group, failed);
  std::sort(failed.begin(), failed.end(),
            [](const FailedExample& a, const FailedExample& b) { return a.index < b.index; });
  if (context.left_out && options_.error_budget > 0) context.left_out(name_, count[1], failed);
}

}  // namespace bv

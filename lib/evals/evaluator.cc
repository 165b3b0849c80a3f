#include "lib/evals/evaluator.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

namespace bv {

EvalInput::EvalInput(const Config& config, const EvalEnv& env)
    : pp_(std::make_shared<Pipeline>(config, "pp_fn")) {
  options_.error_budget = read_error_budget(config);
  DataEnv data = env.data;
  data.source.keep_broken = options_.error_budget > 0;
  open_ = prepare_data(config.section("data"), data);
  options_.batch_size = config.get<int64_t>("batch_size", env.batch_size);
  options_.prefetch = static_cast<int>(config.get<int64_t>("prefetch", 1));
  options_.threads = static_cast<int>(config.get<int64_t>("threads", env.threads));
  options_.seed = env.seed;
  options_.shuffle = false;
  options_.evaluation = true;
  if (options_.batch_size < 1) config.fail("batch_size", "must be positive");
  if (options_.prefetch < 0) config.fail("prefetch", "must not be negative");
  if (options_.threads < 1) config.fail("threads", "must be positive");
  config.superseded("cache", "evaluators keep their threads and buffers between passes");
  config.superseded("warmup", "evaluators need no warm-up");
}

EvalInput::~EvalInput() = default;

const Dataset& EvalInput::data() {
  if (!data_) data_ = open_();
  return *data_;
}

int64_t EvalInput::examples() const { return data_ ? data_->size() : 0; }

Batch EvalInput::probe(int64_t n) {
  n = std::min(n, data().size());
  std::map<std::string, std::vector<at::Tensor>> columns;
  int64_t failed = 0, taken = 0;
  for (int64_t i = 0; taken < n; ++i) {
    try {
      Rng rng(options_.seed, Purpose::augment, static_cast<uint64_t>(i));
      Example example = data_->read(i);
      pp_->apply(example, rng);
      for (auto& [name, value] : example) columns[name].push_back(value);
      ++taken;
    } catch (const Error& error) {
      const bool put_up_with = error.code() == Exit::data && ++failed <= options_.error_budget;
      if (!put_up_with) throw;
      n = std::min(n, data_->size() - failed);
      if (n == 0) throw;
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
  batch["_mask"] = at::ones({n}, at::kBool);
  return batch;
}

void EvalInput::for_each(const EvalContext& context,
                         const std::function<void(const Batch&)>& each) {
  data();
  if (!loader_) loader_ = std::make_unique<Loader>(data_, pp_, options_);
  loader_->seek(0);
  const int64_t errors_before = loader_->errors();
  int64_t seen = 0;
  for (int64_t b = 0; b < loader_->batches_per_pass(); ++b) {
    if (context.poll) context.poll();
    const Batch& batch = loader_->next();
    const at::Tensor& mask = batch.at("_mask");
    for (int64_t i = 0; i < mask.size(0); ++i) seen += mask.const_data_ptr<bool>()[i];
    each(batch);
  }
  const int64_t expected = data_->size() - (loader_->errors() - errors_before);
  check(seen == expected, "evaluation saw {} examples instead of {}", seen, expected);
}

}  // namespace bv

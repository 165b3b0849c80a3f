// The op choice. If `n` is [min, max], it first draws how many entries to choose. Then it draws
// the entries by a partial Fisher-Yates shuffle, which takes one random number for each.
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/input/ops/common/op_args.h"

namespace bv {
namespace {

const KeyTable choice_keys(
    "pp: choice",
    {"Chooses random entries of a feature, each at most once, for example one of several captions. "
     "Entries lie along the first dimension; the feature may have any type and any shape but that "
     "of a scalar. The chosen entries keep their order.",
     "choice(n=4, key=['patches', 'positions'])", "pp/ops_general.py get_choice"},
    {{"n", "'single' | int >= 1 | [int 0..2147483648, int 0..2147483648]", "single",
      "Number of entries to choose. 'single' gives one entry without the first dimension, a number "
      "gives that many, and [min, max] gives a random number from min to max.",
      "[1, 4]"},
     {"key", "string | list of string", "none",
      "The feature to choose from and to replace. The features of a list must have equally many "
      "entries, and all get the same choice. Required unless inkey and outkey are given."},
     {"fewer_ok", "bool", "false",
      "Whether an example may have fewer entries than n, or than min of [min, max]. True takes all "
      "of them; False makes it an error. With n='single', an example without entries is always an "
      "error."},
     {"inkey", "string | list of string", "= key",
      "The feature or features to choose from, if the result gets other names. Use it in place of "
      "key."},
     {"outkey", "string | list of string", "= key",
      "Names of the results, as many as inkey has. '{key}' in a name stands for the name in inkey: "
      "'some_{key}' stores the choice from 'boxes' as 'some_boxes'."}});

class Choice : public Op {
 public:
  explicit Choice(const Config& args) {
    read_count(args);
    const std::vector<std::string> key = maybe_strings(args, "key");
    fewer_ok_ = args.get<bool>("fewer_ok", false);
    const std::vector<std::string> inkey = maybe_strings(args, "inkey");
    const std::vector<std::string> outkey = maybe_strings(args, "outkey");
    inkeys_ = inkey.empty() ? key : inkey;
    outkeys_ = outkey.empty() ? key : outkey;
    if (inkeys_.empty()) args.fail("key", "missing: the feature to choose from (key or inkey)");
    if (outkeys_.empty()) args.fail("outkey", "missing: where the choice goes (key or outkey)");
    if (inkeys_.size() != outkeys_.size()) {
      args.fail("outkey", fmt::format("must have as many names as inkey ({}), got {}",
                                      inkeys_.size(), outkeys_.size()));
    }
    for (size_t i = 0; i < inkeys_.size(); ++i) {
      constexpr std::string_view kPlaceholder = "{key}";
      const size_t at = outkeys_[i].find(kPlaceholder);
      if (at != std::string::npos) outkeys_[i].replace(at, kPlaceholder.size(), inkeys_[i]);
    }
  }

  bool is_random() const override { return true; }

  void apply(Example& example, Rng& rng) const override {
    std::vector<at::Tensor> in;
    for (const std::string& key : inkeys_) in.push_back(require_tensor(example, key, "choice"));
    const int64_t entries = checked_entries(in);
    const int64_t count = least_ == most_ ? most_ : least_ + rng.below(most_ - least_ + 1);
    const at::Tensor picked = pick(entries, std::min(count, entries), rng);
    for (size_t i = 0; i < in.size(); ++i) {
      at::Tensor out = at::index_select(in[i], 0, picked);
      example[outkeys_[i]] = single_ ? out.squeeze(0) : out;
    }
  }
  bool leaves(std::string_view key) const override {
    return std::ranges::find(inkeys_, key) == inkeys_.end() &&
           std::ranges::find(outkeys_, key) == outkeys_.end();
  }
  std::optional<std::string> makes_from(std::string_view key) const override {
    const auto out = std::ranges::find(outkeys_, key);
    if (out == outkeys_.end()) return std::nullopt;
    const std::string& in = inkeys_[static_cast<size_t>(out - outkeys_.begin())];
    return in == key ? std::nullopt : std::optional(in);
  }

 private:
  static constexpr int64_t kMaxEntries = int64_t{1} << 31;

  void read_count(const Config& args) {
    if (args.is_list("n")) {
      const auto range = args.get<std::vector<int64_t>>("n");
      if (range.size() != 2 || range[0] < 0 || range[0] > range[1] || range[1] > kMaxEntries) {
        args.fail("n", fmt::format("must be [min, max] with 0 <= min <= max <= {}, got [{}]",
                                   kMaxEntries, fmt::join(range, ", ")));
      }
      least_ = range[0];
      most_ = range[1];
      return;
    }
    const Scalar n = args.get<Scalar>("n", std::string("single"));
    const auto* word = std::get_if<std::string>(&n);
    const auto* number = std::get_if<int64_t>(&n);
    single_ = word && *word == "single";
    if (!single_ && !(number && *number >= 1)) {
      args.fail("n", "must be 'single', a positive number or [min, max]");
    }
    least_ = most_ = single_ ? 1 : *number;
  }

  int64_t checked_entries(const std::vector<at::Tensor>& in) const {
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].dim() == 0) {
        throw Error::bare(Exit::usage,
                          fmt::format("choice: '{}' is a single number, not a list", inkeys_[i]));
      }
      if (in[i].size(0) == in[0].size(0)) continue;
      throw Error::bare(Exit::data,
                        fmt::format("choice: '{}' has {} entries, but '{}' has {}", inkeys_[0],
                                    in[0].size(0), inkeys_[i], in[i].size(0)));
    }
    const int64_t entries = in[0].size(0);
    const int64_t needed = single_ ? 1 : fewer_ok_ ? 0 : least_;
    if (entries < needed) {
      throw Error::bare(Exit::data, fmt::format("choice: '{}' has {} entries, {} are needed",
                                                inkeys_[0], entries, needed));
    }
    return entries;
  }

  // Returns (count,) int64: different random numbers below `entries`, ascending.
  static at::Tensor pick(int64_t entries, int64_t count, Rng& rng) {
    std::vector<int64_t> numbers(entries);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
      std::swap(numbers[i], numbers[i + rng.below(entries - i)]);
    }
    numbers.resize(count);
    std::sort(numbers.begin(), numbers.end());
    return at::tensor(numbers, at::kLong);
  }

  bool single_ = false;
  int64_t least_ = 1, most_ = 1;
  bool fewer_ok_ = false;
  std::vector<std::string> inkeys_, outkeys_;
};

const Register<Op, Choice> registered_choice("choice");

}  // namespace
}  // namespace bv

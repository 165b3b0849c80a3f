// The top-level keys of a training config, grouped by the function of Recipe that reads them. Their
// meanings are in recipe_keys.cc and, for keys that other files read, in those files.
// If a key of kStepKeys is wrong, its reader may not reach the others, so Recipe marks the whole
// group as read. predict and eval read only a few of the keys and use these lists to ignore the
// others. They report a key that is missing here as unknown.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "lib/config/config.h"

namespace bv {

using Keys = std::initializer_list<std::string_view>;

inline const Keys kRunKeys = {"seed",
                              "precision",
                              "compute_threads",
                              "deterministic",
                              "graph",
                              "resume",
                              "model_init",
                              "model_load",
                              "pp_modules",
                              "profile",
                              "max_checkpoints_to_keep",
                              "periodic_action_growth_ratios"};
// Keys of big_vision configs that have no effect here, each with what replaces it.
inline const std::initializer_list<std::pair<std::string_view, std::string_view>> kSupersededKeys =
    {{"prefetch_to_device", "input.prefetch batches are kept ready"},
     {"ckpt_timeout", "checkpoints are written in the background and waited for"}};
inline const Keys kInputKeys = {"input", "num_classes"};
// Durations. Their keys end in one of kLengthUnits: total_steps, ckpt_seconds.
inline const Keys kLengthKeys = {"total", "log_training", "log_images", "ckpt", "keep_ckpt"};
inline const Keys kLengthUnits = {"_steps", "_examples", "_epochs", "_percent", "_seconds"};
inline const Keys kModelKeys = {"model", "model_name"};
inline const Keys kInitKeys = {"init_head_bias"};
inline const Keys kTaskKeys = {"task", "task_kw", "loss", "label_smoothing"};
inline const Keys kStepKeys = {"optax_name",
                               "optax",
                               "schedule",
                               "lr",
                               "lr_mults",
                               "wd",
                               "wd_mults",
                               "grad_clip_norm",
                               "grad_clip_per_example",
                               "mixup",
                               "ema",
                               "bucket_mb",
                               "nan",
                               "nan_limit",
                               "rollback_examples",
                               "grad_accum_steps",
                               "mesh",
                               "sharding_rules",
                               "sharding_strategy",
                               "mesh_allow_split_physical_axes"};
inline const Keys kEvalKeys = {"evals", "batch_size_eval", "best", "early_stop"};

// Marks the keys that predict and eval do not need as read, so that Config::done() only reports
// misspelt keys. These are the keys of kRunKeys, kInputKeys, kInitKeys, kTaskKeys and kStepKeys,
// the superseded ones and the durations.
void ignore_training_keys(const Config& config);
// Ends the reading of a config by predict or eval, for which the keys `others` have no effect
// either. Throws all problems with it, as throw_problems() does. Among them are the keys that were
// not read and that training does not know: they are misspelt.
void finish_reading(const Config& config, const Keys& others);

// Keys whose change leaves the training as it was, as patterns of whole paths: what is logged and
// saved, how fast the run computes, and how an evaluator does its work. A resumed run takes over a
// change of any other key only with --accept-changes.
inline const Keys kHarmlessKeys = {
    "(log_training|log_images|ckpt|keep_ckpt)_(steps|examples|epochs|percent|seconds)",
    "(resume|model_init|pp_modules|model_load|profile|mesh|bucket_mb|compute_threads|deterministic|"
    "graph)(\\..*)?",
    "periodic_action_growth_ratios(\\[.*)?",
    "(sharding_strategy|sharding_rules|prefetch_to_device|ckpt_timeout)",
    "(input\\.)?(threads|prefetch|skip_errors|max_pixels|shuffle_buffer_size|cache_raw|num_"
    "parallel_calls)",
    "input\\.cache\\.(in|gib)",
    "(best|early_stop|max_checkpoints_to_keep|nan|nan_limit|rollback_examples)(\\..*|\\[.*)?",
    "batch_size_eval",
    "evals\\.[^.]*\\.(log_(steps|examples|epochs|percent|seconds)|skip_first|batch_size|threads|"
    "prefetch|skip_errors|cache.*|warmup)"};
// Returns whether the path is one of them.
bool is_harmless(const std::string& key);
// Keys of data sets that say where the files are. Moving the same files changes nothing.
inline const std::string_view kDataPaths =
    ".*\\.(data_dir|fname|file|images|labels|urls|files|folder)(\\[.*)?";

}  // namespace bv

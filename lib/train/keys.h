// The top-level keys of a training config, grouped by the function of Recipe that reads them.
// Recipe marks a group as read if the reader fails half-way. predict, which reads only a few of the
// keys, ignores the others by these lists. A key that is missing here is reported as unknown there.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

namespace bv {

using Keys = std::initializer_list<std::string_view>;

inline const Keys kRunKeys = {"seed",       "precision",  "compute_threads", "resume",
                              "model_init", "model_load", "pp_modules",      "profile"};
// Keys of big_vision configs that have no effect here, each with what replaces it.
inline const std::initializer_list<std::pair<std::string_view, std::string_view>> kSupersededKeys =
    {{"prefetch_to_device", "input.prefetch batches are kept ready"},
     {"ckpt_timeout", "checkpoints are written in the background and waited for"}};
inline const Keys kInputKeys = {"input", "num_classes"};
// Durations. Their keys end in one of kLengthUnits: total_steps, ckpt_seconds.
inline const Keys kLengthKeys = {"total", "log_training", "ckpt", "keep_ckpt"};
inline const Keys kLengthUnits = {"_steps", "_examples", "_epochs", "_percent", "_seconds"};
inline const Keys kModelKeys = {"model", "model_name"};
inline const Keys kInitKeys = {"init_head_bias"};
inline const Keys kTaskKeys = {"task", "loss", "label_smoothing"};
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
                               "grad_accum_steps",
                               "mesh",
                               "sharding_rules",
                               "sharding_strategy",
                               "mesh_allow_split_physical_axes"};
inline const Keys kEvalKeys = {"evals", "batch_size_eval"};

}  // namespace bv

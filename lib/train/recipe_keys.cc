// The meanings of the keys that recipe.cc reads: those of the top level, and of `input`.
#include "lib/config/key_table.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/input/loader/loader.h"
#include "lib/input/quarantine.h"
#include "lib/input/sample_rule.h"

namespace bv {
namespace {

const KeyTable run_keys(
    "",
    {"A config describes one training run: the data, the model, the optimizer, how long to train "
     "and what to measure.",
     "num_classes: 10\n"
     "total_epochs: 20\n"
     "input:\n"
     "  data: {name: digits, split: train}\n"
     "  batch_size: 64\n"
     "  pp: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|keep(\"image\", "
     "\"labels\")\n"
     "model_name: cnn\n"
     "loss: softmax_xent\n"
     "optax_name: scale_by_adam\n"
     "lr: 0.002\n"
     "log_training_steps: 20",
     "train.py main"},
    {{"total_{steps,examples,epochs}", "float", "required",
      "Length of the training in steps, examples or epochs (passes over the training data). Give "
      "exactly one of the three. With 0 nothing is trained: the run only evaluates its initial "
      "weights.",
      "90"},
     {"num_classes", "int >= 0 | 'auto'", "required",
      "Number of classes, which is the number of model outputs. `auto` takes it from the training "
      "data, if the classes or labels are known without reading the images. A smaller number than "
      "in the data is an error; a larger one gives a warning. 0 removes the model's last layer. "
      "With the task `regress` it is the number of targets."},
     {"input", "map", "required",
      "The training data: where the images come from, and how they are preprocessed and batched."},
     {"model_name", "string", "required",
      "Architecture of the model. The command `bvtrain --list models` prints all names.", "vit"},
     {"model", "map", "{}",
      "Arguments of the model, such as its width and depth. Each architecture has its own.",
      "{variant: S/16, pool_type: gap}"},
     {"init_head_bias", "float", "none",
      "Initial value of the biases of the model's last layer. With `loss: sigmoid_xent` and C "
      "classes, about -ln(C) makes the first predictions match the frequency of each class. "
      "Training then does not begin with a huge loss. It is an error if the model has no last "
      "layer. It has no effect if `model_init` sets these biases. With `task: regress` it is in "
      "standard deviations from the mean of the targets (`normalize_targets`): 0 predicts the "
      "mean.",
      "-6.9"},
     {"task", "string", "classify",
      "What the model learns to do. The task `classify` assigns images to classes, and `regress` "
      "predicts numbers.",
      "", "-"},
     {"task_kw", "map", "{}", "Arguments of the task. Each task has its own.",
      "{class_weights: balanced}", "-"},
     {"loss", "string", "= sigmoid_xent; mse if the task is regress",
      "Loss that the training minimizes. The task `regress` has `mse`, `l1` and `huber`. For "
      "classes, choose `softmax_xent` if each image has exactly one class; `sigmoid_xent` treats "
      "each class independently, so an image may have several."},
     {"label_smoothing", "float 0..<1", "0",
      "Fraction of each label that is spread evenly over all classes: with s, a label y becomes y "
      "* (1 - s) + s / classes. It makes predictions less confident. 0 turns it off, 0.1 is "
      "common, and it must be below 1. Evaluators do not smooth labels.",
      "0.1", "-"},
     {"log_training_{steps,examples,epochs,percent,seconds}", "float", "required",
      "Interval between two rows of training metrics, such as the loss and the speed. Give it in "
      "one unit; `percent` is a fraction of the whole run, from 0 to 1. The first two steps and "
      "the last one have a row too; with 0, only the first two.",
      "50"},
     {"ckpt_{steps,examples,epochs,percent,seconds}", "float", "none",
      "Interval between two checkpoints. An interrupted run continues from the newest one. A stop "
      "by a signal saves one too, but a crash of a run without checkpoints loses everything. Older "
      "checkpoints are deleted (see `max_checkpoints_to_keep`), except those of `keep_ckpt_*`. If "
      "the interval is below a few seconds or the disk is slow, some checkpoints are skipped, so "
      "that training does not slow down. The log reports how many. Give it in one unit (`percent` "
      "is a fraction of the run, 0 to 1). Without it, or with 0 or less, only permanent "
      "checkpoints are written.",
      "1000"},
     {"keep_ckpt_{steps,examples,epochs,percent,seconds}", "float", "= only the last step",
      "Interval between two checkpoints that are never deleted, for example to compare the model "
      "at several points of the training. The last step is kept too; with 0, none is. Give it in "
      "one unit (`percent` "
      "is a fraction of the run, 0 to 1).",
      "10000"},
     {"log_images_{steps,examples,epochs,percent,seconds}", "float", "none",
      "Interval at which up to 16 images of the training batch are written to TensorBoard, as "
      "preprocessed by `input.pp`. The report shows the last ones. Give it in one unit.",
      "1000", "-"},
     {"periodic_action_growth_ratios", "list of float", "none",
      "Also writes rows at the steps r, 10 r, 100 r and so on for each factor r (below 10) in the "
      "list. With `ckpt_steps` it saves checkpoints there too. This shows the first steps of a "
      "long run in detail. `log_training` and `ckpt` must be given in steps, examples, epochs or "
      "percent, not in seconds. The name is JAXline's.",
      "[1, 2, 5]", "-"},
     {"max_checkpoints_to_keep", "int 1..4096", "2",
      "Number of newest checkpoints to keep, besides those of `keep_ckpt_*` and `best`. With 1 "
      "there is no other to fall back on if the newest one is damaged.",
      "", "-"},
     {"best", "map | list of map of best", "none",
      "Keeps the checkpoint with the best value of a metric as `ckpt/best`. A list covers several "
      "metrics.",
      "{metric: val/prec@1}", "-"},
     {"early_stop", "map", "none", "Ends the training when a metric has not improved for a while.",
      "{metric: val/loss, patience_epochs: 10}", "-"},
     {"evals", "map of map of evals.*", "{}",
      "Evaluators that measure the model during training, each under a name of your choice. Their "
      "metrics are called `<name>/<metric>`. `<name>: null` turns off one of an included config.",
      "{val: {type: classification, data: {name: digits, split: test}, pp_fn: 'value_range(-1, "
      "1)|onehot(10, key=\"label\", key_result=\"labels\")', log_epochs: 1}}"},
     {"batch_size_eval", "int >= 1", "= input.batch_size",
      "Batch size over all processes of evaluators that do not set their own. It affects speed and "
      "memory, not results."},
     {"model_init", "string", "\"\"",
      "File with initial weights: npz or safetensors of bvtrain, big_vision, timm or Hugging Face, "
      "or the workdir of another run. `W:best` takes its best checkpoint, and `W:ema` its averaged "
      "weights (see docs/weights.md). The file must contain every parameter of the model in the "
      "same shape, unless `model_load.dont_load` names it. Only position embeddings and the "
      "patches of a flexi_vit are resized. Training begins at step 1. A checkpoint in the workdir "
      "and `resume` take precedence.",
      "weights/vit_s16.safetensors"},
     {"resume", "string", "\"\"",
      "Checkpoint of another run to continue from, with its optimizer state and step: a workdir, "
      "or one of its folders `ckpt/step-<n>`. It has no effect once the run's own workdir has a "
      "checkpoint. A weights file sets only the weights.",
      "out/other_run"},
     {"seed", "int", "0",
      "Random seed of the initial weights, the order of the images, augmentation, dropout and "
      "mixup. The same config and seed train the same model: bit for bit on the same kind of "
      "machine with the same numbers of threads and processes, otherwise up to rounding. Train "
      "with several seeds to see how much the results vary."},
     {"precision", "'auto' | 'float32' | 'bf16'", "auto",
      "Precision of matrix multiplications and convolutions. With `bf16` the activations between "
      "these operations are bfloat16 too. The sums of residual branches stay float32, except in "
      "`resnet_cifar` and in a `vit` with `dtype_mm: bfloat16`. Weights, their gradients, "
      "statistics of norms and the loss are always float32. `bf16` needs less memory. It is faster "
      "on GPUs, Intel CPUs with AMX and AMD CPUs with bf16 instructions, and slower on other CPUs. "
      "`auto` uses `bf16` where it is faster.",
      "", "-"},
     {"deterministic", "'auto' | 'true' | 'false'", "auto",
      "Whether results on GPUs are reproducible bit for bit. A continued run then equals an "
      "uninterrupted one. `auto` means `true`. `false` lets CUDA's libraries choose the fastest "
      "algorithms, some of which are nondeterministic. On CPUs results are always reproducible.",
      "", "-"},
     {"graph", "'auto' | 'off'", "auto",
      "Whether a run on GPUs captures its third step as a CUDA graph and replays it from then on, "
      "which saves launch overhead. Results are the same. The graph reserves the memory of a step, "
      "so evaluators need additional memory; `off` needs less. It has no effect on CPUs.",
      "", "-"},
     {"compute_threads", "int 1..4096", "= the cores that this process may use",
      "Number of CPU threads for the training step. By default the processes on one machine share "
      "its cores. A continued run keeps its number unless you give one or the number of processes "
      "changes, because another number changes the last digits of the results.",
      "", "-"},
     {"pp_modules", "list of string", "[]",
      "Has no effect: all preprocessing ops are built in. Accepted so that big_vision's configs "
      "work.",
      "[ops_general, ops_image]"},
     {"prefetch_to_device", "any", "none",
      "Has no effect and gives a warning. Use `input.prefetch`, the number of batches to "
      "prefetch."},
     {"ckpt_timeout", "any", "none",
      "Has no effect and gives a warning. Checkpoints are written in the background, and each "
      "waits for the previous one."}});

const KeyTable input_keys(
    "input",
    {"The training data: where the images come from, and how they are preprocessed and batched.",
     "data: {name: image_folder, data_dir: photos, split: train}\n"
     "batch_size: 256\n"
     "pp: decode_jpeg_and_inception_crop(224)|flip_lr|value_range(-1, 1)|onehot(10, key=\"label\", "
     "key_result=\"labels\")|keep(\"image\", \"labels\")",
     "input_pipeline.py training"},
    {{"data", "map | map of float", "required",
      "The training data set: its source and the part of it to use. Or a mixture of several: names "
      "of your choice with weights, such as `{own: 0.7, public: 0.3}`. Each data set then has a "
      "section of its name below `input`, with `data` and `pp`. The weights are exact: of any 1000 "
      "consecutive examples about 700 come from the first. A data set of weight 0 is left out.",
      "{name: digits, split: train}"},
     {"*", "map of input.*", "none",
      "In a mixture: the data set of this name in `data`, with its own `data` and `pp`.",
      "{data: {name: digits, split: train}, pp: value_range(-1, 1)}"},
     {"keep_only", "list of string", "[]",
      "In a mixture: the features to keep of each example after `pp`, so that all data sets have "
      "the same. By default all are kept.",
      "[image, labels]"},
     {"{pre_filter_fn,post_filter_fn}", "any", "none",
      "An error: functions cannot be given in YAML. List the examples to use in a manifest."},
     {"{pack,tfdata}", "any", "none", "An error: big_vision's text models and TensorFlow need it."},
     {"pp", "string", "\"\"",
      "Preprocessing and augmentation of each image: ops separated by `|`, applied left to right. "
      "They must produce a float `image` of one size for all examples, and the `labels` that the "
      "loss needs.",
      "decode|resize(64)|value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"},
     {"batch_size", "int >= 1", "required",
      "Number of images per step over all processes. It must be a multiple of the number of "
      "processes, and at most the number of training examples. If memory runs out, raise "
      "`grad_accum_steps` before you lower the batch size, because the best learning rate depends "
      "on the batch size."},
     kSampleKey,
     kQuarantineKey,
     {"shuffle", "bool", "true",
      "Whether each epoch has a new random order. With `false` the images are drawn in the order "
      "of the data set, which usually trains worse.",
      "", "-"},
     {"threads", "int 1..4096", "= the cores that this process may use",
      "Number of threads per process that read and preprocess images. By default there is one per "
      "core, and loading and computing share the cores; with a GPU one core is left free. Use more "
      "only if files are slow to read, as over a network, and fewer if loading slows down the "
      "step.",
      "", "-"},
     {"prefetch", "int 1..4096", "2",
      "Number of batches to prefetch, so that slow files do not stall training. Each takes the "
      "memory of one batch."},
     skip_errors_key(
         "Number of different unreadable images, such as broken files, that the run may skip, over "
         "all processes and restarts: `true` allows any number, 0 or `false` none. Another image "
         "replaces each. The file `skipped.jsonl` in the workdir lists them."),
     kMaxPixelsKey,
     {"shuffle_buffer_size", "any", "none",
      "Has no effect and gives a warning. Every epoch is shuffled as a whole; use `shuffle: false` "
      "to keep the order of the data set."},
     {"cache_raw", "any", "none",
      "Has no effect and gives a warning. The operating system caches files that are read again."},
     {"num_parallel_calls", "any", "none",
      "Has no effect and gives a warning. Use `threads`, the number of preprocessing threads."}});

}  // namespace
}  // namespace bv

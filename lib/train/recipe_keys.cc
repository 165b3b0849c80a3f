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
    {"A config says everything about one training run: the data, the model, the optimizer, how "
     "long to train and what to measure.",
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
      "Length of the training, in steps, in examples or in passes over the training data. Give "
      "exactly one of the three. With 0 nothing is trained: the run only evaluates the weights "
      "that it starts from.",
      "90"},
     {"num_classes", "int >= 0 | 'auto'", "required",
      "Number of classes, which is the number of outputs of the model. With `auto` it is that of "
      "the training data, if their classes or labels are known without reading the images. A "
      "number below that of the data is an error, a larger one gives a warning, and 0 leaves out "
      "the model's last layer. With the task `regress` it is the number of targets."},
     {"input", "map", "required",
      "The training data: where the images come from, how each one is prepared, and how they "
      "become batches."},
     {"model_name", "string", "required",
      "Architecture of the model. The command `bvtrain --list models` prints all names.", "vit"},
     {"model", "map", "{}",
      "Arguments of the model, such as its width and depth. Each architecture has its own.",
      "{variant: S/16, pool_type: gap}"},
     {"init_head_bias", "float", "none",
      "Fills the bias of the model's last layer with this number before training. With `loss: "
      "sigmoid_xent` and C classes, about -ln(C) makes the first predictions fit the share of each "
      "class, so that training does not begin with a huge loss. A model without a last layer "
      "refuses it.",
      "-6.9"},
     {"task", "string", "classify",
      "What the model learns to do. The task `classify` assigns images to classes, and `regress` "
      "predicts numbers.",
      "", "-"},
     {"task_kw", "map", "{}", "Arguments of the task. Each task has its own.",
      "{class_weights: balanced}", "-"},
     {"loss", "string", "= sigmoid_xent; mse if the task is regress",
      "Loss that the training minimises. The task `regress` has `mse`, `l1` and `huber`. For "
      "classes, choose `softmax_xent` if each image has exactly one "
      "class; `sigmoid_xent` judges every class for itself, so that an image may have several."},
     {"label_smoothing", "float 0..<1", "0",
      "Share of each label that is spread evenly over all classes: with s, a label y becomes y * "
      "(1 - s) + s / classes. It makes the model less sure of itself; 0 switches it off, 0.1 is "
      "common, and it must be below 1. Evaluators do not smooth labels.",
      "0.1", "-"},
     {"log_training_{steps,examples,epochs,percent,seconds}", "float", "required",
      "Interval between two rows of training metrics, such as the loss and the speed. Give it in "
      "one unit; `percent` is a fraction of the whole run, from 0 to 1. The first two steps and "
      "the last one have a row as well, unless the interval is 0: then only the first two.",
      "50"},
     {"ckpt_{steps,examples,epochs,percent,seconds}", "float", "none",
      "Interval between two checkpoints, from which a run continues after an interruption. A stop "
      "by a signal saves one as well, but a crash of a run without checkpoints loses everything. "
      "Each new one replaces the one before, unless `keep_ckpt_*` keeps that. If "
      "the interval is shorter than a few seconds, or the disk is slow, some checkpoints are left "
      "out, so that training is not slowed down. The log says how many. Give it in one unit "
      "(`percent` is a fraction of the run, 0 to 1); without it, or with 0 or less, only "
      "checkpoints that are kept for good are written.",
      "1000"},
     {"keep_ckpt_{steps,examples,epochs,percent,seconds}", "float", "= only the last step",
      "Interval between two checkpoints that are never deleted, for example to compare the model "
      "at several ages. The last step is kept too; with 0, none is. Give it in one unit (`percent` "
      "is a fraction of the run, 0 to 1).",
      "10000"},
     {"log_images_{steps,examples,epochs,percent,seconds}", "float", "none",
      "Interval at which images of the training batch are shown in TensorBoard, and the last ones "
      "in the report: up to 16, as the ops of `input.pp` have changed them. Give it in one unit.",
      "1000", "-"},
     {"periodic_action_growth_ratios", "list of float", "none",
      "Rows are also written at the steps r, 10 r, 100 r and so on for each factor r of the list, "
      "which is below 10, and checkpoints saved if `ckpt_steps` is given. So a long run shows its "
      "first steps closely. "
      "`log_training` and `ckpt` must be given in steps, examples, epochs or percent, not in "
      "seconds. The name is that of JAXline.",
      "[1, 2, 5]", "-"},
     {"max_checkpoints_to_keep", "int 1..4096", "2",
      "How many of the newest checkpoints are kept, besides those of `keep_ckpt_*` and `best`. "
      "With 1 there is none to fall back on if the newest one gets damaged.",
      "", "-"},
     {"best", "map | list of map of best", "none",
      "Keeps the checkpoint at which a metric was best, as `ckpt/best`. A list keeps the best of "
      "several metrics.",
      "{metric: val/prec@1}", "-"},
     {"early_stop", "map", "none", "Ends the training when a metric has not improved for a while.",
      "{metric: val/loss, patience_epochs: 10}", "-"},
     {"evals", "map of map of evals.*", "{}",
      "Evaluators, which measure the model during the training, each under a name of your choice. "
      "Their metrics are called `<name>/<metric>`. Write `<name>: null` to switch off one that an "
      "included config has.",
      "{val: {type: classification, data: {name: digits, split: test}, pp_fn: 'value_range(-1, "
      "1)|onehot(10, key=\"label\", key_result=\"labels\")', log_epochs: 1}}"},
     {"batch_size_eval", "int >= 1", "= input.batch_size",
      "Number of images that all processes together evaluate at once, in evaluators that do not "
      "say it themselves. It changes the speed and the memory, not the results."},
     {"model_init", "string", "\"\"",
      "File with weights to start from: npz or safetensors of bvtrain, big_vision, timm or "
      "Hugging Face, or the workdir of another run; `W:best` takes its best checkpoint, and "
      "`W:ema` the averaged weights (see docs/weights.md). Every parameter of the model must be in "
      "it with the same shape, unless `model_load.dont_load` names it; only position embeddings, "
      "and the patches of a flexi_vit, are resized. The training begins with step 1. A workdir "
      "that has a checkpoint, and `resume`, take precedence.",
      "weights/vit_s16.safetensors"},
     {"resume", "string", "\"\"",
      "Checkpoint of another run to continue from, with its optimizer state and its step: a "
      "workdir, or one of its folders `ckpt/step-<n>`. It has no effect once the run's own workdir "
      "has a checkpoint. From a file that holds only weights, the weights are taken.",
      "out/other_run"},
     {"seed", "int", "0",
      "Number that all randomness is drawn from: the initial weights, the order of the images, "
      "augmentation, dropout and mixup. The same config with the same seed trains the same model: "
      "bit for bit on the same kind of machine with the same numbers of threads and processes, "
      "otherwise up to rounding. Train with several seeds to see how much the results vary."},
     {"precision", "'auto' | 'float32' | 'bf16'", "auto",
      "Number format of matrix multiplications and convolutions; everything else is always "
      "float32. `bf16` needs less memory, and is faster on GPUs, on Intel's CPUs with AMX and on "
      "AMD's CPUs with bf16 instructions; on other CPUs it is slower. `auto` takes it where it is "
      "faster.",
      "", "-"},
     {"deterministic", "'auto' | 'true' | 'false'", "auto",
      "Whether a run on GPUs repeats bit for bit, as it must for a continued run to be equal to "
      "one that was not interrupted. `auto` means `true`. `false` lets CUDA's libraries choose the "
      "fastest algorithms, some of which add in any order. On CPUs results always repeat.",
      "", "-"},
     {"graph", "'auto' | 'off'", "auto",
      "Whether a run on GPUs records its third step as a CUDA graph and repeats it from then on, "
      "which saves the time to start each kernel. Results are the same. The memory of a step is "
      "kept for the graph, so evaluators need their own; `off` needs less. On CPUs there is no "
      "graph.",
      "", "-"},
     {"compute_threads", "int 1..4096", "= the cores that this process may use",
      "Number of CPU threads that compute the training step. By default the processes on one "
      "machine share its cores. A continued run keeps its number unless you give one or the number "
      "of processes changes, because another number changes the last digits of the results.",
      "", "-"},
     {"pp_modules", "list of string", "[]",
      "Has no effect: all preprocessing ops are built in. It is accepted so that configs of "
      "big_vision work.",
      "[ops_general, ops_image]"},
     {"prefetch_to_device", "any", "none",
      "Has no effect and gives a warning. Use `input.prefetch`, the number of batches that are "
      "kept ready."},
     {"ckpt_timeout", "any", "none",
      "Has no effect and gives a warning. Checkpoints are written in the background, and the next "
      "one waits for the one before."}});

const KeyTable input_keys(
    "input",
    {"The training data: where the images come from, how each one is prepared, and how they become "
     "batches.",
     "data: {name: image_folder, data_dir: photos, split: train}\n"
     "batch_size: 256\n"
     "pp: decode_jpeg_and_inception_crop(224)|flip_lr|value_range(-1, 1)|onehot(10, key=\"label\", "
     "key_result=\"labels\")|keep(\"image\", \"labels\")",
     "input_pipeline.py training"},
    {{"data", "map | map of float", "required",
      "The data set to train on: its source, and the part of it to use. Or a mixture of several: "
      "names of your choice with a weight each, such as `{own: 0.7, public: 0.3}`. Each data set "
      "then has a section of its name below `input`, with `data` and `pp`. The weights are exact: "
      "of any 1000 examples in a row about 700 come from the first. A data set of weight 0 is left "
      "out.",
      "{name: digits, split: train}"},
     {"*", "map of input.*", "none",
      "In a mixture: the data set of this name in `data`, with its own `data` and `pp`.",
      "{data: {name: digits, split: train}, pp: value_range(-1, 1)}"},
     {"keep_only", "list of string", "[]",
      "In a mixture: the features of each example that are kept after `pp`, so that all data sets "
      "have the same ones. By default all are kept.",
      "[image, labels]"},
     {"{pre_filter_fn,post_filter_fn}", "any", "none",
      "An error: functions cannot be given in YAML. List the examples to use in a manifest."},
     {"{pack,tfdata}", "any", "none", "An error: big_vision's text models and TensorFlow need it."},
     {"pp", "string", "\"\"",
      "Preprocessing and augmentation of each image: ops joined by `|`, applied from left to "
      "right. They must make a float `image` of one size for all examples, and the `labels` that "
      "the loss needs.",
      "decode|resize(64)|value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")"},
     {"batch_size", "int >= 1", "required",
      "Number of images in one step, over all processes together. It must be a multiple of the "
      "number of processes, and not more than the training data have. If memory runs out, raise "
      "`grad_accum_steps` before you make it smaller, because the best learning rate depends on "
      "it."},
     kSampleKey,
     kQuarantineKey,
     {"shuffle", "bool", "true",
      "Whether each pass over the training data has a new random order. With `false` the images "
      "come in the order of the data set, which usually trains worse.",
      "", "-"},
     {"threads", "int 1..4096", "= the cores that this process may use",
      "Number of threads of each process that read and preprocess images. By default there is one "
      "for each core, and loading and computing share the cores; beside a GPU one core is left "
      "free. Use more only if files are slow "
      "to read, as over a network, and fewer if loading slows down the step.",
      "", "-"},
     {"prefetch", "int 1..4096", "2",
      "Number of batches that are kept ready, so that slow files do not stop the training. Each "
      "takes the memory of one batch."},
     skip_errors_key("Number of different images that cannot be read, such as broken files, that "
                     "the run may leave out, over all processes and restarts: `true` allows any "
                     "number, 0 or `false` none. Another image takes the place of each. The file "
                     "`skipped.jsonl` in the workdir lists them."),
     kMaxPixelsKey,
     {"shuffle_buffer_size", "any", "none",
      "Has no effect and gives a warning. Every pass is shuffled as a whole; use `shuffle: false` "
      "to keep the order of the data set."},
     {"cache_raw", "any", "none",
      "Has no effect and gives a warning. The operating system keeps files in memory that are read "
      "again."},
     {"num_parallel_calls", "any", "none",
      "Has no effect and gives a warning. Use `threads`, the number of threads that preprocess "
      "images."}});

}  // namespace
}  // namespace bv

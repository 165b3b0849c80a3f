#include "lib/config/familiar_table.h"

namespace bv {

const std::string_view kFamiliarKeys = R"(
# the length of a run
top | epochs num_epochs n_epochs max_epochs nepochs epoch train_epochs training_epochs | total_epochs | the
    length of training is 'total_epochs' here
top | steps num_steps max_steps n_steps train_steps training_steps num_train_steps total_iters iterations
    max_iters max_iter | total_steps | the length of training is 'total_steps' here
top | examples num_examples max_examples | total_examples | the length of training is 'total_examples' here
top | early_stopping earlystopping patience | early_stop | write 'early_stop: {metric: val/loss,
    patience_epochs: 10}'
top | warmup warmup_steps num_warmup_steps | schedule.warmup_steps | this belongs below 'schedule':
    'schedule: {warmup_steps: ...}'
top | warmup_epochs | schedule.warmup_epochs | this belongs below 'schedule': 'schedule: {warmup_epochs: ...}'
top | warmup_percent | schedule.warmup_percent | this belongs below 'schedule': 'schedule:
    {warmup_percent: ...}'
top | cooldown_steps | schedule.cooldown_steps | this belongs below 'schedule': 'schedule:
    {cooldown_steps: ...}'
top | cooldown_epochs | schedule.cooldown_epochs | this belongs below 'schedule': 'schedule:
    {cooldown_epochs: ...}'

# the optimizer
top | optimizer optim opt optimiser optimizer_name optim_name | optax_name | the optimizer is 'optax_name' here,
    its arguments are below 'optax'
top | optimizer_kwargs optimizer_params optim_kwargs optax_kwargs | - | the optimizer's arguments are below
    'optax' here
top | learning_rate base_lr lr0 max_lr init_lr initial_lr learningrate | lr | the learning rate is 'lr' here
top | weight_decay l2 l2_reg decay | wd | write 'wd', the product weight_decay * lr, because 'lr' does not
    multiply 'wd'; for SGD weight_decay * lr / (1 - momentum)
top | momentum | optax.momentum | write 'optax_name: momentum_hp' and 'optax: {momentum: ...}'
top | betas beta1 beta2 b1 b2 adam_beta1 adam_beta2 | optax.b1 | write 'optax: {b1: ..., b2: ...}'
top | eps epsilon adam_eps | optax.eps | write 'optax: {eps: ...}'
top | nesterov | optax.nesterov | write 'optax: {nesterov: true}'
top | clip_grad grad_clip clip_norm gradient_clip max_grad_norm clip_grad_norm gradient_clip_val
    gradient_clipping | grad_clip_norm | the maximum norm of the gradients is 'grad_clip_norm' here
top | accumulate_grad_batches gradient_accumulation_steps grad_accum accum_freq accum_steps accumulation_steps
    grad_accumulation_steps | grad_accum_steps | this is 'grad_accum_steps' here: it splits
    'input.batch_size', the examples of a whole step
top | scheduler lr_scheduler lr_schedule sched decay_type lr_decay | schedule.decay_type | write 'schedule:
    {decay_type: cosine, warmup_steps: ...}'
top | ema_decay model_ema model_ema_decay | ema.decay | write 'ema: {decay: 0.999}'
optax | lr learning_rate | lr | the learning rate is 'lr' at the top level
optax | wd | wd | weight decay is 'wd' at the top level
optax | weight_decay | wd | 'optax_name: adamw' has it; for others write 'wd' at the top level, the
    product weight_decay * lr; for SGD weight_decay * lr / (1 - momentum)
optax | betas beta beta1 beta2 | optax.b1 | these are 'b1' and 'b2' here
optax | epsilon | optax.eps | this is 'eps' here
optax | name type | optax_name | the optimizer is 'optax_name' at the top level
early_stop | patience | early_stop.patience_epochs | write 'patience_epochs', or 'patience_steps'
schedule | warmup | schedule.warmup_steps | write 'warmup_steps', 'warmup_epochs' or 'warmup_percent'
schedule | cooldown | schedule.cooldown_steps | write 'cooldown_steps', 'cooldown_epochs' or 'cooldown_percent'
schedule | type name kind scheduler schedule | schedule.decay_type | this is 'decay_type' here
schedule | lr base base_lr learning_rate max_lr | lr | the learning rate is 'lr' at the top level; a schedule
    multiplies it
schedule | min_lr end_lr lr_min eta_min final_lr | - | a schedule multiplies 'lr': 'decay_type: linear' takes
    'linear_end', 'cosine' ends at 0
schedule | total_steps t_max num_training_steps | - | a schedule spans the whole run, whose length is
    'total_steps' at the top level
schedule | milestones | - | write 'decay_type: stair', 'steps: [...]' and 'mults: [...]'
schedule | gamma step_size | - | write 'decay_type: stair', 'steps: [...]' and 'mults: [...]'

# data
top | batch_size batch bs batchsize train_batch_size global_batch_size batch_size_train | input.batch_size |
    write 'input: {batch_size: ...}', the size over all processes
top | eval_batch_size test_batch_size val_batch_size | batch_size_eval | this is 'batch_size_eval' here
top | data dataset datasets train_data dataset_name data_name | input.data.name | write 'input: {data: {name:
    ..., split: train}}'
top | data_dir data_path dataroot data_root root train_dir dataset_dir | input.data.data_dir | write 'input:
    {data: {name: ..., data_dir: ...}}'
top | train training | - | training is described by 'input', 'optax_name', 'lr', 'schedule' and 'total_epochs'
    at the top level
top | val validation valid test eval evaluation evaluators evaluator | evals | write 'evals: {val: {type:
    classification, data: ..., pp_fn: ...}}'
top | metrics metric | evals | evaluators measure: 'evals: {val: {type: classification, ...}}' gives
    'val/prec@1' and 'val/loss'
top | train_split split | input.data.split | write 'input: {data: {split: ...}}'
top | pp | input.pp | it belongs below 'input'
top | pp_train preprocessing preprocess augmentations augmentation transforms transform augment aug
    data_augmentation | input.pp | preprocessing is one string here, 'input.pp': "flip_lr|..."
top | randaug randaugment auto_augment rand_augment | input.pp | this is an op of 'input.pp' here:
    "...|randaug(2, 10)|..."
top | image_size img_size input_size resolution crop_size image_shape input_shape | input.pp | the size of
    images comes from 'input.pp', e.g. "resize(224)|..."
top | mean std normalize | input.pp | this is an op of 'input.pp' here: "...|value_range(-1, 1)|..." or
    'vgg_value_range'
top | shuffle_buffer_size shuffle | input.shuffle | write 'input: {shuffle: ...}'; every epoch is shuffled as a
    whole
top | classes n_classes num_labels nb_classes n_class num_class | num_classes | this is 'num_classes' here
top | num_workers workers n_workers dataloader_workers threads num_threads | input.threads | write 'input:
    {threads: ...}' for the loader; 'compute_threads' is for the training step
input | dataset name source | input.data.name | write 'data: {name: ..., split: train}'
input | split | input.data.split | write 'data: {name: ..., split: ...}'
input | data_dir data_path path root dir | input.data.data_dir | write 'data: {name: ..., data_dir: ...}'
input | transforms transform augmentations augmentation pp_fn pp_train preprocess preprocessing | input.pp |
    this is 'pp' here, one string: "flip_lr|value_range(-1, 1)|..."
input | num_workers workers | input.threads | this is 'threads' here
input | bs batch train_batch_size | input.batch_size | this is 'batch_size' here
input | image_size img_size resolution | input.pp | the size of images comes from 'pp', e.g. "resize(224)|..."
input | accum_freq | grad_accum_steps | this is 'grad_accum_steps' at the top level: it splits
    'batch_size', the examples of a whole step
input | drop_last | - | the stream of training examples has no end, so no batch is smaller; leave it out
input | pin_memory persistent_workers prefetch_factor | input.prefetch | the loader does this itself; 'prefetch'
    is the number of batches to prefetch
: random_crop | padding pad_if_needed padding_mode | - | pad the images first; for padding=4, write
    'pad_to_shape([40, 40, 3], where="both")|random_crop(32)'
data | path root dir folder data_path | - | the folder of a data set is 'data_dir' here, and the file of an npz is 'fname'
data | train subset | - | the part of a data set is 'split' here, e.g. 'train[:99%]'
data | type | - | the source is 'name' here
data | batch_size | input.batch_size | 'batch_size' belongs next to 'data', not below it

# model and loss
top | arch architecture network net backbone model_type | model_name | the architecture is 'model_name' here,
    its arguments are below 'model'
top | model_kwargs model_args model_config | - | the arguments of the model are below 'model' here
top | flexi | model.flexi | this belongs below 'model' here: 'model: {flexi: {seqhw: {v: [...], p: [...]}}}'
top | variant model_variant | model.variant | write 'model: {variant: ...}'
top | wid xid | - | there is no equivalent; leave it out
top | dropout drop_rate dropout_rate drop | model.dropout | write 'model: {dropout: ...}'
top | drop_path drop_path_rate stochastic_depth stoch_depth | model.stoch_depth | write 'model: {stoch_depth:
    ...}', if the model has it
top | criterion loss_fn loss_function loss_name objective | loss | this is 'loss' here: softmax_xent or
    sigmoid_xent
top | smoothing ls | label_smoothing | this is 'label_smoothing' here
top | mixup_alpha mixup_p | mixup.p | write 'mixup: {p: ...}'
mixup | alpha mixup_alpha | mixup.p | this is 'p' here
top | cutmix cutmix_alpha | - | there is no cutmix; 'mixup: {p: ...}' mixes whole images
top | pretrained weights init_from finetune finetune_from pretrained_weights init_checkpoint checkpoint_path
    load_from model_path | model_init | weights to start from are 'model_init' here
model | name type arch model_name | model_name | the architecture is 'model_name' at the top level
model | num_classes classes n_classes | num_classes | this is 'num_classes' at the top level
model | image_size img_size input_size | input.pp | the size of images comes from 'input.pp', e.g.
    "resize(224)|..."
model | in_channels in_chans input_channels channels | - | the number of channels comes from the images; leave
    it out
model | hidden_size hidden_dim embed_dim dim emb_dim d_model | model.width | this is 'width' here
model | num_layers layers n_layers num_hidden_layers | model.depth | this is 'depth' here
model | heads n_heads num_attention_heads | model.num_heads | this is 'num_heads' here
model | patch | model.patch_size | this is 'patch_size' here, e.g. [16, 16]
model | mlp_ratio | model.mlp_dim | give 'mlp_dim', the number of hidden features
model | drop_rate dropout_rate drop | model.dropout | this is 'dropout' here
model | pretrained | model_init | weights to start from are 'model_init' at the top level

# logging, checkpoints, machines
top | log_steps log_interval log_every log_every_n_steps log_freq print_freq logging_steps log_every_steps |
    log_training_steps | this is 'log_training_steps' here
top | eval_steps eval_every eval_interval val_check_interval log_eval_steps eval_freq evaluate_every
    check_val_every_n_epoch | - | each evaluator has its own: 'evals: {val: {log_steps: ...}}' or 'log_epochs'
top | log_seconds | log_training_seconds | this is 'log_training_seconds' here
top | log_epochs | log_training_epochs | this is 'log_training_epochs' here
top | log_examples | log_training_examples | this is 'log_training_examples' here
top | checkpoint checkpoints checkpointing save_every save_steps save_interval checkpoint_steps checkpoint_every
    checkpoint_interval save_freq ckpt ckpt_every | ckpt_steps | checkpoints are saved every 'ckpt_steps' here
top | keep_checkpoint_steps keep_ckpt | keep_ckpt_steps | this is 'keep_ckpt_steps' here
top | save_total_limit max_to_keep keep_last keep_checkpoint_max save_top_k | max_checkpoints_to_keep | the
    newest checkpoints are kept, as many as 'max_checkpoints_to_keep'; 'best' keeps the best one, and
    'keep_ckpt_steps' keeps some permanently
top | output_dir out_dir outdir output save_dir log_dir logdir checkpoint_dir workdir work_dir run_dir exp_dir
    default_root_dir | - | the folder of a run is given by '--workdir DIR'
top | random_seed rng_seed manual_seed | seed | this is 'seed' here
top | device devices gpus gpu accelerator num_gpus n_gpu cuda world_size num_nodes | - | the command line sets
    it: '--devices'
top | strategy distributed ddp fsdp | sharding_strategy | '--devices' and '--nnodes' of the command line start
    the processes; 'sharding_strategy' shards state across them
top | amp fp16 bf16 mixed_precision use_amp dtype half autocast fp32 | precision | this is 'precision: bf16' or
    'precision: float32' here
top | compile torch_compile | - | there is no equivalent: a step is compiled code; leave it out
top | cudnn_benchmark | deterministic | cuDNN benchmarks its algorithms with 'deterministic: false'
top | wandb use_wandb wandb_project tensorboard logger | - | every run writes metrics.jsonl, TensorBoard events
    and report.html into its workdir; leave it out
top | remat gradient_checkpointing grad_checkpointing | model.remat_policy | write 'model: {remat_policy:
    nothing_saveable}' in models that have it
top | defaults _base_ base inherit extends | include | another file is included by 'include: base.yaml'
top | fewshot | - | this is an evaluator here: 'evals: {fewshot: {type: fewshot_lsr, ...}}'
evaluator | loss criterion | - | this is 'loss_name' in evaluators of type 'classification'
evaluator | pp transforms transform preprocess | - | this is 'pp_fn' here
evaluator | name | - | the kind of evaluator is 'type' here
evaluator | dataset | - | this is 'data: {name: ..., split: ...}' here
evaluator | split | - | write 'data: {name: ..., split: ...}'
evaluator | every interval eval_steps eval_every steps log_every | - | this is 'log_steps' or 'log_epochs' here
evaluator | epochs | - | this is 'log_epochs' here
evaluator | metrics metric | - | 'type' decides which metrics are measured; leave it out
evaluator | num_workers workers | - | this is 'threads' here

# JAXline; its other keys are among the lines above (docs/from-jaxline.md)
top | experiment_kwargs | - | its contents are at the top level here: 'model', 'input', 'optax', ...
top | interval_type logging_interval_type checkpoint_interval_type | - | the unit is part of the key here:
    'ckpt_steps' or 'ckpt_seconds', 'log_training_steps' or 'log_training_seconds'
top | save_checkpoint_interval | ckpt_seconds | this is 'ckpt_seconds' or 'ckpt_steps' here
top | log_tensors_interval log_train_data_interval | log_training_seconds | this is 'log_training_seconds' or
    'log_training_steps' here
top | log_async | - | a separate thread always writes the metrics; leave it out
top | log_all_hosts | - | only process 0 writes the metrics, and each process has a text log, log/rank-<r>.log;
    leave it out
top | train_checkpoint_all_hosts best_checkpoint_all_hosts | - | process 0 writes the checkpoint, and each
    process its shard of sharded state; leave it out
top | log_all_train_data | - | 'log_training_steps: 1' writes a row for every step
top | save_initial_train_checkpoint | - | step 0 is not saved, unless 'best' evaluates it;
    'ckpt_steps' saves from step 1 on; leave it out
top | eval_initial_weights | - | evaluators with an interval run before training, unless they have
    'skip_first: true'; leave it out
top | one_off_evaluate | - | 'bvtrain eval --workdir DIR' evaluates the checkpoints of a run
top | random_mode_train random_mode_eval | - | there is no choice of random modes: each example has its own
    random numbers, from 'seed' and its position; leave it out
top | legacy_random_seed_behavior | - | all random numbers depend only on 'seed'; leave it out
top | best_model_eval_metric metric_for_best_model monitor eval_metric | best.metric | write 'best: {metric:
    val/prec@1}'
top | best_model_eval_metric_higher_is_better greater_is_better | best.higher_is_better | write 'best: {metric:
    val/loss, higher_is_better: false}'; it may be omitted if the metric's name implies it
top | save_best save_best_only load_best_model_at_end | - | write 'best: {metric: val/prec@1, higher_is_better:
    true}'
top | restore_path restore_dir | resume | this is 'resume' here, or 'model_init' for only the weights

# timm's train.py: words that are a key as well as a flag
top | layer_decay | - | there is no layer-wise decay; 'lr_mults' scales the learning rate by name
top | min_lr warmup_lr | - | a schedule multiplies 'lr': its warm-up begins at 0, 'decay_type: linear' ends at
    'end', and 'cosine' ends at 0
top | decay_epochs decay_milestones decay_rate | - | write 'schedule: {decay_type: stair, steps: [...], mults:
    [...]}'
top | clip_mode | - | gradients are clipped by their norm only, 'grad_clip_norm'
top | hflip | - | this is the op 'flip_lr' of 'input.pp'; its probability is 0.5
top | vflip color_jitter reprob remode recount aug_splits jsd_loss drop_block | - | there is no such
    augmentation; 'bvtrain --list ops' prints all
top | cutmix_minmax mixup_prob mixup_switch_prob mixup_mode mixup_off_epoch | - | there is no cutmix, and
    'mixup: {p: ...}' has no other arguments
top | sync_bn dist_bn split_bn | - | batch norm uses the statistics of the whole batch; leave it out
top | channels_last torchscript torchcompile fuser fast_norm no_prefetcher pin_mem use_multi_epochs_loader
    log_wandb | - | there is no equivalent; leave it out
top | tta | - | evaluators have it: 'evals: {val: {tta: {mirror: true}, ...}}'

# flags of the command line. Keys of the top level are looked up above.
flag | output_dir out_dir outdir output save_dir log_dir logdir checkpoint_dir work_dir run_dir exp_dir
    default_root_dir out | - | the folder of a run is '--workdir DIR'
flag | cfg conf config_file configs config_path | - | the YAML file of a run is '--config FILE'
flag | device gpus gpu accelerator num_gpus n_gpu ngpus cuda world_size nproc_per_node nprocs num_processes
    no_cuda | - | processes and devices are '--devices', e.g. 'cpu:4', 'cuda:all'
flag | num_nodes nodes | - | the number of hosts is '--nnodes'
flag | master_addr master_port dist_url rdzv_endpoint coordinator_address | - | the hosts connect to '--rendezvous
    HOST:PORT'
flag | override overrides opts | - | '--set KEY=VALUE' replaces a value of the config
flag | eval evaluate eval_only test test_only validate | - | 'bvtrain eval --workdir DIR' evaluates the
    checkpoints of a run, and 'bvtrain predict --workdir DIR' applies the newest one to data
flag | model arch | model_name | -
flag | pp | input.pp | -
flag | debug check validate_only | - | '--dry-run' checks everything, runs one step and keeps nothing of it
flag | jaxline_mode | - | one run trains and evaluates; 'bvtrain eval --workdir DIR --follow' evaluates during
    training, and 'bvtrain predict' applies a checkpoint to data
flag | jaxline_post_mortem | - | write --debug-on-crash: a process that crashes waits for gdb
flag | jaxline_disable_pmap_jit jaxline_tpu_driver | - | there is no equivalent here; leave it out
flag | jaxline_ensure_tpu | - | write --devices cuda: a run without a GPU then ends with an error

# flags of timm's train.py; its other flags are among the lines above (docs/from-timm.md)
flag | val_split | - | an evaluator has its own data: 'evals: {val: {data: {name: ..., split: ...}, ...}}'
flag | pretrained | model_init | -
flag | initial_checkpoint | model_init | -
flag | img_size input_size mean std crop_pct interpolation train_interpolation image_size resolution crop_size
    image_shape input_shape normalize pp_train preprocessing preprocess augmentations augmentation transforms
    transform augment aug data_augmentation | - | this belongs to the ops of 'input.pp' and
    'evals.NAME.pp_fn': "...|inception_crop(224)|vgg_value_range|..."
flag | validation_batch_size | batch_size_eval | -
flag | gp | - | write --set model.pool_type=gap, map or tok, for vit
flag | drop | - | timm drops inputs of the last layer: write --set model.dropout=..., for cnn; the 'dropout' of vit is
    much stronger, as it acts in every block
flag | drop_path | - | write --set model.stoch_depth=..., for mlp_mixer; other models do not have it
flag | cooldown_epochs | - | the run has no extra epochs; 'schedule: {cooldown_epochs: ...}' lowers the learning rate
    to 0 in its last epochs
flag | lr_base | - | write --set lr=..., for 256 examples, and --set schedule.scale_with_batchsize=true; timm
    multiplies the rate of Adam, AdamW and Adafactor by the square root of batch / 256 instead
flag | start_epoch epoch_repeats | - | there is no equivalent; leave it out
flag | class_map | - | 'data: {name: image_folder, classes: [...]}' lists the folders in the order of their numbers
flag | b | input.batch_size | -
flag | vb | batch_size_eval | -
flag | j | input.threads | -
flag | grad_checkpointing gradient_checkpointing remat | - | write --set model.remat_policy=nothing_saveable, for models that have it
flag | opt_eps | optax.eps | -
flag | weight_decay l2 l2_reg decay wd | - | write --set wd=..., the product weight_decay * lr, because 'lr' does not
    multiply 'wd'; for SGD weight_decay * lr / (1 - momentum)
flag | grad_accum_steps accumulate_grad_batches gradient_accumulation_steps grad_accum accum_freq
    accum_steps accumulation_steps grad_accumulation_steps | - | write --set grad_accum_steps=...: it
    splits 'input.batch_size', the examples of a whole step
flag | opt_betas betas beta1 beta2 b1 b2 adam_beta1 adam_beta2 | - | write --set optax.b1=0.9 --set optax.b2=0.999
flag | patience_epochs | - | there is no schedule that waits for a plateau; 'early_stop' ends a run
flag | no_aug | - | all augmentation is in 'input.pp'
flag | scale ratio | - | the op 'inception_crop(224, area_min=8)' of 'input.pp' has percentages of the area; its
    ratio is 0.75 to 1.33
flag | aa randaug randaugment rand_augment auto_augment | - | this is an op of 'input.pp' here: "...|randaug(2, 10)|..."
flag | mixup | mixup.p | -
flag | bce_loss | - | write --set loss=sigmoid_xent, which sums over the classes; timm's is their mean
flag | model_ema | - | write --set ema.decay=0.9998
flag | checkpoint_hist | max_checkpoints_to_keep | -
flag | recovery_interval | ckpt_steps | -
flag | eval_metric | - | write --set 'best={metric: val/prec@1}', with the name of an evaluator before the '/'
flag | experiment | - | the folder of a run is '--workdir DIR'
flag | amp amp_dtype fp16 bf16 half autocast use_amp | - | write --set precision=bf16; by default it is used
    where it is faster than float32
flag | fp32 | - | write --set precision=float32
flag | local_rank | - | '--devices', torchrun, slurm or mpirun start the processes

# other words of `top` for which --set KEY=VALUE with the same value would mean something else
flag | val validation valid evaluation evaluators evaluator metrics metric | - | the config lists what is
    evaluated: 'evals: {val: {type: classification, data: ..., pp_fn: ...}}' gives 'val/prec@1' and 'val/loss'
flag | cudnn_benchmark | - | cuDNN benchmarks its algorithms with --set deterministic=false
flag | strategy distributed ddp fsdp | - | '--devices' and '--nnodes' start the processes; --set
    sharding_strategy=zero1, zero2 or fsdp shards state across them
)";

const std::string_view kFamiliarNames = R"(
loss | cross_entropy crossentropy crossentropyloss cross_entropy_loss ce xent nll nllloss softmax
    categorical_crossentropy sparse_categorical_crossentropy softmax_cross_entropy | softmax_xent | -
loss | bce bceloss bcewithlogitsloss bce_with_logits binary_cross_entropy binary_crossentropy sigmoid
    sigmoid_cross_entropy | sigmoid_xent | -
optimizer | momentum sgd_momentum | momentum_hp | -
optimizer | adafactor | scale_by_adafactor | write 'scale_by_adafactor', which is big_vision's and
    timm's 'adafactorbv'; for timm's 'adafactor' add 'optax: {momentum: 0, clipping_threshold: 1.0,
    beta2_cap: 0.9999999, min_dim_size_to_factor: 17}'
optimizer | adafactorbv adafactor_bv | scale_by_adafactor | -
optimizer | lamb lion nadam radam adamax | adamw | there is no such optimizer; 'adamw' is the closest
optimizer | rmsprop adagrad adadelta shampoo | scale_by_adam | there is no such optimizer; 'scale_by_adam' also
    scales the step of each parameter
optimizer | lars | momentum_hp | there is no such optimizer; 'momentum_hp' is SGD with momentum
model | resnet resnet18 resnet34 resnet50 resnet101 resnet152 resnetv2 | bit | ResNets are 'model_name: bit'
    with 'model: {depth: 50}', and 'resnet_cifar' for small images
model | vit_b_16 vit_b_32 vit_l_16 vit_base_patch16_224 vit_small_patch16_224 vit_tiny_patch16_224 deit vit_base
    vit_small vit_tiny vit_large | vit | write 'model_name: vit' and 'model: {variant: ...}': Ti/16, S/16, B/16 or L/16
model | mixer mlpmixer | mlp_mixer | -
model | convnet simple_cnn lenet | cnn | -
decay_type | step multistep multisteplr steplr piecewise piecewise_constant | stair | write 'decay_type: stair',
    'steps: [...]' and 'mults: [...]'
decay_type | constant const none flat | stair | a constant rate is 'decay_type: stair' without steps
decay_type | cosineannealinglr cosine_annealing cosine_decay cosine_with_warmup warmup_cosine | cosine | -
decay_type | poly polynomial_decay | polynomial | -
decay_type | linear_decay linearlr | linear | -
decay_type | inverse_sqrt rsqrt_decay inv_sqrt | rsqrt | -
decay_type | exponential exponentiallr exp | rsqrt | there is no such decay; 'stair' lowers the rate by factors
data source | imagefolder folder image_dir images directory files | image_folder | -
data source | fake random fakedata dummy | synthetic | -
data source | numpy | npz | -
data source | tfrecords tf_record | tfrecord | -
data source | tar tars wds shards | webdataset | -
data source | tsv | csv | a TSV file is 'name: csv' with 'delimiter: tab'
data source | ndjson json_lines json | jsonl | -
data source | parquet lmdb hdf5 h5 | image_folder | this format is not supported; convert it to 'image_folder'
    or 'webdataset'
op | totensor to_tensor normalize normalise to_float rescale convertimagedtype | value_range | 'value_range(-1,
    1)' makes float images; 'vgg_value_range' subtracts ImageNet's mean and divides by its standard deviation
op | randomhorizontalflip hflip random_flip horizontal_flip flip random_flip_left_right | flip_lr | -
op | randomresizedcrop random_resized_crop | inception_crop | -
op | centercrop center_crop | central_crop | -
op | randomcrop | random_crop | write 'random_crop(32)'; with PyTorch's padding=4 it is
    'pad_to_shape([40, 40, 3], where="both")|random_crop(32)'
op | pad | pad_to_shape | write 'pad_to_shape([40, 40, 3], where="both")' to pad 32x32 images by 4
    pixels on each side
op | randaugment rand_augment | randaug | write 'randaug(2, 3)' for torchvision's RandAugment(2, 9):
    divide its magnitude by 3
op | randomaffine randomrotation rotate | random_affine | -
op | one_hot to_onehot | onehot | -
evaluator | accuracy acc top1 classify classifier eval validation | classification | -
evaluator | fewshot few_shot linear_probe | fewshot_lsr | -
evaluator | knn_classifier nearest_neighbors k_nn | knn | -
evaluator | ece | calibration | -
task | classification image_classification | classify | -
task | multilabel multi_label multilabel_classification | classify | several classes per image are 'task:
    classify' with 'task_kw: {multilabel: true}' and 'loss: sigmoid_xent'
precision | float16 fp16 f16 half 16 bfloat16 amp mixed | bf16 | -
precision | fp32 f32 float full single 32 | float32 | -
)";

const std::string_view kKeyPlaces = R"(
top | total_steps total_epochs total_examples best early_stop seed precision compute_threads resume model_init model_load
    profile num_classes evals input batch_size_eval model_name optax_name optax schedule lr lr_mults wd wd_mults
    loss task label_smoothing mixup ema grad_clip_norm grad_accum_steps bucket_mb sharding_strategy
    init_head_bias ckpt_steps ckpt_epochs ckpt_seconds keep_ckpt_steps max_checkpoints_to_keep
    log_training_steps log_training_seconds
input | pp batch_size shuffle prefetch threads skip_errors data
data | data_dir split
schedule | decay_type warmup_steps warmup_epochs warmup_percent cooldown_steps cooldown_percent
model | variant width depth mlp_dim num_heads patch_size posemb rep_size pool_type widths dense
optax | b1 b2 eps mu_dtype nesterov
evaluator | pp_fn loss_name log_steps log_epochs log_percent log_seconds pred skip_first prefix
)";

}  // namespace bv

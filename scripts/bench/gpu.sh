#!/usr/bin/env bash
# scripts/bench/gpu.sh pack FOLDER | STAGE...: proves and measures bvtrain on a machine with a GPU. That
# machine needs python3 with torch 2.11 for CUDA 13, but no network and no build.
#
# On the machine that builds, with nvcc:
#   scripts/bench/gpu.sh pack .gpu     # .gpu/gpu.sh and .gpu/pack.txz; JPEGS=FOLDER takes images along
# On the machine with the GPU, each within ten minutes:
#   bash .gpu/gpu.sh env test      # the machine; CUDA tests, curves of CPU and GPU, same bits, exact resume
#   bash .gpu/gpu.sh ours          # steps of each model, loader, start-up, snapshot of a checkpoint
#   bash .gpu/gpu.sh peers         # the same in PyTorch: eager, torch.compile, timm where it is installed
#   bash .gpu/gpu.sh prof          # kernels of a step by kind, and what bounds the device
#   bash .gpu/gpu.sh nccl          # with two GPUs or more: collectives, and training on all of them
#   bash .gpu/gpu.sh table         # all results so far as JSON and as a table, with ratios to the peers and
#                                  # a verdict for each goal
#
# Each result is a line that begins with PASS, FAIL or the kind of measurement. $OUT (or /tmp) gets them
# in gpu.log, with all output. DEVICE=cpu tries the script without a GPU.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-/tmp} device=${DEVICE:-cuda}
log=$out/gpu.log

pack() {
  set -e
  local folder=${1:?where the pack goes} work
  work=$(mktemp -d)
  BVTRAIN_CUDA=1 "$here/../portable.sh" "$work/pack" test_cuda step_bench
  [[ -e $work/pack/libbvtrain_cuda.so ]] || { echo "gpu.sh: there is no CUDA plug-in to pack" >&2; exit 2; }
  cp "$here"/gpu/*.py "$work/pack/"
  [[ -z ${JPEGS:-} ]] || cp -r "$JPEGS" "$work/pack/jpeg"
  mkdir -p "$folder"
  tar -C "$work/pack" -c . | xz -6 -T0 >"$folder/pack.txz"
  cp "$here/gpu.sh" "$folder/"
  rm -rf "$work"
  echo "packed $(du -sk "$folder" | cut -f1) KiB in $folder"
}
if [[ ${1:-} == pack ]]; then pack "${2:-}"; exit; fi

if [[ -e $here/pack.txz ]]; then  # unpacked once a machine
  unpacked=/tmp/bvtrain-gpu-$(sha1sum <"$here/pack.txz" | cut -c1-12)
  [[ -e $unpacked/run ]] || { mkdir -p "$unpacked" && python3 -c \
    'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/pack.txz" "$unpacked"; }
  here=$unpacked
fi
[[ -x $here/run ]] || { echo "gpu.sh: there is no pack here; make one with 'gpu.sh pack FOLDER'" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '%s\n' "$*" | tee -a "$log"; }

# try NAME SECONDS COMMAND...: PASS or FAIL, with the line of its output that says why.
try() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  timeout "$limit" "$@" >"$work/out" 2>&1 || code=$?
  { echo "--- $name: $*"; cat "$work/out"; } >>"$log"
  if ((code == 0)); then
    say "PASS $name ($((SECONDS - begin)) s)"
  else
    say "FAIL $name: exit $code: $(grep -aiE 'error|FAIL|expected|not run' "$work/out" | tail -1 | cut -c1-220)"
  fi
  return $code
}

# step SECONDS ARGS...: the lines of step_bench.
step() {
  local limit=$1 code=0
  shift
  timeout "$limit" "$here/run" step_bench --device "$device" "$@" >"$work/out" 2>"$work/err" || code=$?
  cat "$work/out" "$work/err" >>"$log"
  grep -aE '^(step|state|twice|profile|FAIL|  )' "$work/out" ||
    say "FAIL step_bench $* exit $code: $(tail -1 "$work/err" | cut -c1-200)"
  [[ " $* " != *" --twice "* || " $* " == *" --deterministic false "* ]] ||
    say "$( ((code == 0)) && echo PASS || echo FAIL) same bits twice: $*"
  grep -aiE 'warning' "$work/err" | sort -u | head -2 | cut -c1-200 | sed 's/^/  warned: /'
}

peer() { timeout "$1" python3 "$here/peer.py" "${@:2}" 2>>"$log" | tee -a "$log" || say "FAIL peer ${*:2}"; }

vit_b=(--name vit_b16 --model vit --keys '{variant: B/16}')
vit_b_384=(--name vit_b16@384 --model vit --keys '{variant: B/16}' --size 384)
vit_s=(--name vit_s16 --model vit --keys '{variant: S/16}')
vit_l=(--name vit_l16 --model vit --keys '{variant: L/16}')
mixer=(--name mixer_b16 --model mlp_mixer --keys '{variant: B/16}')
mixer_sd=(--name mixer_b16_sd --model mlp_mixer --keys '{variant: B/16, stoch_depth: 0.1}')
bit=(--name resnetv2_50x1 --model bit --keys '{depth: 50, width: 1}')
paper=(--name bit_paper_50x1 --model bit_paper --keys '{depth: 50, width: 1}')
cnn=(--name cnn28 --model cnn --keys '{}' --size 28 --channels 1 --classes 10
  --train '{optax_name: scale_by_adam, lr: 0.001, wd: 0.0001}')

stage_env() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm --format=csv,noheader 2>/dev/null |
    sed 's/^/gpu  /' | tee -a "$log"
  say "host $(nproc) cores, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs), $(. /etc/os-release; echo "$PRETTY_NAME")"
  python3 - <<'P' 2>/dev/null | tee -a "$log"
import torch
def version(name):
    try: return __import__(name).__version__
    except Exception: return "none"
print(f"py   torch {torch.__version__} cudnn {torch.backends.cudnn.version()} timm {version('timm')} triton {version('triton')}")
P
  try "bvtrain --version" 60 "$here/run" bvtrain --version
  [[ $device == cpu ]] || try "the libraries of libbvtrain_cuda.so" 60 libraries
}

# Fails with the names of libraries that the plug-in needs and this machine lacks.
libraries() {
  local missing
  missing=$(LD_LIBRARY_PATH=$("$here/run" --libraries) ldd "$here/libbvtrain_cuda.so" | awk '/not found/ { print $1 }' | xargs)
  [[ -z $missing ]] || { echo "error: not found: $missing"; return 1; }
}

# train DEVICE CONFIG WORKDIR --set ...
train() {
  local on=$1 config=$2 workdir=$3
  shift 3
  try "${config%.yaml} $workdir" 200 "$here/run" bvtrain --devices "$on" --config "$here/configs/$config" \
    --workdir "$work/$workdir" --set total_epochs=null --set evals=null --set log_training_steps=1 "$@"
}

same_state() {  # NAME FOLDER FOLDER
  if cmp -s "$2/state-00000-of-00001.safetensors" "$3/state-00000-of-00001.safetensors"; then
    say "PASS $1: same bits"
  else
    say "FAIL $1: DIFFERENT BITS"
  fi
}

# An evaluation in a process of its own gives the rows of the run, and predictions are those of a CPU.
evaluate_and_predict() {
  local run=$work/evaluated on
  try "digits_vit with evaluators" 200 "$here/run" bvtrain --devices "$device" --config "$here/configs/digits_vit.yaml" \
    --workdir "$run" --set total_epochs=null --set total_steps=60 --set ckpt_steps=20 --set keep_ckpt_steps=20 \
    --set evals.test.log_epochs=null --set evals.test.log_steps=20 || return
  try "eval on $device" 100 "$here/run" bvtrain eval --workdir "$run" --devices "$device" || return
  python3 "$here/tally.py" evaluations "eval on $device" "$run/metrics.jsonl" "$run/eval/metrics.jsonl" | tee -a "$log"
  for on in cpu "$device"; do
    try "predict on $on" 60 "$here/run" bvtrain predict --workdir "$run" --eval test --devices "$on" \
      --set precision=float32 --output "$run/$on.npz" || return
  done
  python3 "$here/tally.py" logits "predict on cpu and $device" "$run/cpu.npz" "$run/$device.npz" 1e-4 | tee -a "$log"
}

stage_test() {
  local steps=200 name model precision
  if [[ $device == cpu ]]; then steps=20; else export BVTRAIN_REQUIRE_CUDA=1; fi
  "$here/run" test_cuda --list-test-names-only 2>/dev/null | while read -r name; do
    [[ -z $name ]] || try "test_cuda: $name" 240 "$here/run" test_cuda "${name//,/\\,}"
  done
  for model in digits_cnn digits_vit; do
    for precision in float32 bf16; do
      local p=$model.$precision half=$((steps / 2))
      local common=(--set total_steps=$steps --set precision=$precision --set ckpt_steps=$half --set keep_ckpt_steps=$half)
      train cpu $model.yaml $p.cpu "${common[@]}" || continue
      train "$device" $model.yaml $p.gpu "${common[@]}" || continue
      python3 "$here/tally.py" curves "$p on cpu and $device" "$work/$p".{cpu,gpu}/metrics.jsonl $precision | tee -a "$log"
      train "$device" $model.yaml $p.again "${common[@]}" --set "resume=$work/$p.gpu/ckpt/step-$half" || continue
      same_state "$p resumed" "$work/$p".{gpu,again}/ckpt/step-$steps
    done
  done
  evaluate_and_predict
  [[ $device == cpu ]] && return
  step 90 "${vit_b[@]}" --batch 64 --twice 6
  step 90 "${vit_b_384[@]}" --batch 16 --twice 6
  step 90 "${vit_b[@]}" --batch 64 --twice 6 --deterministic false
  step 60 "${mixer_sd[@]}" --batch 64 --twice 4
  step 60 "${bit[@]}" --batch 32 --twice 3 --precision float32
  step 60 "${bit[@]}" --batch 32 --twice 3
  step 60 "${cnn[@]}" --batch 128 --twice 20
}

stage_ours() {
  local quick=(--seconds 3) n
  if [[ $device == cpu ]]; then step 60 "${cnn[@]}" --batch 64 --seconds 1 --rounds 1; return; fi
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --state 1
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --feed pinned
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --feed pageable
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --deterministic false
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --deterministic false --sdpa flash
  step 60 --name vit_b16_bf16_activations --model vit --keys '{variant: B/16, dtype_mm: bfloat16}' --batch 256 "${quick[@]}"
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --graph off
  step 60 "${vit_b[@]}" --batch 32 "${quick[@]}"
  step 60 "${vit_b[@]}" --batch 32 "${quick[@]}" --graph off
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}"
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}" --feed pinned
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}" --graph off
  step 60 "${vit_l[@]}" --batch 128 "${quick[@]}"
  step 60 "${mixer[@]}" --batch 256 "${quick[@]}"
  step 60 "${mixer_sd[@]}" --batch 256 "${quick[@]}"
  step 90 "${bit[@]}" --batch 256 "${quick[@]}"
  step 90 "${bit[@]}" --batch 128 "${quick[@]}" --precision float32
  step 90 "${paper[@]}" --batch 256 "${quick[@]}"
  for n in 128 512; do
    step 40 "${cnn[@]}" --batch $n "${quick[@]}"
    step 40 "${cnn[@]}" --batch $n "${quick[@]}" --graph off
    step 40 "${cnn[@]}" --batch $n "${quick[@]}" --feed pinned --every 50
    step 40 "${cnn[@]}" --batch $n "${quick[@]}" --feed pinned --every 1
  done
  [[ -d $here/jpeg ]] && jpegs
}

# The loader and whole runs on JPEG files: each file 32 times, its class is what precedes "_".
jpegs() {
  local file class k variant pp steps code begin
  for file in "$here"/jpeg/*; do
    class=$(basename "$file" | cut -d_ -f1)
    mkdir -p "$work/jpeg/train/$class"
    for ((k = 0; k < 32; ++k)); do cp -l "$file" "$work/jpeg/train/$class/$k.jpg" 2>/dev/null || cp "$file" "$work/jpeg/train/$class/$k.jpg"; done
  done
  for variant in B/16 S/16; do
    [[ $variant == B/16 ]] && pp="" || pp="|randaug(2,10)"
    cat >"$work/jpeg.yaml" <<Y
num_classes: 1000
total_steps: 100000
input:
  data: {name: image_folder, data_dir: $work/jpeg, split: train}
  batch_size: 256
  pp: decode_jpeg_and_inception_crop(224)|flip_lr$pp|value_range(-1, 1)|onehot(1000, key="label", key_result="labels")|keep("image", "labels")
model_name: vit
model: {variant: $variant}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
wd: 0.0001
log_training_steps: 50
Y
    timeout 100 "$here/run" bvtrain bench --devices "$device" --config "$work/jpeg.yaml" --seconds 4 2>>"$log" |
      sed "s|^|jpeg vit $variant$pp: |" | tee -a "$log"
  done
  for steps in 1 3; do
    begin=$EPOCHREALTIME code=0
    timeout 60 "$here/run" bvtrain --devices "$device" --config "$work/jpeg.yaml" --set model.variant=B/16 \
      --set total_steps=$steps >>"$log" 2>&1 || code=$?
    say "start vit_b16: $(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }') s to the end of a process of $steps step(s), exit $code"
  done
}

stage_peers() {
  local model n mode
  for model in vit_b16 vit_s16 mixer_b16 resnetv2_50x1 resnet50; do
    peer 60 --model $model --batch 256 --mode eager --seconds 3
    peer 150 --model $model --batch 256 --mode compile --seconds 3
    [[ -z ${MAX:-} ]] || peer 400 --model $model --batch 256 --mode max --seconds 3
  done
  for n in 128 512; do
    for mode in eager compile reduce; do peer 60 --model cnn28 --batch $n --mode $mode --seconds 3; done
  done
}

# Every GPU of the machine. The curve of all of them is that of one, because the batch is the same.
stage_nccl() {
  local count=${GPUS:-$(nvidia-smi --list-gpus 2>/dev/null | wc -l)} one=cuda:0 all=cuda:all model=digits_cnn half=100 p precision
  [[ $device == cpu ]] && count=2 one=cpu all=cpu:2 half=10
  ((count > 1)) || { say "nccl: not run, this machine has $count GPU"; return; }
  timeout 120 "$here/run" bvtrain bench collectives --devices $all 2>>"$log" | tee -a "$log" || say "FAIL bench collectives"
  for precision in float32 bf16; do
    p=$model.$precision
    local common=(--set total_steps=$((2 * half)) --set precision=$precision --set ckpt_steps=$half --set keep_ckpt_steps=$half)
    train $one $model.yaml $p.one "${common[@]}" || continue
    train $all $model.yaml $p.all "${common[@]}" || continue
    python3 "$here/tally.py" curves "$p on one GPU and on $count" "$work/$p".{one,all}/metrics.jsonl $precision | tee -a "$log"
    train $all $model.yaml $p.all_again "${common[@]}" --set "resume=$work/$p.all/ckpt/step-$half" || continue
    same_state "$p on $count GPUs resumed" "$work/$p".{all,all_again}/ckpt/step-$((2 * half))
  done
}

stage_prof() {
  step 90 "${vit_b[@]}" --batch 256 --seconds 1 --rounds 1 --profile 5
  step 90 "${mixer[@]}" --batch 256 --seconds 1 --rounds 1 --profile 5
  step 90 "${bit[@]}" --batch 128 --seconds 1 --rounds 1 --profile 3
  step 60 "${cnn[@]}" --batch 128 --seconds 1 --rounds 1 --profile 20
  timeout 150 python3 "$here/micro.py" "$here/jpeg" 2>>"$log" | tee -a "$log" || say "FAIL micro.py"
}

stage_table() { python3 "$here/tally.py" table "$log" "$out/gpu.json"; }

: >>"$log"
for stage in "${@:-env}"; do
  declare -F "stage_$stage" >/dev/null || { echo "gpu.sh: no stage '$stage'" >&2; exit 2; }
  say "== $stage $(date -u +%H:%M:%S)"
  "stage_$stage"
done

#!/usr/bin/env bash
# scripts/bench/gpu.sh pack FOLDER | STAGE... | table LOG...: proves and measures bvtrain on a machine with
# a GPU. That machine needs python3 with torch 2.11 for CUDA 13, but no network and no build.
#
# On the machine that builds, with nvcc:
#   JPEGS=photos.tar scripts/bench/gpu.sh pack out/gpu   # makes out/gpu/gpu.sh and out/gpu/pack.txz
# JPEGS is a folder or a tar file with CLASS_*.JPEG files, for the measurements on photographs.
#
# On the machine with the GPU, one call after the other, less than half an hour in all:
#   bash out/gpu/gpu.sh env test   # the machine; CUDA tests, CPU and GPU curves, bit-identity, exact resume
#   bash out/gpu/gpu.sh ours       # steps of each model, loader, start-up, snapshot of a checkpoint
#   bash out/gpu/gpu.sh peers      # the same in PyTorch: eager, torch.compile, timm where it is installed
#   bash out/gpu/gpu.sh prof       # kernels of a step by kind, and the limits of the device
#   bash out/gpu/gpu.sh nccl       # with two GPUs or more: collectives, and training on all of them
# Anywhere, with the logs of all calls:
#   scripts/bench/gpu.sh table LOG...   # a table with the ratios to the peers and a verdict for each goal,
#                                       # and gpu.json next to the first log
#
# Each result is a line that begins with PASS, FAIL or the kind of measurement. These lines are printed
# and, with all other output, written to $OUT/gpu-<stages>.log (/tmp without OUT). After LIMIT seconds
# (390) nothing more starts: a line that begins with SKIP names what was skipped. The most important
# parts come first. The exit code is 1 if a line begins with FAIL.
# DEVICE=cpu tries the script without a GPU.
set -uo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
out=${OUT:-/tmp} device=${DEVICE:-cuda} limit=${LIMIT:-390}
most_jobs=$((($(nproc) + 1) / 2))  # tests that run at once

pack() {
  set -e
  local folder=${1:?where the pack goes}
  work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
  BVTRAIN_CUDA=1 "$here/../portable.sh" "$work/pack" test_cuda step_bench
  [[ -e $work/pack/libbvtrain_cuda.so ]] || { echo "gpu.sh: there is no CUDA plug-in to pack" >&2; exit 2; }
  cp "$here"/gpu/*.py "$work/pack/"
  if [[ -f ${JPEGS:-} ]]; then
    mkdir "$work/pack/jpeg" && tar -C "$work/pack/jpeg" --transform 's|.*/||' -xf "$JPEGS"
  elif [[ -n ${JPEGS:-} ]]; then
    cp -r "$JPEGS" "$work/pack/jpeg"
  fi
  mkdir -p "$folder"
  tar -C "$work/pack" -c . | xz -6 -T0 >"$folder/pack.txz"
  cp "$here/gpu.sh" "$folder/"
  echo "packed $(du -sk "$folder" | cut -f1) KiB in $folder"
}
if [[ ${1:-} == pack ]]; then pack "${2:-}"; exit; fi
if [[ ${1:-} == table ]]; then
  [[ $# -gt 1 ]] || { echo "gpu.sh: table needs the logs of the other stages" >&2; exit 2; }
  exec python3 "$here/gpu/tally.py" table "$(dirname "$2")/gpu.json" "${@:2}"
fi

if [[ -e $here/pack.txz ]]; then  # unpacked once per machine
  unpacked=/tmp/bvtrain-gpu-$UID-$(sha1sum <"$here/pack.txz" | cut -c1-12)
  if [[ ! -e $unpacked ]]; then
    fresh=$(mktemp -d /tmp/bvtrain-gpu-XXXXXX) || exit 2
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/pack.txz" "$fresh" &&
      mv -T "$fresh" "$unpacked" || rm -rf "$fresh"
    [[ -e $unpacked ]] || exit 2 # another call may have been faster
  fi
  [[ -O $unpacked ]] || { echo "gpu.sh: $unpacked belongs to another user" >&2; exit 2; }
  here=$unpacked
fi
[[ -x $here/run ]] || { echo "gpu.sh: there is no pack here; make one with 'gpu.sh pack FOLDER'" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stages=("$@")
[[ $# -gt 0 ]] || stages=(env)
for stage in "${stages[@]}"; do
  [[ $stage =~ ^(env|test|ours|peers|prof|nccl)$ ]] || { echo "gpu.sh: no stage '$stage'" >&2; exit 2; }
done
log=$out/gpu-$(IFS=-; echo "${stages[*]}").log
: >"$log"

say() { printf '%s\n' "$*" | tee -a "$log"; }

# late NAME: prints SKIP, and returns 0, if the time is up.
late() { ((SECONDS > limit)) && say "SKIP $1"; }

# within SECONDS COMMAND...: ends the command after SECONDS, or 30 s after the limit if that is earlier. A run
# that hangs in a step does not end on SIGTERM, so SIGKILL follows.
within() {
  local most=$1 left=$((limit + 30 - SECONDS))
  timeout -k 5 "$((most < left ? most : left > 1 ? left : 1))" "${@:2}"
}

# try NAME SECONDS COMMAND...: PASS or FAIL, with the first line of its output that shows why.
try() {
  local name=$1 most=$2 begin=$SECONDS code=0 said
  shift 2
  late "$name" && return 1
  said=$(mktemp -p "$work")
  within "$most" "$@" >"$said" 2>&1 || code=$?
  { echo "--- $name: $*"; cat "$said"; } >>"$log"
  if ((code == 0)); then
    say "PASS $name ($((SECONDS - begin)) s)"
  else
    say "FAIL $name: exit $code: $(grep -aiE -m1 'error|FAIL|expected|not run|not found' "$said" | cut -c1-220)"
  fi
  return $code
}

# beside COMMAND...: runs COMMAND in the background when fewer than $most_jobs are running.
beside() {
  while (($(jobs -rp | wc -l) >= most_jobs)); do wait -n; done
  "$@" &
}

# step SECONDS ARGS...: the lines of step_bench.
step() {
  local most=$1 code=0 said
  shift
  late "step_bench $*" && return
  said=$(mktemp -p "$work")
  within "$most" "$here/run" step_bench --device "$device" "$@" >"$said" 2>"$said.err" || code=$?
  cat "$said" "$said.err" >>"$log"
  grep -aE '^(step|state|twice|profile|product|FAIL|  )' "$said"
  if [[ " $* " == *" --twice "* ]]; then
    [[ " $* " == *" --deterministic false "* ]] || say "$( ((code == 0)) && echo PASS || echo FAIL) same bits twice: $*"
  elif ((code != 0)); then
    say "FAIL step_bench $* exit $code: $(tail -1 "$said.err" | cut -c1-200)"
  fi
  grep -aiE 'warning' "$said.err" | sort -u | head -2 | cut -c1-200 | sed 's/^/  warned: /'
}

# tally ARGS...: a line of tally.py.
tally() { python3 "$here/tally.py" "$@" 2>>"$log" | tee -a "$log" || say "FAIL tally.py $1 $2"; }

# peer SECONDS ARGS...: a line of peer.py. A peer that fails, for example because torch.compile finds no C
# compiler, leaves its goals open.
peer() {
  late "peer ${*:2}" && return
  within "$1" python3 "$here/peer.py" "${@:2}" 2>"$work/err" | tee -a "$log" ||
    say "FAIL peer ${*:2}: $(grep -aE '^[A-Za-z.]*(Error|Exception)' "$work/err" | tail -1 | cut -c1-200)"
  cat "$work/err" >>"$log"
}

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
  [[ $device == cpu ]] || try "the libraries of libbvtrain_cuda.so" 60 bash -c libraries
}

# Fails and names the libraries that the plug-in needs and this machine lacks.
libraries() {
  local missing
  missing=$(LD_LIBRARY_PATH=$("$here/run" --libraries) ldd "$here/libbvtrain_cuda.so" | awk '/not found/ { print $1 }' | xargs)
  [[ -z $missing ]] || { echo "error: not found: $missing"; return 1; }
}
export -f libraries
export here

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

# A separate evaluation process gives the same rows as the run, and predictions agree with those of a CPU.
evaluate_and_predict() {
  local run=$work/evaluated on
  try "digits_vit with evaluators" 200 "$here/run" bvtrain --devices "$device" --config "$here/configs/digits_vit.yaml" \
    --workdir "$run" --set total_epochs=null --set total_steps=60 --set ckpt_steps=20 --set keep_ckpt_steps=20 \
    --set evals.test.log_epochs=null --set evals.test.log_steps=20 || return
  try "eval on $device" 100 "$here/run" bvtrain eval --workdir "$run" --devices "$device" || return
  tally evaluations "eval on $device" "$run/metrics.jsonl" "$run/eval/metrics.jsonl"
  for on in cpu "$device"; do
    try "predict on $on" 60 "$here/run" bvtrain predict --workdir "$run" --eval test --devices "$on" \
      --set precision=float32 --output "$run/$on.npz" || return
  done
  tally logits "predict on cpu and $device" "$run/cpu.npz" "$run/$device.npz" 1e-4
}

# The losses of a config on the CPU and on the device, and an exact resume.
curves() {
  local model=$1 precision=$2 half=$(($3 / 2)) p=$1.$2
  local common=(--set total_steps=$3 --set precision=$precision --set ckpt_steps=$half --set keep_ckpt_steps=$half)
  train cpu $model.yaml $p.cpu "${common[@]}" || return
  train "$device" $model.yaml $p.gpu "${common[@]}" || return
  tally curves "$p on cpu and $device" "$work/$p".{cpu,gpu}/metrics.jsonl $precision
  train "$device" $model.yaml $p.again "${common[@]}" --set "resume=$work/$p.gpu/ckpt/step-$half" || return
  same_state "$p resumed" "$work/$p".{gpu,again}/ckpt/step-$3
}

# Compiles PyTorch's models, so that stage_peers finds them in torch.compile's cache.
compile_peers() {
  local model
  for model in vit_b16 mixer_b16; do
    within 150 python3 "$here/peer.py" --model $model --mode compile --seconds 0.1 --rounds 1 >"$work/compiled" 2>&1
  done
}

# Several tests run at once, because none is timed.
stage_test() {
  local steps=200 name names model precision
  if [[ $device == cpu ]]; then steps=20; else export BVTRAIN_REQUIRE_CUDA=1; fi
  # The test cases for kernel code run it on the CPU, here as elsewhere.
  mapfile -t names < <("$here/run" test_cuda --list-test-names-only 2>>"$log" | grep -vE '^ *(the kernels? |kernels |$)')
  [[ ${#names[@]} -gt 0 ]] || say "FAIL test_cuda lists no tests"
  local -x OMP_NUM_THREADS=2
  for name in "${names[@]}"; do beside try "test_cuda: $name" 120 "$here/run" test_cuda -w NoTests "${name//,/\\,}"; done
  for model in digits_cnn digits_vit; do
    for precision in float32 bf16; do beside curves $model $precision $steps; done
  done
  beside evaluate_and_predict
  if [[ $device != cpu ]]; then
    beside compile_peers
    beside step 90 "${vit_b[@]}" --batch 64 --twice 6
    beside step 90 "${vit_b_384[@]}" --batch 16 --twice 6
    beside step 90 "${vit_b[@]}" --batch 64 --twice 6 --deterministic false
    beside step 60 "${mixer_sd[@]}" --batch 64 --twice 4
    beside step 60 "${bit[@]}" --batch 32 --twice 3 --precision float32
    beside step 60 "${bit[@]}" --batch 32 --twice 3
    beside step 60 "${cnn[@]}" --batch 128 --twice 20
  fi
  wait
}

stage_ours() {
  local quick=(--seconds 2) n
  if [[ $device == cpu ]]; then
    step 60 "${cnn[@]}" --batch 64 --seconds 1 --rounds 1 --state 1
    [[ -d $here/jpeg ]] && jpegs
    return
  fi
  # What the goals are about.
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --state 1
  if [[ -d $here/jpeg ]]; then jpegs; else say "SKIP jpegs: the pack has none"; fi
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}"
  step 60 "${vit_l[@]}" --batch 128 "${quick[@]}"
  step 60 "${mixer[@]}" --batch 256 "${quick[@]}"
  step 90 "${bit[@]}" --batch 256 "${quick[@]}"
  for n in 128 512; do step 40 "${cnn[@]}" --batch $n "${quick[@]}"; done
  # The speed-up of bvtrain's own kernels.
  BVTRAIN_PLAIN_KERNELS=1 step 60 "${vit_b[@]}" --name vit_b16.plain --batch 256 "${quick[@]}"
  BVTRAIN_PLAIN_KERNELS=1 step 60 "${mixer[@]}" --name mixer_b16.plain --batch 256 "${quick[@]}"
  BVTRAIN_PLAIN_KERNELS=1 step 90 "${bit[@]}" --name resnetv2_50x1.plain --batch 256 "${quick[@]}"
  BVTRAIN_PLAIN_KERNELS=1 step 40 "${cnn[@]}" --name cnn28.plain --batch 128 "${quick[@]}"
  # The effect of a graph, other batch sizes, determinism and the batch's path to the GPU.
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --graph off
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --deterministic false
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --feed pinned
  step 60 "${vit_s[@]}" --batch 512 "${quick[@]}"
  for n in 128 512; do
    step 40 "${cnn[@]}" --batch $n "${quick[@]}" --graph off
    step 40 "${cnn[@]}" --name cnn28.measured_each_50 --batch $n "${quick[@]}" --feed pinned --every 50
    step 40 "${cnn[@]}" --name cnn28.measured_each --batch $n "${quick[@]}" --feed pinned --every 1
  done
  step 60 "${vit_b[@]}" --batch 32 "${quick[@]}"
  step 60 "${vit_b[@]}" --batch 32 "${quick[@]}" --graph off
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --deterministic false --sdpa flash
  step 60 "${vit_b[@]}" --batch 256 "${quick[@]}" --feed pageable
  step 60 --name vit_b16_bf16_activations --model vit --keys '{variant: B/16, dtype_mm: bfloat16}' --batch 256 "${quick[@]}"
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}" --feed pinned
  step 60 "${vit_s[@]}" --batch 256 "${quick[@]}" --graph off
  step 60 "${mixer_sd[@]}" --batch 256 "${quick[@]}"
  step 90 "${bit[@]}" --batch 128 "${quick[@]}" --precision float32
  step 90 "${paper[@]}" --batch 256 "${quick[@]}"
}

# The loader and whole runs on JPEG files: each file 32 times; its class is the part before "_".
jpegs() {
  local file class k variant pp steps code begin line batch=256
  [[ $device == cpu ]] && batch=8
  for file in "$here"/jpeg/*; do
    class=$(basename "$file" | cut -d_ -f1)
    mkdir -p "$work/jpeg/train/$class"
    for ((k = 0; k < 32; ++k)); do cp -l "$file" "$work/jpeg/train/$class/$k.jpg" 2>/dev/null || cp "$file" "$work/jpeg/train/$class/$k.jpg"; done
  done
  for variant in B/16 S/16; do
    late "jpeg vit $variant" && return
    [[ $variant == B/16 ]] && pp="" || pp="|randaug(2,10)"
    cat >"$work/jpeg.yaml" <<Y
num_classes: 1000
total_steps: 100000
input:
  data: {name: image_folder, data_dir: $work/jpeg, split: train}
  batch_size: $batch
  pp: decode_jpeg_and_inception_crop(224)|flip_lr$pp|value_range(-1, 1)|onehot(1000, key="label", key_result="labels")|keep("image", "labels")
model_name: vit
model: {variant: $variant}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
wd: 0.0001
log_training_steps: 50
Y
    within 100 "$here/run" bvtrain bench --devices "$device" --config "$work/jpeg.yaml" --seconds 4 2>>"$log" |
      while IFS= read -r line; do say "jpeg vit $variant$pp: $line"; done || say "FAIL bvtrain bench on JPEG files, vit $variant"
  done
  for steps in 1 3; do
    begin=$EPOCHREALTIME code=0
    within 60 "$here/run" bvtrain --devices "$device" --config "$work/jpeg.yaml" --set model.variant=B/16 \
      --set total_steps=$steps >>"$log" 2>&1 || code=$?
    say "start vit_b16: $(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }') s to the end of a process of $steps step(s), exit $code"
  done
}

stage_peers() {
  local model n mode quick=(--seconds 2)
  [[ $device == cpu ]] && quick=(--seconds 0.5 --rounds 1 --device cpu)
  # What the goals are about.
  for n in 128 512; do
    for mode in eager reduce; do peer 90 --model cnn28 --batch $n --mode $mode "${quick[@]}"; done
  done
  [[ $device == cpu ]] && return
  peer 150 --model vit_b16 --batch 256 --mode compile "${quick[@]}"
  peer 60 --model vit_s16 --batch 256 --mode eager "${quick[@]}"
  peer 150 --model mixer_b16 --batch 256 --mode compile "${quick[@]}"
  peer 60 --model resnetv2_50x1 --batch 256 --mode eager "${quick[@]}"
  # The rest of the table.
  for model in vit_b16 mixer_b16; do peer 60 --model $model --batch 256 --mode eager "${quick[@]}"; done
  peer 60 --model vit_s16 --batch 512 --mode eager "${quick[@]}"
  for n in 128 512; do peer 90 --model cnn28 --batch $n --mode compile "${quick[@]}"; done
  peer 150 --model vit_s16 --batch 256 --mode compile "${quick[@]}"
  peer 150 --model resnetv2_50x1 --batch 256 --mode compile "${quick[@]}"
}

# All GPUs of the machine. Their curve equals that of one GPU, because the batch is the same.
stage_nccl() {
  local count=${GPUS:-$(nvidia-smi --list-gpus 2>/dev/null | wc -l)} one=cuda:0 all=cuda:all model=digits_cnn half=100 p precision
  [[ $device == cpu ]] && count=2 one=cpu all=cpu:2 half=10
  ((count > 1)) || { say "nccl: not run, this machine has $count GPU"; return; }
  within 120 "$here/run" bvtrain bench collectives --devices $all 2>>"$log" | tee -a "$log" || say "FAIL bench collectives"
  for precision in float32 bf16; do
    p=$model.$precision
    local common=(--set total_steps=$((2 * half)) --set precision=$precision --set ckpt_steps=$half --set keep_ckpt_steps=$half)
    train $one $model.yaml $p.one "${common[@]}" || continue
    train $all $model.yaml $p.all "${common[@]}" || continue
    tally curves "$p on one GPU and on $count" "$work/$p".{one,all}/metrics.jsonl $precision
    train $all $model.yaml $p.all_again "${common[@]}" --set "resume=$work/$p.all/ckpt/step-$half" || continue
    same_state "$p on $count GPUs resumed" "$work/$p".{all,all_again}/ckpt/step-$((2 * half))
  done
}

stage_prof() {
  # Other names, so that these short rounds on a cool GPU do not count for a goal.
  step 60 "${cnn[@]}" --name cnn28.prof --batch 128 --seconds 1 --rounds 1 --profile 20
  [[ $device == cpu ]] && return
  step 90 "${vit_b[@]}" --name vit_b16.prof --batch 256 --seconds 1 --rounds 1 --profile 5
  step 90 "${mixer[@]}" --name mixer_b16.prof --batch 256 --seconds 1 --rounds 1 --profile 5
  step 90 "${bit[@]}" --name resnetv2_50x1.prof --batch 128 --seconds 1 --rounds 1 --profile 3
  step 60 --name products --products 1 --batch 256
  within 150 python3 "$here/micro.py" "$here/jpeg" 2>>"$log" | tee -a "$log" || say "FAIL micro.py"
}

for stage in "${stages[@]}"; do
  say "== $stage $(date -u +%H:%M:%S)"
  "stage_$stage"
done
! grep -aq '^FAIL' "$log"

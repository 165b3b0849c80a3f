#!/usr/bin/env bash
# scripts/portable.sh FOLDER [PROGRAM...]: creates FOLDER, a copy of this build that runs on another
# machine, where it needs no package manager and no network. FOLDER contains bvtrain, the CUDA plug-in if
# this build has one (BVTRAIN_CUDA=0 leaves it out), the other PROGRAMs (CMake targets, such as test_cuda), the shared
# libraries that a machine without Debian's packages lacks, and configs/. LibTorch is not included: FOLDER/run finds it.
#
#   scripts/portable.sh /tmp/carried && tar -C /tmp -cJf carried.txz carried
#   carried/run bvtrain --config carried/configs/digits_cnn.yaml --workdir out     # on the other machine
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
[[ $# -ge 1 ]] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
shift
if [[ -e $folder && -n $(ls -A "$folder") ]]; then echo "portable.sh: $folder is not empty" >&2; exit 2; fi
source "$root/scripts/setup.sh"
bv_install_packages
bv_find_libtorch
# The plug-in needs nccl.h.
! bv_wants_cuda || [[ -e ${CUDA_HOME:-/usr/local/cuda}/include/nccl.h || -e /usr/include/nccl.h ]] || bv_fetch_cuda
build=$root/build/release
plugin=$(bv_cuda_target)
# A build can have the plug-in although this machine has no GPU.
[[ ${BVTRAIN_CUDA:-} == 0 || ! -e $build/libbvtrain_cuda.so ]] || plugin=bvtrain_cuda
bv_build bvtrain ${plugin:+"$plugin"} "$@"

mkdir -p "$folder/lib"
cp "$build/bvtrain" "${@/#/$build/}" "$folder/"
# LibTorch includes what the plug-in needs.
[[ -z $plugin ]] || cp "$build/libbvtrain_cuda.so" "$folder/"
for program in bvtrain "$@"; do
  # LibTorch and the C and C++ runtimes are those of the other machine. libgomp.so.1 is in LibTorch.
  ldd "$build/$program" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | grep -v "^$bv_torch/\|/nvidia/" |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libgomp)\.so' |
    while read -r library; do [[ -e $folder/lib/${library##*/} ]] || cp -L "$library" "$folder/lib/"; done
done
find "$folder" -maxdepth 1 -type f -exec strip --strip-unneeded {} +
cp -r "$root/configs" "$folder/"

cat >"$folder/run" <<'RUN'
#!/bin/sh
# run PROGRAM [ARGS...]: runs a program of this folder with the LibTorch of $BVTRAIN_LIBTORCH (a folder
# torch/ of a wheel, or the one above it), else with that of python3. run --libraries prints where
# shared libraries are looked for.
here=$(dirname "$(readlink -f "$0")")
torch=${BVTRAIN_LIBTORCH:-$(python3 -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null)}
[ -e "$torch/torch/lib/libtorch_cpu.so" ] && torch=$torch/torch
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  echo "run: no LibTorch found: set BVTRAIN_LIBTORCH to a folder with lib/libtorch_cpu.so" >&2
  exit 2
fi
libraries=$torch/lib:$here/lib
for folder in "$(dirname "$torch")"/nvidia/*/lib; do [ -d "$folder" ] && libraries=$libraries:$folder; done
if [ "$1" = --libraries ]; then echo "$libraries"; exit; fi
program=$here/$1
shift
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$program" "$@"
RUN
chmod +x "$folder/run"
echo "$(du -sm "$folder" | cut -f1) MiB in $folder"

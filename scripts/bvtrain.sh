#!/usr/bin/env bash
# scripts/bvtrain.sh ARGS...: installs what is missing, builds, and runs `bvtrain ARGS...`.
# scripts/setup.sh lists the environment variables that choose another LibTorch and CUDA.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/setup.sh"
binary=$root/build/release/bvtrain built=$root/build/built

# build/built contains the environment of the last successful build and has the time at which that build
# began. Checking that no source is newer takes a few milliseconds.
if [[ ! -e $binary || $(cat "$built" 2>/dev/null) != "$(bv_environment)" ||
      -n $(cd "$root" && find CMakeLists.txt cmake app lib models scripts/setup.sh -newer build/built -print -quit) ]]; then
  mkdir -p "$root/build"
  new=$built.$$ && trap 'rm -f "$new"' EXIT  # another call may build, too, and has its own file
  bv_environment >"$new"
  bv_install_packages
  bv_find_libtorch
  bv_fetch_cuda
  bv_build bvtrain $(bv_cuda_target)
  mv "$new" "$built"
fi
exec "$binary" "$@"

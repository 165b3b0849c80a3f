#!/usr/bin/env bash
# scripts/bvtrain.sh ARGS...: sets up what is missing, builds, and becomes `bvtrain ARGS...`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=$root/build/release/bvtrain

# Up to date when no source is newer than the last successful build: a few milliseconds to know.
if [[ ! -e $binary || ! -e $root/build/built ||
      -n $(cd "$root" && find CMakeLists.txt cmake app lib models scripts/setup.sh -newer build/built -print -quit) ]]; then
  source "$root/scripts/setup.sh"
  started=$root/build/built.new
  mkdir -p "$root/build" && touch "$started"
  bv_install_packages
  bv_fetch_libtorch
  bv_fetch_cuda
  bv_build bvtrain $(bv_cuda_target)
  mv "$started" "$root/build/built"
fi
exec "$binary" "$@"

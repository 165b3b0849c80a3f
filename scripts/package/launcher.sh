#!/bin/sh
# Executes bvtrain @BUILD@. This is bin/bvtrain in the wheel and in the Debian package without
# LibTorch. It looks for LibTorch in $BVTRAIN_LIBTORCH. If that is not set, it looks next to bvtrain in
# Python's packages, and then queries the python3 in the same folder. If LibTorch is missing, the dynamic loader would name only a
# library, no remedy. It starts a process only to query Python or to follow a symbolic link.
fail() {
  printf 'bvtrain: error: %s\n' "$1" >&2
  exit 2
}

self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
bin=${self%/*}

# A folder can contain the packages of several Pythons. The file @BUILD@ marks this script's.
for folder in "$bin"/../lib*/python3*/*-packages/bvtrain "$bin"/../bvtrain "$bin"/../lib/bvtrain; do
  [ ! -e "$folder/@BUILD@" ] || break
done
[ -e "$folder/@BUILD@" ] || fail "the files of bvtrain @BUILD@ are not found next to $self; install it again"

# Sets `version` to the version of the LibTorch in $1; "" if unknown.
read_version() {
  version= major=
  if [ -e "$1/version.py" ]; then
    while read -r name equals value; do
      [ "$name" != __version__ ] || version=${value#?} version=${version%?}
    done <"$1/version.py"
  elif [ -e "$1/build-version" ]; then
    read -r version <"$1/build-version"
  elif [ -e "$1/include/torch/headeronly/version.h" ]; then
    while read -r define name value; do
      case $name in
        TORCH_VERSION_MAJOR) major=$value ;;
        TORCH_VERSION_MINOR) version=$major.$value ;;
      esac
    done <"$1/include/torch/headeronly/version.h"
  fi
}

beside=$folder/../torch
torch=${BVTRAIN_LIBTORCH:-$beside}
[ ! -e "$torch/torch/lib" ] || torch=$torch/torch  # site-packages was given
if [ -z "$BVTRAIN_LIBTORCH" ] && [ ! -e "$torch/lib/libtorch_cpu.so" ] && [ -x "$bin/python3" ]; then
  torch=$("$bin/python3" -c 'import importlib.util
found = importlib.util.find_spec("torch")
print(found.submodule_search_locations[0] if found else "")')
fi
if [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  fail "LibTorch @TORCH@ is not found${BVTRAIN_LIBTORCH:+ in BVTRAIN_LIBTORCH=$BVTRAIN_LIBTORCH}; set BVTRAIN_LIBTORCH to the \
folder of a Python package torch==@TORCH@.*, which this prints: python3 -c 'import torch; print(torch.__path__[0])'"
fi
read_version "$torch"
case $version in
  @TORCH@ | @TORCH@.*) ;;
  *) fail "$torch is LibTorch ${version:-of an unknown version}; bvtrain needs @TORCH@" ;;
esac
# The run paths of the wheel lead to $beside. The CUDA plug-in needs cuBLASLt, which is in the second
# folder. Without that folder it could load the cuBLASLt of another CUDA toolkit.
if [ "$torch" != "$beside" ]; then
  LD_LIBRARY_PATH=$torch/lib:$torch/../nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi
exec "$folder/bvtrain" "$@"

#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGS...]: sets up what is missing, builds everything, runs all tests.
# Tests that need data which is not in the repository look for it under $BVTRAIN_SHARED
# (default: ../shared) and say so where they skip.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"
bv_install_packages
bv_fetch_libtorch
bv_fetch_cuda

# Event files are read back by TensorBoard itself.
python=$root/build/venv/bin/python
if [[ ! -x $python ]] || ! "$python" -c 'import tensorboard, numpy' 2>/dev/null; then
  mkdir -p "$root/build"
  bv_packages=(python3-venv) && bv_install_packages
  python3 -m venv "$root/build/venv" &&
    "$root/build/venv/bin/pip" install -q 'tensorboard==2.20.0' 'setuptools<81' numpy >"$root/build/venv.log" 2>&1 ||
    { echo "note: tensorboard can't be installed; its test will be skipped" >&2 && python=; }
fi

"$root/scripts/dev.sh" lint --order-only
start=$SECONDS
bv_build all
echo "built in $((SECONDS - start)) s"
export BVTRAIN_SHARED=${BVTRAIN_SHARED:-$root/../shared} BVTRAIN_PYTHON=$python
cd "$root/build/release"
exec ctest --output-on-failure "$@"

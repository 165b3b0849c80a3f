#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGS...]: installs what is missing, builds everything, and runs all tests.
# Tests that need data from outside the repository look for it under $BVTRAIN_SHARED (default:
# ../shared). Without the data, or without the Python environment below, they print a line and pass.
# With BVTRAIN_REQUIRE_DATA=1 they fail instead; that is the default in CI (CI=true) if the folder
# exists.
# One test opens reports in headless Chromium, and one counts instructions with valgrind. In CI both
# are installed and required (BVTRAIN_REQUIRE_BROWSER=1, BVTRAIN_REQUIRE_VALGRIND=1); elsewhere such a
# test prints a line and passes if its program is missing.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/setup.sh"
bv_install_packages
bv_find_libtorch
bv_fetch_cuda

# Tests read event files with TensorBoard itself, and check configs with a JSON Schema validator.
python=$root/build/venv/bin/python
if [[ ! -x $python ]] || ! "$python" -c 'import tensorboard, numpy, jsonschema, yaml' 2>/dev/null; then
  mkdir -p "$root/build"
  (bv_packages=(python3-venv) && bv_install_packages) &&
    python3 -m venv "$root/build/venv" &&
    "$root/build/venv/bin/pip" install -q 'tensorboard==2.20.0' 'setuptools<81' numpy jsonschema pyyaml >"$root/build/venv.log" 2>&1 ||
    { echo "note: Python packages can't be installed; the tests that need them will be skipped" >&2 && python=; }
fi

# Chromium is installed during the build, but valgrind before it, because a test includes its header.
if [[ ${CI:-} == true ]]; then
  (bv_packages=(valgrind) && bv_install_packages) || echo "note: valgrind can't be installed" >&2
  if command -v valgrind >/dev/null; then
    export BVTRAIN_REQUIRE_VALGRIND=${BVTRAIN_REQUIRE_VALGRIND:-1}
  fi
  (bv_packages=(chromium fonts-dejavu-core) && bv_install_packages) &
  browser=$!
fi

"$root/scripts/dev.sh" lint --order-only
start=$SECONDS
bv_build all
echo "built in $((SECONDS - start)) s"
export BVTRAIN_SHARED=${BVTRAIN_SHARED:-$root/../shared} BVTRAIN_PYTHON=$python
if [[ ${CI:-} == true && -d $BVTRAIN_SHARED ]]; then
  export BVTRAIN_REQUIRE_DATA=${BVTRAIN_REQUIRE_DATA:-1}
fi
if [[ -n ${browser:-} ]]; then
  wait "$browser" || echo "note: chromium can't be installed" >&2
  if command -v chromium >/dev/null; then
    export BVTRAIN_REQUIRE_BROWSER=${BVTRAIN_REQUIRE_BROWSER:-1}
  fi
fi
cd "$root/build/release"
exec ctest -j3 --output-on-failure "$@"  # cmake/Tests.cmake says what runs side by side

# Functions for bvtrain.sh, test.sh and dev.sh, which source this file: install what is missing, find
# or fetch LibTorch, configure, build. Needs bash.
#
#   BVTRAIN_LIBTORCH=DIR  use this LibTorch 2.11 (for example a Python environment's
#                         site-packages/torch) and download nothing
#   BVTRAIN_CUDA=1        fetch CUDA's libraries and build the CUDA plug-in; the default where
#                         NVIDIA's driver is installed
#   BVTRAIN_CUDA=0        do neither
# Downloads are kept in ${XDG_CACHE_HOME:-~/.cache}/bvtrain.

unset CDPATH # with it, cd may print the folder
bv_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bv_cache=${XDG_CACHE_HOME:-$HOME/.cache}/bvtrain
bv_version=2.11
bv_fetched=$bv_cache/libtorch-2.11.0  # holds torch/ and nvidia/, as site-packages does

bv_packages=(
  g++ cmake ninja-build lld ccache git ca-certificates python3 python3-pip
  libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev catch2 nlohmann-json3-dev
  libjpeg-dev libspng-dev libwebp-dev libdeflate-dev libzstd-dev libxxhash-dev
  libgloo-dev
)
# A package that dpkg does not list, or any package without dpkg, counts as installed if its command or
# its header is found. lld and ccache are omitted: they only make builds faster.
declare -A bv_commands=([g++]=g++ [cmake]=cmake [ninja-build]=ninja [git]=git [python3]=python3)
declare -A bv_headers=(
  [libcli11-dev]=CLI/CLI.hpp [libyaml-cpp-dev]=yaml-cpp/yaml.h [libspdlog-dev]=spdlog/spdlog.h
  [libfmt-dev]=fmt/core.h [catch2]=catch2/catch.hpp [nlohmann-json3-dev]=nlohmann/json.hpp
  [libjpeg-dev]=jpeglib.h [libspng-dev]=spng.h [libwebp-dev]=webp/decode.h
  [libdeflate-dev]=libdeflate.h [libzstd-dev]=zstd.h
  [libxxhash-dev]=xxhash.h [libgloo-dev]=gloo/config.h
)

bv_fail() {
  printf 'bvtrain set-up: %s\n' "$@" >&2
  exit 2
}

# Whether the command or the header of a package is found. Some packages have neither, and a header is
# looked for with g++. What can't be looked for counts as missing if there is dpkg, otherwise as found.
bv_is_found() {
  local command=${bv_commands[$1]:-} header=${bv_headers[$1]:-}
  if [[ -n $command ]]; then
    command -v "$command" >/dev/null
  elif [[ -n $header ]] && command -v g++ >/dev/null; then
    g++ -std=c++20 -E -x c++ - <<<"#include <$header>" >/dev/null 2>&1
  else
    ! command -v dpkg-query >/dev/null
  fi
}

# Prints the missing packages of bv_packages, one per line.
bv_missing_packages() {
  local package
  for package in "${bv_packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) == ii* ]] ||
      bv_is_found "$package" || echo "$package"
  done
}

# Installs the missing Debian packages, or prints their names. On a system without apt it continues if
# nothing is missing.
bv_install_packages() {
  local missing=()
  mapfile -t missing < <(bv_missing_packages)
  [[ ${#missing[@]} -eq 0 ]] && return
  command -v apt-get >/dev/null ||
    bv_fail "apt-get is not found here; install what your system calls these Debian packages: ${missing[*]}"
  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  local sudo=()
  if [[ $EUID -ne 0 ]]; then
    sudo -n true 2>/dev/null || bv_fail "packages are missing and this user can't install them; run: sudo $command"
    sudo=(sudo -n)
  fi
  echo "bvtrain set-up: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive $command -q; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    bv_fail "could not install the packages (whole log: $log); run: $command"
  fi
  rm -f "$log"
}

# Takes the lock on the file until the current subshell ends, after a wait if another process has it.
bv_lock() {
  exec 9>"$1" || exit 2
  flock -n 9 && return
  echo "bvtrain set-up: waiting for another set-up, which has the lock $1" >&2
  flock 9 || true  # if the file system has no locks, continue without one
}

# bv_fetch_wheels FOLDER SPACE: downloads the wheels listed on standard input (name, version and
# SHA-256) and unpacks them into FOLDER/unpacked. SPACE is the disk space to name in an error. The
# caller has the lock of $bv_cache. An interrupted download leaves FOLDER, which the next one removes.
bv_fetch_wheels() {
  local work=$1 platforms=(--platform=manylinux2014_x86_64)
  rm -rf "$work"
  mkdir "$work" || exit 2
  platforms+=(--platform=manylinux_2_{28,27,25,18,17,12,5}_x86_64)
  cat >"$work/requirements.txt"
  if ! python3 -m pip download -q --no-deps --only-binary=:all: --require-hashes \
      --python-version 3.11 --implementation cp "${platforms[@]}" \
      -d "$work" -r "$work/requirements.txt" >"$work/pip.log" 2>&1; then
    tail -n 3 "$work/pip.log" >&2
    local wheels
    wheels=$(cut -d' ' -f1 "$work/requirements.txt" | paste -sd, | sed 's/,/, /g')
    rm -rf "$work"
    bv_fail "could not fetch the wheels $wheels from PyPI"
  fi
  if ! python3 - "$work" <<'UNPACK'
import glob, sys, zipfile
work = sys.argv[1]
keep = ("torch/lib/", "torch/include/", "nvidia/")
for wheel in glob.glob(work + "/*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if (n.startswith(keep) or ".dist-info/licenses/" in n)
                 and not n.endswith("libtorch_python.so")]
        archive.extractall(work + "/unpacked", names)
UNPACK
  then
    rm -rf "$work"
    bv_fail "could not unpack the wheels below $bv_cache ($2 are needed)"
  fi
}

# Sets bv_torch to the LibTorch to build with: the folder that contains lib/ and include/. It is the
# one in $BVTRAIN_LIBTORCH, or the torch wheel from PyPI, which is fetched if it is missing.
bv_find_libtorch() {
  if [[ -z ${BVTRAIN_LIBTORCH:-} ]]; then
    bv_fetch_libtorch || exit 2
    bv_torch=$bv_fetched/torch
    return
  fi
  local folder
  for folder in "$BVTRAIN_LIBTORCH" "$BVTRAIN_LIBTORCH"/{torch,libtorch}; do
    [[ -e $folder/lib/libtorch_cpu.so && -e $folder/include/ATen/core/Tensor.h ]] || continue
    bv_torch=$(cd "$folder" && pwd)
    local found
    found=$({ cat "$bv_torch"/include/torch/{headeronly,csrc/api/include/torch}/version.h 2>/dev/null || true; } |
      sed -nE 's/^#define TORCH_VERSION_(MAJOR|MINOR) ([0-9]+)$/\2/p' | head -n 2 | paste -sd.)
    [[ $found == "$bv_version" ]] ||
      bv_fail "BVTRAIN_LIBTORCH=$BVTRAIN_LIBTORCH is LibTorch ${found:-of an unknown version}; bvtrain needs $bv_version"
    return
  done
  bv_fail "BVTRAIN_LIBTORCH=$BVTRAIN_LIBTORCH holds no LibTorch: lib/libtorch_cpu.so and include/ are not found there" \
    "for a Python environment's own: BVTRAIN_LIBTORCH=\$(python3 -c 'import torch; print(torch.__path__[0])')"
}

# Fetches the torch wheel and two small CUDA libraries that libtorch_cpu.so needs even on CPUs. In a
# subshell, which holds the lock: another first run waits and finds the files.
bv_fetch_libtorch() (
  [[ -e $bv_fetched/.complete ]] && return
  local work=$bv_cache/fetch
  mkdir -p "$bv_cache" && bv_lock "$bv_cache/.lock" || return
  [[ -e $bv_fetched/.complete ]] && return
  echo "bvtrain set-up: fetching LibTorch 2.11.0 (546 MB) into $bv_fetched" >&2
  bv_fetch_wheels "$work" "1.2 GB" <<'REQUIREMENTS'
torch==2.11.0 --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
REQUIREMENTS
  touch "$work/unpacked/.complete" && rm -rf "$bv_fetched" && mv -T "$work/unpacked" "$bv_fetched" &&
    rm -rf "$work"
)

# Whether this machine will train on GPUs.
bv_wants_cuda() { [[ ${BVTRAIN_CUDA:-} == 1 || (${BVTRAIN_CUDA:-} != 0 && -e /dev/nvidiactl) ]]; }

# Fetches the libraries that the CUDA part of the fetched LibTorch needs. A LibTorch in
# $BVTRAIN_LIBTORCH must include them.
bv_fetch_cuda() (
  bv_wants_cuda && [[ -z ${BVTRAIN_LIBTORCH:-} && ! -e $bv_fetched/.cuda ]] || return 0
  local work=$bv_cache/fetch
  bv_lock "$bv_cache/.lock" || return
  [[ ! -e $bv_fetched/.cuda ]] || return 0
  echo "bvtrain set-up: fetching CUDA's libraries (2.6 GB unpacked) into $bv_fetched" >&2
  bv_fetch_wheels "$work" "5.5 GB" <<'REQUIREMENTS'
nvidia-cublas==13.1.0.3 --hash=sha256:ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171
nvidia-cuda-nvrtc==13.0.88 --hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
nvidia-cudnn-cu13==9.19.0.56 --hash=sha256:d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf
nvidia-cufft==12.0.0.61 --hash=sha256:6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3
nvidia-cufile==1.15.1.6 --hash=sha256:08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44
nvidia-curand==10.4.0.35 --hash=sha256:1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc
nvidia-cusolver==12.0.4.66 --hash=sha256:0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112
nvidia-cusparse==12.6.3.3 --hash=sha256:2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b
nvidia-cusparselt-cu13==0.8.0 --hash=sha256:25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd
nvidia-nccl-cu13==2.28.9 --hash=sha256:e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42
nvidia-nvjitlink==13.0.88 --hash=sha256:13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b
nvidia-nvshmem-cu13==3.4.5 --hash=sha256:290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80
nvidia-nvtx==13.0.85 --hash=sha256:4936d1d6780fbe68db454f5e72a42ff64d1fd6397df9f363ae786930fd5c1cd4
REQUIREMENTS
  cp -alf "$work/unpacked/." "$bv_fetched/" && touch "$bv_fetched/.cuda" && rm -rf "$work"
)

# Prints the path of nvcc, or nothing.
bv_nvcc() { PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v nvcc || true; }

# Prints what a build depends on besides the sources: if it changes, the build is reconfigured.
bv_environment() {
  echo "libtorch=${BVTRAIN_LIBTORCH:-$bv_fetched} cuda=$(bv_wants_cuda && echo 1 || echo 0) nvcc=$(bv_nvcc)"
}

# bv_build TARGET...: configures build/release if necessary and builds. Needs bv_find_libtorch. In a
# subshell, which holds a lock: two ninjas in one folder would break each other's files.
bv_build() (
  local build=$bv_root/build/release log=$bv_root/build/setup.log environment
  environment=$(bv_environment)
  mkdir -p "$bv_root/build" && bv_lock "$bv_root/build/.lock" || return
  if [[ ! -e $build/build.ninja || $(cat "$build/environment" 2>/dev/null) != "$environment" ]]; then
    if ! (cd "$bv_root" && cmake --preset release -U BV_NVCC -D BVTRAIN_LIBTORCH="$bv_torch") >"$log" 2>&1; then
      tail -n 15 "$log" >&2
      bv_fail "configuring failed (whole log: $log)"
    fi
    echo "$environment" >"$build/environment"
  fi
  [[ -t 2 ]] && echo "bvtrain set-up: building (about a quarter of an hour the first time, on two cores)" >&2
  if ! ninja -C "$build" "$@" >"$log" 2>&1; then
    grep -E -A12 'FAILED|error' "$log" | head -n 40 >&2 || true
    bv_fail "the build failed (whole log: $log)"
  fi
)

# Prints the CUDA plug-in's target if it is wanted and can be built, and explains why not if it was
# requested but cannot be built.
bv_cuda_target() {
  bv_wants_cuda || return 0
  if [[ -z $(bv_nvcc) ]]; then
    echo "bvtrain set-up: nvcc is not found, so the CUDA plug-in is not built; install CUDA 13's nvcc or set CUDA_HOME" >&2
  elif [[ ! -e $bv_torch/lib/libtorch_cuda.so ]]; then
    echo "bvtrain set-up: $bv_torch is a LibTorch without CUDA, so the CUDA plug-in is not built" >&2
  elif [[ ! -e $bv_torch/../nvidia/cu13/lib/libcudart.so.13 ]]; then
    echo "bvtrain set-up: nvidia/cu13/lib/libcudart.so.13 is not next to $bv_torch, as in a Python environment, so the CUDA plug-in is not built" >&2
  else
    echo bvtrain_cuda
  fi
}

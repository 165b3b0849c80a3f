# Sourced by bvtrain.sh and test.sh: installs what is missing, fetches LibTorch, configures, builds.
# Needs bash. Everything downloaded lands in ${XDG_CACHE_HOME:-~/.cache}/bvtrain.

bv_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bv_cache=${XDG_CACHE_HOME:-$HOME/.cache}/bvtrain
bv_libtorch=$bv_cache/libtorch-2.11.0

bv_packages=(
  g++ cmake ninja-build mold ccache git ca-certificates python3 python3-pip
  libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev catch2 nlohmann-json3-dev
  libjpeg62-turbo-dev libspng-dev libdeflate-dev libxxhash-dev libgloo-dev
)

bv_fail() {
  printf 'bvtrain set-up: %s\n' "$@" >&2
  exit 2
}

# Installs the Debian packages that are missing, or says which they are.
bv_install_packages() {
  local missing=() package
  for package in "${bv_packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) == ii* ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  command -v apt-get >/dev/null || bv_fail "this is no Debian; install the equivalents of: ${missing[*]}"
  local sudo=()
  if [[ $EUID -ne 0 ]]; then
    sudo -n true 2>/dev/null || bv_fail "packages are missing and this user can't install them; run: sudo $command"
    sudo=(sudo -n)
  fi
  echo "bvtrain set-up: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -q && DEBIAN_FRONTEND=noninteractive "${sudo[@]}" $command -q; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    bv_fail "could not install the packages (whole log: $log); run: $command"
  fi
  rm -f "$log"
}

# The torch wheel from PyPI is the LibTorch; libtorch_cpu also needs two small CUDA libraries.
bv_fetch_libtorch() {
  [[ -e $bv_libtorch/.complete ]] && return
  echo "bvtrain set-up: fetching LibTorch 2.11.0 (546 MB) into $bv_libtorch" >&2
  local work
  mkdir -p "$bv_cache"
  work=$(mktemp -d "$bv_cache/fetch.XXXXXX")
  cat >"$work/requirements.txt" <<'REQUIREMENTS'
torch==2.11.0 --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
REQUIREMENTS
  if ! python3 -m pip download -q --no-deps --only-binary=:all: --require-hashes \
      --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
      --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
      -d "$work" -r "$work/requirements.txt" >"$work/pip.log" 2>&1; then
    tail -n 3 "$work/pip.log" >&2
    rm -rf "$work"
    bv_fail "could not fetch the wheels torch==2.11.0, nvidia-cuda-runtime==13.0.96, nvidia-cuda-cupti==13.0.85 from PyPI"
  fi
  if ! python3 - "$work" <<'UNPACK'
import glob, sys, zipfile
work = sys.argv[1]
keep = ("torch/lib/", "torch/include/", "nvidia/")
for wheel in glob.glob(work + "/*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.startswith(keep) and not n.endswith("libtorch_python.so")]
        archive.extractall(work + "/unpacked", names)
UNPACK
  then
    rm -rf "$work"
    bv_fail "could not unpack LibTorch below $bv_cache (1.2 GB are needed)"
  fi
  touch "$work/unpacked/.complete"
  rm -rf "$bv_libtorch"
  mv -T "$work/unpacked" "$bv_libtorch"
  rm -rf "$work"
}

# bv_build TARGET...: configures build/release where needed and builds.
bv_build() {
  local build=$bv_root/build/release log=$bv_root/build/setup.log
  mkdir -p "$bv_root/build"
  if ! { [[ -e $build/build.ninja ]] || (cd "$bv_root" && cmake --preset release); } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    bv_fail "configuring failed (whole log: $log)"
  fi
  [[ -t 2 ]] && echo "bvtrain set-up: building (a few minutes the first time)" >&2
  if ! ninja -C "$build" "$@" >"$log" 2>&1; then
    grep -E -A12 'FAILED|error' "$log" | head -n 40 >&2
    bv_fail "the build failed (whole log: $log)"
  fi
}

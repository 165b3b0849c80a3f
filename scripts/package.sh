#!/usr/bin/env bash
# scripts/package.sh deb|wheel|tarball [--without-libtorch] [--output DIR]: packages build/release into
# DIR (default: build/packages). docs/building.md describes the packages.
#   deb      for Debian 12. --without-libtorch builds the package bvtrain-without-libtorch instead,
#            which uses LibTorch from $BVTRAIN_LIBTORCH
#   wheel    for pip; uses the LibTorch and the CUDA libraries of the package torch
#   tarball  runs where it is unpacked and needs nothing but glibc
# The wheel can train on GPUs if build/release contains libbvtrain_cuda.so.
# The version of a deb or a wheel contains the commit. build/packages keeps only the newest of each kind.
set -euo pipefail
umask 022
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/setup.sh"
build=$root/build/release

fail() {
  echo "scripts/package.sh: error: $1" >&2
  exit 2
}

parse_arguments() {
  kind=${1:-} with_libtorch=1 output=$root/build/packages
  [[ $kind =~ ^(deb|wheel|tarball)$ ]] ||
    fail "${kind:+unknown package '$kind'; }usage: scripts/package.sh deb|wheel|tarball [--without-libtorch] [--output DIR]"
  shift
  while [[ $# -gt 0 ]]; do
    case $1 in
      --output) [[ -n ${2:-} ]] || fail "--output needs a folder"; output=$2; shift 2 ;;
      --output=?*) output=${1#--output=}; shift ;;
      --without-libtorch) with_libtorch=; shift ;;
      *) fail "unknown argument '$1'; known: --without-libtorch, --output DIR" ;;
    esac
  done
  [[ -n $with_libtorch || $kind == deb ]] || fail "--without-libtorch is for deb; the wheel never holds LibTorch"
}

# Checks that the tools are installed and updates the build.
prepare() {
  local tool tools=(cmake strip objdump patchelf)
  [[ $kind != deb ]] || tools+=(dpkg-deb dpkg-shlibdeps)
  [[ $kind != wheel ]] || tools+=(python3)
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || fail "the program $tool is missing; on Debian: apt-get install patchelf dpkg-dev binutils"
  done
  [[ -e $build/bvtrain ]] || fail "there is no build/release/bvtrain; build it with scripts/dev.sh build bvtrain"
  local targets=(bvtrain)
  [[ ! -e $build/libbvtrain_cuda.so ]] || targets+=(bvtrain_cuda)
  bv_find_libtorch
  bv_build "${targets[@]}"
  version=$("$build/bvtrain" --version | sed -n 's/^bvtrain //p')
  commit=$("$build/bvtrain" --version | sed -n 's/^commit: //p')
  build_name=$version-$commit
  name_version
  mkdir -p "$output" && output=$(cd "$output" && pwd) || exit 2
  work=$(mktemp -d "$output/.package.XXXXXX")
  trap 'rm -rf "$work"' EXIT
}

# Sets package_version. pip and apt skip a package whose version is installed already, so each commit
# has its own version: the number of commits up to it and its hash. A build with uncommitted changes
# adds the time.
name_version() {
  local count hash=${commit%-dirty}
  package_version=$version
  [[ $commit != unknown ]] && count=$(git -C "$root" rev-list --count "$hash" 2>/dev/null) || return 0
  package_version+=+$count.g$hash
  [[ $commit != *-dirty ]] || package_version+=.dirty.$(date -u +%Y%m%d%H%M%S)
}

# install_into PREFIX COMPONENT...
install_into() {
  local component
  for component in "${@:2}"; do
    cmake --install "$build" --prefix "$1" --component "$component" --strip >>"$work/install.log" ||
      fail "cmake --install failed: $(tail -n 3 "$work/install.log")"
  done
}

soname() { objdump -p "$1" | sed -n 's/^ *SONAME *//p'; }

# Keeps one file per library, under the name by which it is loaded, and strips it.
tidy_libraries() {
  local file real
  for file in "$1"/*; do
    [[ -L $file ]] || continue
    real=$(readlink -f "$file")
    rm "$file"
    if [[ -e $real && $(soname "$real") == "${file##*/}" ]]; then mv "$real" "$file"; fi
  done
  strip --strip-unneeded "$1"/*
}

# copy_licences LIBRARIES DOCS: the licences of the libraries in the folder LIBRARIES, and of those that
# are compiled into bvtrain.
copy_licences() {
  local file package folder found=
  mkdir -p "$2/licences"
  for package in libcli11-dev libwebp-dev nlohmann-json3-dev; do
    cp "/usr/share/doc/$package/copyright" "$2/licences/$package" 2>/dev/null ||
      echo "note: no /usr/share/doc/$package/copyright; whoever passes this package on must add that licence" >&2
  done
  for file in "$1"/*.so*; do
    [[ -e $file ]] || continue
    package=$(dpkg -S "*/${file##*/}" 2>/dev/null | sed -n '1s/:.*//p') || true
    [[ ! -e /usr/share/doc/$package/copyright || -e $bv_torch/lib/${file##*/} ]] ||
      cp "/usr/share/doc/$package/copyright" "$2/licences/$package"
  done
  [[ -e $1/libtorch_cpu.so ]] || return 0
  for folder in "$bv_torch"/../{torch,nvidia_cuda_runtime,nvidia_cuda_cupti}-*.dist-info/licenses; do
    [[ -e $folder ]] || continue
    package=${folder%-*.dist-info/licenses} found=1
    cp -r "$folder" "$2/licences/${package##*/}"
  done
  [[ -n $found ]] || echo "note: no licences of LibTorch next to $bv_torch; whoever passes this package on must add them." \
    "Remove $bv_fetched to fetch LibTorch with its licences." >&2
}

# Fails if a file would search for libraries in a folder of this machine, or if bvtrain names one.
check_paths() {
  local file paths path pattern
  while IFS= read -r file; do
    [[ $(head -c 4 "$file" | tr -d '\0') == $'\x7fELF' ]] || continue
    paths=$(objdump -p "$file" | sed -nE 's/^ *(RUNPATH|RPATH) *//p' | tr : '\n' | grep -v '^\$ORIGIN' || true)
    [[ -z $paths ]] || fail "${file#"$work"/} would look for libraries in $paths"
    for path in "$root" "$bv_torch"; do
      # A file in the folder. bvtrain's own texts have names such as /.cache/bvtrain and /app/.
      pattern=$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"$path")
      ! LC_ALL=C grep -qaE "(^|[^[:alnum:]_.-])$pattern/[[:alnum:]_.]" "$file" ||
        fail "${file#"$work"/} names the folder $path"
    done
  done < <(find "$1" -type f)
}

write_launcher() {
  sed -e "s/@BUILD@/$build_name/g" -e "s/@TORCH@/$bv_version/g" "$root/scripts/package/launcher.sh" >"$1"
  chmod 755 "$1"
}

make_deb() {
  local tree=$work/tree name=bvtrain libraries=$work/tree/usr/lib/bvtrain other=bvtrain-without-libtorch
  install_into "$tree/usr" bvtrain
  mkdir -p "$libraries"
  if [[ -n $with_libtorch ]]; then
    install_into "$tree/usr" libtorch
    tidy_libraries "$libraries"
  else
    name=bvtrain-without-libtorch other=bvtrain
    install_into "$tree/usr" cuda
    mv "$tree/usr/bin/bvtrain" "$libraries/bvtrain"
    patchelf --remove-rpath "$libraries"/*
    touch "$libraries/$build_name"
    write_launcher "$tree/usr/bin/bvtrain"
  fi
  copy_licences "$libraries" "$tree/usr/share/doc/bvtrain"
  mv "$tree/usr/share/doc/bvtrain/LICENSE" "$tree/usr/share/doc/bvtrain/copyright"
  [[ ! -d $tree/usr/share/man ]] || gzip -9n "$tree"/usr/share/man/man1/*
  check_paths "$tree"
  write_control "$tree" "$name" "$other"
  package=$work/${name}_${package_version}_amd64.deb family="${name}_*.deb"
  dpkg-deb --root-owner-group -Zzstd -z12 --build "$tree" "$package" >/dev/null
}

# write_control TREE NAME OTHER: OTHER is the package that contains the same files.
write_control() {
  local tree=$1 depends summary="with LibTorch, for CPUs"
  mkdir -p "$work/debian" "$tree/DEBIAN"
  printf 'Source: bvtrain\n\nPackage: bvtrain\nArchitecture: amd64\n' >"$work/debian/control"
  local programs=()
  mapfile -t programs < <(find "$tree/usr/bin/bvtrain" "$tree/usr/lib/bvtrain" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' - {} \; -print)
  depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info -l"$tree/usr/lib/bvtrain" -l"$bv_torch/lib" \
    -l"$bv_torch/../nvidia/cu13/lib" "${programs[@]/#/-e}" 2>"$work/shlibdeps.log") ||
    fail "dpkg-shlibdeps failed: $(tail -n 2 "$work/shlibdeps.log")"
  [[ -n $with_libtorch ]] || summary="uses the LibTorch $bv_version that \$BVTRAIN_LIBTORCH names"
  (cd "$tree" && find usr -type f -exec md5sum {} +) >"$tree/DEBIAN/md5sums"
  cat >"$tree/DEBIAN/control" <<CONTROL
Package: $2
Version: $package_version
Architecture: amd64
Maintainer: The bvtrain authors
Section: science
Priority: optional
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Depends: ${depends#shlibs:Depends=}
Conflicts: $3
Replaces: $3
Description: trainer for image classifiers and regressors ($summary)
 bvtrain trains image classifiers and regressors from a YAML file. It is one
 native binary on LibTorch, built from commit $commit.
CONTROL
}

make_wheel() {
  local prefix=$work/prefix tree=$work/wheel data=$work/wheel/bvtrain-$package_version.data tag glibc
  install_into "$prefix" bvtrain system cuda
  # pip's platforms guarantee these two, and torch brings libgomp.
  rm -f "$prefix"/lib/bvtrain/lib{stdc++,gcc_s}.so*
  tidy_libraries "$prefix/lib/bvtrain"
  copy_licences "$prefix/lib/bvtrain" "$prefix/share/doc/bvtrain"
  mkdir -p "$tree" "$data/data" "$data/scripts"
  mv "$prefix/lib/bvtrain" "$tree/bvtrain"
  mv "$prefix/bin/bvtrain" "$tree/bvtrain/bvtrain"
  mv "$prefix/share" "$data/data/share"
  touch "$tree/bvtrain/$build_name"
  write_launcher "$data/scripts/bvtrain"
  patchelf --set-rpath '$ORIGIN:$ORIGIN/../torch/lib' "$tree/bvtrain/bvtrain"
  if [[ -e $tree/bvtrain/libbvtrain_cuda.so ]]; then
    patchelf --force-rpath --set-rpath '$ORIGIN/../torch/lib:$ORIGIN/../nvidia/cu13/lib' \
      "$tree/bvtrain/libbvtrain_cuda.so"
  else
    echo "note: no build/release/libbvtrain_cuda.so, so this wheel trains on CPUs only" >&2
  fi
  check_paths "$tree"
  family='bvtrain-*.whl'
  glibc=$(getconf GNU_LIBC_VERSION) tag=py3-none-manylinux_${glibc#glibc }
  package=$(python3 "$root/scripts/package/wheel.py" "$tree" "$package_version" "${tag/./_}_x86_64" \
    "$root/README.md" "$work")
}

make_tarball() {
  local name=bvtrain-$version-linux-x86_64
  local tree=$work/$name
  install_into "$tree" bvtrain libtorch system
  tidy_libraries "$tree/lib/bvtrain"
  copy_licences "$tree/lib/bvtrain" "$tree/share/doc/bvtrain"
  check_paths "$tree"
  package=$work/$name.tar.gz family=$name.tar.gz
  tar --create --gzip --file "$package" --directory "$work" --owner=0 --group=0 --numeric-owner --sort=name "$name"
}

parse_arguments "$@"
prepare
"make_$kind"
mv "$package" "$output"  # atomically: an existing package is complete
package=$output/${package##*/}
[[ $output != "$root/build/packages" ]] ||
  find "$output" -maxdepth 1 -name "$family" ! -name "${package##*/}" -delete
echo "$package ($(du -h --apparent-size "$package" | cut -f1)B, commit $commit)"

#!/usr/bin/env bash
# scripts/check_package.sh PACKAGE [SUITE]: installs a package from scripts/package.sh in a clean
# system, and uses it there as a non-root user without a repository: prints the version, follows a new
# user's path from a folder of images to an exported model that predicts, trains on the digits,
# continues the run, predicts, exports, and trains with two processes. SUITE is bookworm (Debian 12,
# default) or noble (Ubuntu 24.04, for the tarball). Needs root, debootstrap and, for a wheel, PyPI.
#   BVTRAIN_LIBTORCH=DIR  the LibTorch for bvtrain-without-libtorch; default: the one fetched by setup.sh
#   BVTRAIN_CHECK_TORCH   what to install before the wheel, such as torch==2.11.0 and options of pip
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/setup.sh"
source "$root/scripts/chroot.sh"
package=${1:-} suite=${2:-bookworm}
[[ -f $package && $package =~ \.(deb|whl|tar\.gz)$ ]] ||
  { echo "usage: scripts/check_package.sh FILE.deb|FILE.whl|FILE.tar.gz [bookworm|noble]" >&2; exit 2; }
name=${package##*/}

# Each of these runs as root in the system after $name is copied there, and may print notes.
# shellcheck disable=SC2016
install_deb='
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends "/tmp/$1" >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
'
# shellcheck disable=SC2016
remove_deb='
  dpkg -r "$(dpkg-deb --field "/tmp/$1" Package)" >/dev/null
  left=$(find / -xdev -name "*bvtrain*" -not -path "/home/*" -not -path "/tmp/*" -not -path "/var/*" -print)
  [[ -z $left ]] || { echo "dpkg -r has left: $left"; exit 1; }
  dpkg -i "/tmp/$1" >/dev/null
  echo "dpkg -r removes everything; dpkg -i installs it again"
'
install_pip='
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends python3-venv >/dev/null 2>&1
'
# shellcheck disable=SC2016
use='
  say() { echo "+ $*"; "$@"; }
  quiet() { echo "+ $*"; "$@" >log 2>&1 || { tail -n 20 log; exit 1; }; }
  now() { date +%s%N; }
  say bvtrain --version
  for i in 1 2 3 4 5; do from=$(now); bvtrain --version >version; echo $((($(now) - from) / 1000000)); done |
    sort -n | sed -n "3s/$/ ms for --version, median of 5/p"
  say bvtrain init /tmp/photos
  quiet bvtrain help lr
  quiet bvtrain --config photos.yaml --workdir out/photos --set total_epochs=8
  tail -n 5 log
  [[ -s out/photos/report.html && -s out/photos/result.json ]]
  quiet bvtrain export --workdir out/photos --ema --output photos.safetensors
  mkdir elsewhere
  (cd elsewhere && quiet bvtrain predict --weights ../photos.safetensors /tmp/photos/*/1.png --output guesses.csv && cat guesses.csv)
  run=(bvtrain --config "$configs/digits_cnn.yaml" --set total_epochs=null --set ckpt_steps=10)
  quiet "${run[@]}" --workdir out --set total_steps=20
  quiet "${run[@]}" --workdir out --set total_steps=40 --accept-changes
  grep -E "\"(version|commit|first_step|restarts)\"" out/run.json
  grep -q "\"first_step\": 20" out/run.json || { echo "the run did not continue"; exit 1; }
  quiet bvtrain export --workdir out --format onnx --output digits.onnx
  quiet bvtrain predict --workdir out --eval test --first 3
  cat log
  quiet "${run[@]}" --workdir ranks --set total_steps=20 --devices cpu:2
  [[ -s digits.onnx && -e out/DONE && -e ranks/DONE && -e ranks/log/rank-1.log ]]
'

# Writes PNG files that are red, green or blue with some noise into FOLDER/<colour>/.
make_photos() {
  python3 - "$1" <<'END'
import os, random, struct, sys, zlib

def png(path, colour, side=24):
    rows = b"".join(
        b"\0" + bytes(random.randrange(90) + (160 if channel == colour else 0) for _ in range(side) for channel in range(3))
        for _ in range(side))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

random.seed(0)
for colour, name in enumerate(["red", "green", "blue"]):
    os.makedirs(f"{sys.argv[1]}/{name}")
    for i in range(40):
        png(f"{sys.argv[1]}/{name}/{i}.png", colour)
END
}

chroot_make "$suite" >/dev/null
make_photos "$chroot_folder/tmp/photos"
cp "$package" "$chroot_folder/tmp/"
chroot_run root 'useradd --create-home tester'
start=$SECONDS
case $name in
  *.deb)
    if [[ $name == bvtrain-without-libtorch* ]]; then
      chroot_run root "$install_deb" "$name"
      chroot_run tester 'bvtrain --version && exit 1; [[ $? == 2 ]]'
      bv_find_libtorch
      chroot_mount "$bv_torch/.." opt/packages ro
      use="export BVTRAIN_LIBTORCH=/opt/packages/torch; $use"
    else
      chroot_run root "$install_deb" "$name"
    fi
    chroot_run root "$remove_deb" "$name"
    chroot_run root '[[ -s /usr/share/man/man1/bvtrain.1.gz && -s /usr/share/bash-completion/completions/bvtrain ]]'
    use="configs=/usr/share/bvtrain/configs; $use" ;;
  *.whl)
    chroot_run root "$install_pip"
    chroot_run tester 'python3 -m venv env; env/bin/pip install -q $2 "/tmp/$1"' "$name" "${BVTRAIN_CHECK_TORCH:-}"
    use="PATH=\$HOME/env/bin:\$PATH configs=\$HOME/env/share/bvtrain/configs; $use" ;;
  *.tar.gz)
    chroot_run tester 'tar xzf "/tmp/$1"; mv bvtrain-* moved' "$name"
    use="PATH=\$HOME/moved/bin:\$PATH configs=\$HOME/moved/share/bvtrain/configs; $use" ;;
esac
echo "installed in $suite in $((SECONDS - start)) s"
chroot_run tester "$use"
echo "$name: works in $suite"

#!/usr/bin/env bash
# scripts/fresh_debian.sh [FOLDER]: proves both commands in a clean Debian 12: debootstrap into
# FOLDER (default: a temporary one, removed afterwards), git clone, scripts/bvtrain.sh on digits_cnn,
# scripts/test.sh. Needs root and debootstrap. $BVTRAIN_SHARED, where set, is mounted read-only.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $EUID -eq 0 ]] || { echo "needs root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "needs the package debootstrap" >&2; exit 2; }

target=${1:-$(mktemp -d)}
mounts=()
finish() {
  for mount in "${mounts[@]}"; do umount -l "$mount"; done
  [[ -n ${1:-} ]] || rm -rf --one-file-system "$target"
}
trap 'finish "${1:-}"' EXIT

mirror=$(grep -hoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
debootstrap --variant=minbase bookworm "$target" "${mirror:-http://deb.debian.org/debian}"

# The host's way to its package sources and to PyPI.
cp -rL /etc/apt/sources.list* /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d "$target/etc/apt/" 2>/dev/null || true
[[ -d /etc/apt/keyrings ]] && cp -r /etc/apt/keyrings "$target/etc/apt/"
mkdir -p "$target/etc/ssl/certs"
cp -L /etc/ssl/certs/ca-certificates.crt "$target/etc/ssl/certs/" 2>/dev/null || true
cp -L /etc/resolv.conf /etc/hosts "$target/etc/"
[[ -e /etc/pip.conf ]] && cp -L /etc/pip.conf "$target/etc/"
[[ -e $HOME/.config/pip/pip.conf ]] && mkdir -p "$target/root/.config/pip" && cp -L "$HOME/.config/pip/pip.conf" "$target/root/.config/pip/"

mkdir -p "$target/dev/pts" "$target/src" "$target/shared"
for mount in proc dev dev/pts; do
  mount --bind "/$mount" "$target/$mount" && mounts=("$target/$mount" "${mounts[@]}")
done
mount --bind -o ro "$root" "$target/src" && mounts=("$target/src" "${mounts[@]}")
environment=()
if [[ -n ${BVTRAIN_SHARED:-} ]]; then
  mount --bind -o ro "$BVTRAIN_SHARED" "$target/shared" && mounts=("$target/shared" "${mounts[@]}")
  environment+=(BVTRAIN_SHARED=/shared)
fi
while IFS= read -r variable; do environment+=("$variable"); done < <(env | grep -E '^(PIP_|SSL_|https?_proxy|HTTPS?_PROXY)' || true)

# shellcheck disable=SC2016
env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "${environment[@]}" chroot "$target" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends git ca-certificates >/dev/null
  git config --global --add safe.directory "*"
  git clone -q /src /root/bvtrain
  cd /root/bvtrain
  time scripts/bvtrain.sh --config configs/digits_cnn.yaml --workdir out/digits
  tail -n 1 out/digits/metrics.jsonl
  time scripts/test.sh
'
echo "fresh Debian: both commands ended with exit code 0"

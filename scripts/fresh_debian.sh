#!/usr/bin/env bash
# scripts/fresh_debian.sh [FOLDER]: checks that scripts/bvtrain.sh and scripts/test.sh work in a clean
# Debian 12. Installs Debian with debootstrap into FOLDER (default: a temporary one, removed
# afterwards), clones this repository there, trains configs/digits_cnn.yaml, and runs all tests. Needs
# root and debootstrap. If $BVTRAIN_SHARED is set, it is mounted read-only.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $EUID -eq 0 ]] || { echo "needs root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "needs the package debootstrap" >&2; exit 2; }

target=${1:-$(mktemp -d)}
chmod 755 "$target"  # apt downloads as another user
mounts=()
finish() {
  for mount in "${mounts[@]}"; do umount -l "$mount"; done
  [[ -n ${1:-} ]] || rm -rf --one-file-system "$target"
}
trap 'finish "${1:-}"' EXIT

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
  grep -E '^(URIs:|deb ).*debian' | grep -oE 'https?://[^ ]+' | head -n 1 || true)
debootstrap --variant=minbase bookworm "$target" "${mirror:-http://deb.debian.org/debian}"

# Use the package sources and the PyPI index of this host.
cp -rL /etc/apt/{sources.list*,apt.conf.d,auth.conf.d,trusted.gpg.d,keyrings} "$target/etc/apt/" 2>/dev/null || true
[[ -e /etc/apt/sources.list ]] || rm -f "$target/etc/apt/sources.list"  # the list that debootstrap wrote
cp -L /etc/ssl/certs/ca-certificates.crt "$target/host-ca.crt"
cp -L /etc/resolv.conf /etc/hosts "$target/etc/"
for file in /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
  [[ ! -e $file ]] || cp -L "$file" "$target/etc/pip.conf"
done

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
while IFS= read -r variable; do environment+=("$variable"); done < <(env | grep -E '^(PIP_(INDEX|EXTRA|TRUSTED|DEFAULT)|https?_proxy|HTTPS?_PROXY)' || true)
environment+=(PIP_CERT=/host-ca.crt)

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

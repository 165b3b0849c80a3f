#!/usr/bin/env bash
# scripts/fresh_debian.sh [FOLDER]: checks that scripts/bvtrain.sh and scripts/test.sh work in a clean
# Debian 12. Installs Debian with debootstrap into FOLDER (default: a temporary one, removed
# afterwards), clones this repository there, trains configs/digits_cnn.yaml, and runs all tests. Needs
# root and debootstrap. If $BVTRAIN_SHARED is set, it is mounted read-only.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/chroot.sh"
chroot_make bookworm "${1:-}"
chroot_mount "$root" src ro
if [[ -n ${BVTRAIN_SHARED:-} ]]; then
  chroot_mount "$BVTRAIN_SHARED" shared ro
  chroot_environment+=(BVTRAIN_SHARED=/shared)
fi

# shellcheck disable=SC2016
chroot_run root '
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

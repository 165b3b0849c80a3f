# Functions for fresh_debian.sh and check_package.sh, which source this file: a clean Debian or Ubuntu
# in a folder. They need root and debootstrap, and use this host's package sources and PyPI index.
# $BVTRAIN_CHROOTS names a folder that keeps the clean systems, so that the next call does not install
# them again.

chroot_mounts=() chroot_folder='' chroot_temporary='' chroot_environment=()

# chroot_make SUITE [FOLDER]: installs SUITE (bookworm, noble) into FOLDER, or a temporary one that is
# removed at the end, and sets chroot_folder.
chroot_make() {
  [[ $EUID -eq 0 ]] || { echo "needs root" >&2; exit 2; }
  command -v debootstrap >/dev/null || { echo "needs the package debootstrap" >&2; exit 2; }
  chroot_folder=${2:-$(mktemp -d)}
  [[ -n ${2:-} ]] || chroot_temporary=1
  trap chroot_finish EXIT
  mkdir -p "$chroot_folder"
  chmod 755 "$chroot_folder"  # apt downloads as another user
  local kept=${BVTRAIN_CHROOTS:+$BVTRAIN_CHROOTS/$1}
  if [[ -z $kept ]]; then
    chroot_bootstrap "$1" "$chroot_folder"
  else
    [[ -e $kept/etc ]] || { chroot_bootstrap "$1" "$kept.new" && mv "$kept.new" "$kept"; }
    cp -a "$kept/." "$chroot_folder"
  fi
  chroot_share_network "$1"
  chroot_mount /proc proc
  chroot_mount /dev dev
  mkdir -p "$chroot_folder/dev/pts"
  chroot_mount /dev/pts dev/pts
}

chroot_bootstrap() {
  local mirror keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  if [[ $1 == noble ]]; then
    # Debian does not have Ubuntu's keys. Nothing from this system leaves the folder.
    [[ -e $keys ]] && keys=--keyring=$keys || keys=--no-check-gpg
    debootstrap "$keys" --variant=minbase "$1" "$2" http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
  else
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
      grep -E '^(URIs:|deb ).*debian' | grep -oE 'https?://[^ ]+' | head -n 1 || true)
    debootstrap --variant=minbase "$1" "$2" "${mirror:-http://deb.debian.org/debian}"
  fi
}

chroot_share_network() {
  local file variable
  if [[ $1 == bookworm ]]; then
    cp -rL /etc/apt/{sources.list*,apt.conf.d,auth.conf.d,trusted.gpg.d,keyrings} "$chroot_folder/etc/apt/" 2>/dev/null || true
    [[ -e /etc/apt/sources.list ]] || rm -f "$chroot_folder/etc/apt/sources.list"  # the list that debootstrap wrote
  fi
  cp -L /etc/ssl/certs/ca-certificates.crt "$chroot_folder/host-ca.crt"
  cp -L /etc/resolv.conf /etc/hosts "$chroot_folder/etc/"
  for file in /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
    [[ ! -e $file ]] || cp -L "$file" "$chroot_folder/etc/pip.conf"
  done
  while IFS= read -r variable; do chroot_environment+=("$variable"); done < <(env | grep -E '^(PIP_(INDEX|EXTRA|TRUSTED|DEFAULT)|https?_proxy|HTTPS?_PROXY)' || true)
  chroot_environment+=(PIP_CERT=/host-ca.crt)
}

# chroot_mount SOURCE FOLDER [OPTIONS]: mounts a folder of this host in the system.
chroot_mount() {
  mkdir -p "$chroot_folder/$2"
  mount --bind ${3:+-o "$3"} "$1" "$chroot_folder/$2" && chroot_mounts=("$chroot_folder/$2" "${chroot_mounts[@]}")
}

# chroot_run USER COMMAND [ARGS...]: runs a bash command in the system, in USER's home.
chroot_run() {
  local home=/home/$1
  [[ $1 != root ]] || home=/root
  env -i HOME="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "${chroot_environment[@]}" \
    chroot --userspec="$1" "$chroot_folder" bash -euc "cd; $2" bash "${@:3}"
}

chroot_finish() {
  local mount
  for mount in "${chroot_mounts[@]}"; do umount -l "$mount"; done
  [[ -z $chroot_temporary ]] || rm -rf --one-file-system "$chroot_folder"
}

# shellcheck shell=bash
# scripts/grid.sh: the grid of a sweep. sweep.sh and slurm.sbatch source it, so that both give the
# same points the same workdirs; cron.sh uses its functions for arguments.
#
#   --out DIR               the folder for the points' workdirs
#   --grid KEY V1 [V2 ...]  the values of a config key, up to the next argument that begins with "--"
#   anything else           is passed on to bvtrain for every point; -- is left out
#
# --grid may be repeated. The points are all combinations, numbered from 1; the values of the last
# key change fastest.

grid_fail() {
  echo "$(basename "$0"): error: $*" >&2
  exit 2
}

# Prints the arguments as a shell would read them.
grid_quote() {
  local argument line=''
  for argument in "$@"; do
    [[ $argument =~ ^[A-Za-z0-9_./=,:+@%-]+$ ]] || argument=${argument@Q}
    line+=${line:+ }$argument
  done
  echo "$line"
}

# grid_option NAME DEFAULT ARGS...: prints the value of the last --NAME in the arguments.
grid_option() {
  local name=--$1 value=$2
  shift 2
  while [[ $# -gt 0 ]]; do
    case $1 in
      "$name") value=${2:-} ;;
      "$name="*) value=${1#*=} ;;
    esac
    shift
  done
  printf '%s\n' "$value"
}

# grid_state ARGS...: prints the arguments of bvtrain, and a checksum of the config that they name and
# of each file that it includes.
grid_state() {
  local file included name rest count
  file=$(grid_option config "${BVTRAIN_CONFIG:-}" "$@")
  grid_quote "$@"
  for ((count = 0; count < 20; ++count)); do # files may include each other
    [[ -f $file && -r $file ]] || return 0
    printf '%s %s\n' "$file" "$(cksum <"$file")"
    included=$(sed -nE "/^[{[:space:]]*['\"]?include['\"]?[[:space:]]*:/{
      s/^[^:]*:[[:space:]]*//; s/^\"([^\"]*)\".*/\1/; s/^'([^']*)'.*/\1/
      s/^((\\$\{[^}]*\}|[^,}#])*).*/\1/; s/[[:space:]]*\$//; p; q; }" "$file")
    rest='' # the last variable first, so that "${" in a value stays as it is
    while [[ $included =~ ^(.*)\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}(.*)$ ]]; do
      name=${BASH_REMATCH[2]} included=${BASH_REMATCH[1]}
      rest=${!name:-${BASH_REMATCH[4]}}${BASH_REMATCH[5]}$rest
    done
    included+=$rest
    [[ -n $included ]] || return 0
    [[ $included == /* ]] || included=$(dirname "$file")/$included
    file=$included
  done
}

# Whether $BVTRAIN_CLEANUP asks for --cleanup.
grid_cleans_up() {
  local value=${BVTRAIN_CLEANUP:-0}
  [[ ! ${value,,} =~ ^(0|f|n|-|false|off|no|disable)$ ]]
}

# grid_parse ARGS...: sets grid_out, grid_rest (what bvtrain gets for every point), grid_keys,
# grid_values (those of all keys in one list), grid_sizes (the number of values of each key) and
# grid_count (the number of points).
grid_parse() {
  grid_out='' grid_rest=() grid_keys=() grid_values=() grid_sizes=() grid_count=1
  while [[ $# -gt 0 ]]; do
    case $1 in
      --out) grid_out=${2:-} && shift $(($# > 1 ? 2 : 1)) ;;
      --out=*) grid_out=${1#--out=} && shift ;;
      --grid)
        [[ $# -gt 1 && $2 != --* && $2 != *=* && -n $2 ]] ||
          grid_fail "--grid needs a key and its values: --grid lr 0.001 0.003"
        grid_add_key "${@:2}"
        shift $((2 + grid_sizes[-1])) ;;
      --workdir | --workdir=*)
        grid_fail "give --out DIR in place of --workdir: each point gets its own workdir in it" ;;
      --cleanup | --cleanup=*) grid_fail "--cleanup would remove the results: the next call would train again" ;;
      --) shift ;; # bvtrain would treat nothing after it as an option, not even --workdir
      *) grid_rest+=("$1") && shift ;;
    esac
  done
  grid_cleans_up && grid_fail "\$BVTRAIN_CLEANUP would remove the results: the next call would train again"
  [[ -n $grid_out ]] || grid_fail "no --out DIR given"
  [[ ${#grid_keys[@]} -gt 0 ]] || grid_fail "no --grid KEY VALUES given"
  [[ $grid_out == / ]] || grid_out=${grid_out%/}
  local argument key
  for argument in "${grid_rest[@]}"; do
    for key in "${grid_keys[@]}"; do
      [[ $argument != "$key="* && $argument != "--set=$key="* && $argument != "--config.$key="* &&
        $argument != "--config.$key" ]] ||
        grid_fail "$key has values in the grid, and another one in '$argument'"
      # bvtrain gets the points' values last.
      [[ $argument != "$key".*=* && $argument != "--set=$key".*=* && $argument != "--config.$key".* ]] ||
        grid_fail "the values of --grid $key would replace '$argument'; give that key a --grid, too"
    done
  done
}

# grid_add_key KEY VALUES... [--OPTION ...]
grid_add_key() {
  local key=$1 value size=0
  local -A seen=()
  for value in "${grid_keys[@]}"; do
    [[ $value != "$key" ]] || grid_fail "--grid $key is given twice"
    [[ $value != "$key".* ]] ||
      grid_fail "the values of --grid $key would replace those of --grid $value; give --grid $key first"
  done
  shift
  for value in "$@"; do
    [[ $value != --* ]] || break
    value=${value:-null} # bvtrain refuses an empty value
    [[ -z ${seen[=$value]:-} ]] || grid_fail "--grid $key has the value '$value' twice"
    seen[=$value]=1 # "=", because "@" and "*" are no subscripts
    grid_values+=("$value")
    size=$((size + 1))
  done
  [[ $size -gt 0 ]] || grid_fail "--grid $key has no values"
  grid_keys+=("$key") grid_sizes+=("$size") grid_count=$((grid_count * size))
}

# grid_point N: sets point_sets (the point's --set arguments), point_name (lr=0.001,seed=2) and
# point_workdir. Characters that are awkward in a file name become "_"; a checksum of the arguments
# then distinguishes the names of different points.
# shellcheck disable=SC2034 # the scripts use them
grid_point() {
  local LC_ALL=C rest=$(($1 - 1)) offset=${#grid_values[@]} exact='' i setting
  point_sets=() point_name=''
  for ((i = ${#grid_keys[@]} - 1; i >= 0; --i)); do
    offset=$((offset - grid_sizes[i]))
    setting=${grid_keys[i]}=${grid_values[offset + rest % grid_sizes[i]]}
    rest=$((rest / grid_sizes[i]))
    point_sets=(--set "$setting" "${point_sets[@]}")
    exact=${setting//,/ }${exact:+,$exact} # a comma in a value is awkward, too
  done
  point_name=${exact//[^A-Za-z0-9._+=,-]/_}
  point_name=${point_name:0:120}
  if [[ $point_name != "$exact" ]]; then
    point_name+=-$(printf '%08x' "$(printf '%s\n' "${point_sets[@]}" | cksum | cut -d' ' -f1)")
  fi
  point_workdir=$grid_out/$point_name
}

# Ends the script if the arguments name a config that does not exist.
grid_check_config() {
  local config
  config=$(grid_option config "${BVTRAIN_CONFIG:-}" "${grid_rest[@]}")
  [[ -z $config || (-r $config && ! -d $config) ]] || grid_fail "$config: no such file"
}

# Ends the script if $grid_out contains points from other arguments or another config: finished points
# would keep their results, and the others would be trained with the new ones. Otherwise records the
# arguments there.
grid_check_arguments() {
  local note=$grid_out/.grid-arguments now made
  grid_check_config
  mkdir -p "$grid_out" || exit 5
  now=$(grid_state "${grid_rest[@]}")
  if [[ ! -e $note ]]; then
    # Another array task may do the same. A file that is moved into place is never seen half-written.
    made=$(mktemp "$note.XXXXXX") && echo "$now" >"$made" || exit 5
    mv -n "$made" "$note"
    rm -f "$made"
    [[ -e $note ]] || exit 5
  fi
  [[ $(cat "$note") != "$now" ]] || return 0
  echo "$(basename "$0"): error: $grid_out was begun with other arguments, or the config has changed since:" >&2
  diff "$note" - <<<"$now" | sed -n 's/^[<]/  then:/p; s/^>/  now: /p' >&2
  echo "choose another --out; or remove $note to go on with the points that are there" >&2
  exit 2
}

# grid_note_end WORKDIR CODE: records how a run failed where `bvtrain compare` looks for it. A run that
# was stopped or killed has not failed: it continues. Code 2 means that the run did not begin: another
# process may be using the workdir.
grid_note_end() {
  case $2 in
    2) ;;
    0 | 75 | 129 | 130 | 137 | 143) rm -f "$1/FAILED" ;;
    5) [[ ! -d $1 ]] || echo "$2" >"$1/FAILED" ;; # the workdir may be gone; it must not be made again
    *) mkdir -p "$1" && echo "$2" >"$1/FAILED" ;;
  esac
}
grid_has_diverged() { [[ $(cat "$1/FAILED" 2>/dev/null) == 4 && ! -e $1/DONE ]]; }

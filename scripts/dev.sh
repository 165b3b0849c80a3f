#!/usr/bin/env bash
# scripts/dev.sh build|lint|format|docs|tidy|asan|tsan|fuzz|ends|flips|soak: developer commands, besides test.sh.
# CONTRIBUTING.md describes them.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"

# Checks the order of the folders of lib/: a file may include its own folder and those before it.
# Also checks that only the right folders use yaml-cpp, spdlog and c10d.
lint_include_order() {
  awk '
    BEGIN {
      n = split("util config report device distributed ckpt compare input model tasks evals params optim train export predict init help bench cuda", modules, " ")
      for (i = 1; i <= n; ++i) rank[modules[i]] = i
      models["util"] = models["config"] = models["model"] = 1
    }
    match($0, /^#include "lib\/[a-z]+\//) {
      included = substr($0, RSTART + 14, RLENGTH - 15)
      split(FILENAME, part, "/")
      module = part[1] == "lib" ? "lib/" part[2] : part[1]
      if (part[1] == "models") bad = !(included in models)
      else if (part[1] == "lib") bad = !(included in rank) || rank[included] > rank[part[2]]
      else bad = 0
      if (bad) {
        printf "%s:%d: error: %s may not include lib/%s\n", FILENAME, FNR, module, included
        status = 1
      }
    }
    /^#include [<"]torch\/torch\.h/ { printf "%s:%d: error: torch/torch.h takes 12 s to compile; include what is used\n", FILENAME, FNR; status = 1 }
    /^#include <yaml-cpp/ && FILENAME !~ /^lib\/config\// { printf "%s:%d: error: only lib/config uses yaml-cpp\n", FILENAME, FNR; status = 1 }
    /^#include <spdlog/ && FILENAME !~ /^lib\/report\// { printf "%s:%d: error: only lib/report uses spdlog\n", FILENAME, FNR; status = 1 }
    /^#include <(torch\/csrc\/distributed|gloo)/ && FILENAME !~ /^lib\/(distributed\/[a-z_\/]*(\.cc|_impl\.h)|cuda\/.*\.cc):?$/ { printf "%s:%d: error: only sources of lib/distributed use c10d\n", FILENAME, FNR; status = 1 }
    END { exit status }
  ' $(git ls-files -co --exclude-standard '*.cc' '*.h' | grep -E '^(app|lib|models)/')
}

# Checks that every type and inline function has one definition, that names of one source are its own in the module,
# that every config key that is read has a help text, and that no line is too long: the formatter skips
# comments. An empty catch needs a comment.
lint_names_and_lines() {
  local sources
  mapfile -t sources < <(git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu' | grep -E '^(app|lib|models)/')
  python3 scripts/lint_names.py "${sources[@]}"
  # test/cuda/emulation and test/emulated_cuda each replace headers of lib/cuda in their own program.
  git ls-files -co --exclude-standard 'test/*.h' | grep -v emulat | xargs python3 scripts/lint_names.py
  git ls-files -co --exclude-standard 'test/*.cc' | xargs python3 scripts/lint_names.py --local
  python3 scripts/lint_keys.py "${sources[@]}"
  awk 'length($0) > 100 && /^ *\/\// { printf "%s:%d: error: longer than 100 columns\n", FILENAME, FNR; status = 1 } END { exit status }' \
    $(git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu')
  awk '
    FNR > 1 && before ~ /catch \(.*\) \{$/ && /^ *\}$/ { printf "%s:%d: error: an empty catch without a comment\n", FILENAME, FNR; status = 1 }
    { before = $0 }
    END { exit status }
  ' "${sources[@]}"
}

# Checks that the CUDA plug-in exports exactly the functions that other code looks up by name.
lint_cuda_names() {
  local used exported
  used=$(grep -rhoE '"bvtrain_cuda_[a-z0-9_]+"' lib app test --include='*.cc' --include='*.h' | tr -d '"' | sort -u)
  exported=$(grep -rhE '^(extern "C" )?BV_EXPORT' lib/cuda | grep -oE 'bvtrain_cuda_[a-z0-9_]+' | sort -u)
  if ! diff <(echo "$used") <(echo "$exported") >/dev/null; then
    diff <(echo "$used") <(echo "$exported") |
      sed -nE 's/^< (.*)/lib\/cuda: error: does not export \1, which is looked up/p; s/^> (.*)/lib\/cuda: error: exports \1, which nothing looks up/p'
    return 1
  fi
}

sanitized() {
  source scripts/setup.sh && bv_find_libtorch
  cmake --preset "$1" -D BVTRAIN_LIBTORCH="$bv_torch" >/dev/null
  ninja -C "build/$1" all
  # The thread sanitizer cannot map its memory if libraries are at random addresses.
  (cd "build/$1" && setarch --addr-no-randomize ctest --output-on-failure "${@:2}")
}

# fuzz [TARGET] [SECONDS]: runs one fuzz target of test/fuzz, or all one after the other, for 60 seconds
# each. Failing inputs are saved in test/fuzz/regression/<target>, where test_fuzz tests them. Inputs
# that reach new code are saved in build/fuzz/corpus, and the cost of all runs in build/fuzz/tally.tsv:
# target, seconds of CPU time, executions.
fuzz() {
  local target=${1:-all} seconds=${2:-60} clang name names folder max_len executions cpu failed=() TIMEFORMAT='%U %S'
  clang=$(command -v clang++-{19,18,17,16} clang++ | head -n 1) || true
  if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
      "${clang:-clang++}" -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
    echo "dev.sh fuzz: needs clang 16 or newer with libFuzzer; on Debian: apt-get install clang-19 libclang-rt-19-dev" >&2
    exit 2
  fi
  source scripts/setup.sh && bv_find_libtorch
  cmake --preset fuzz -D CMAKE_CXX_COMPILER="$clang" -D BVTRAIN_LIBTORCH="$bv_torch" >/dev/null
  ninja -C build/fuzz "fuzz_$target"
  names=("$target")
  [[ $target != all ]] || mapfile -t names < <(cd test/fuzz && ls *.cc | grep -vxE '(fuzz|corpus_test)\.cc' | sed 's/\.cc$//')
  for name in "${names[@]}"; do
    folder=test/fuzz/regression/$name
    mkdir -p "build/fuzz/corpus/$name" "$folder"
    # Short inputs run many times faster, and long ones reach more limits: one run in four has long ones.
    max_len=8192; ((RANDOM % 4)) || max_len=70000
    # The resident memory limit has room for the sanitizer and LibTorch. No single block may exceed
    # 1 GiB.
    { time ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 "build/fuzz/fuzz_$name" -max_total_time="$seconds" \
      -timeout=10 -report_slow_units=10 -rss_limit_mb=2560 -malloc_limit_mb=1024 -max_len="$max_len" \
      -print_final_stats=1 -artifact_prefix="$folder/" \
      "build/fuzz/corpus/$name" "test/fuzz/corpus/$name" "$folder" >"build/fuzz/$name.log" 2>&1 ||
      failed+=("$name"); } 2>build/fuzz/time
    rmdir --ignore-fail-on-non-empty "$folder"
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")
    cpu=$(awk '{ print $1 + $2 }' build/fuzz/time)
    printf '%s\t%s\t%s\n' "$name" "$cpu" "${executions:-0}" >>build/fuzz/tally.tsv
    awk -F '\t' -v name="$name" -v now="${executions:-0}" '
      $1 == name { cpu += $2; executions += $3 }
      END { printf "%s: %d executions; %d in %.1f CPU minutes so far\n", name, now, executions, cpu / 60 }' build/fuzz/tally.tsv
  done
  [[ ${#failed[@]} -eq 0 ]] || { echo "findings in ${failed[*]}: see build/fuzz/<target>.log and test/fuzz/regression" >&2; exit 1; }
}

case ${1:-} in
  build) source scripts/setup.sh && bv_find_libtorch && bv_build "${@:2}" ;;
  lint)
    git rev-parse --git-dir >/dev/null # without a repository there are no files to check, and awk would wait for input
    lint_include_order
    echo "lint: include order is fine"
    lint_names_and_lines
    lint_cuda_names
    echo "lint: every type and inline function has one definition, every key a help text, no line is too long"
    if command -v clang-format >/dev/null && [[ ${2:-} != --order-only ]]; then
      git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format --dry-run --Werror && echo "lint: format is fine"
    fi ;;
  docs)
    # The reference pages and the JSON Schema, which are generated from the key tables.
    source scripts/setup.sh && bv_find_libtorch && bv_build bvtrain
    build/release/bvtrain help --reference docs/reference
    build/release/bvtrain schema >configs/bvtrain.schema.json ;;
  format) git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format -i ;;
  tidy)
    # The sources need std::source_location, which clang supports from version 16 on. A separate
    # folder, because clang cannot read GCC's precompiled headers: without a build there are none.
    tidy=$(command -v clang-tidy-{19,18,17,16} clang-tidy | head -n 1) || true
    [[ -n $tidy ]] || { echo "dev.sh tidy: needs clang-tidy 16 or newer; on Debian: apt-get install clang-tidy-19" >&2; exit 2; }
    source scripts/setup.sh && bv_find_libtorch
    cmake --preset release -B build/tidy -D BVTRAIN_LIBTORCH="$bv_torch" >/dev/null
    mkdir -p build/tidy/openmp  # GCC's omp.h without an attribute that clang does not support
    sed -E 's/__malloc__ \(omp_free\),? ?//' "$(g++ -print-file-name=include/omp.h)" >build/tidy/openmp/omp.h
    files=("${@:2}")
    [[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(git ls-files -co --exclude-standard 'app/*.cc' 'lib/**.cc' 'models/*.cc')
    printf '%s\0' "${files[@]}" | xargs -0 -P 2 -n 1 "$tidy" -p build/tidy --quiet \
      --extra-arg=-isystem"$PWD/build/tidy/openmp" ;;
  asan) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 sanitized asan "${@:2}" ;;
  tsan) TSAN_OPTIONS="suppressions=$root/test/tsan.supp allocator_may_return_null=1 die_after_fork=0 report_mutex_bugs=0 detect_deadlocks=0 history_size=7" sanitized tsan "${@:2}" ;;
  fuzz) fuzz "${@:2}" ;;  # [TARGET|all] [SECONDS of each]
  ends)  # times 200 normal ends of 1 to 8 ranks and prints the longest of each size; takes minutes
    source scripts/setup.sh && bv_find_libtorch && bv_build bvtrain test_e2e
    BVTRAIN=$root/build/release/bvtrain build/release/test_e2e '[ends]' ;;
  flips)  # flips every bit of a checkpoint, one at a time
    source scripts/setup.sh && bv_find_libtorch && bv_build test_ckpt
    build/release/test_ckpt '[flips]' 2>/dev/null ;;
  soak)  # a million batches, 1,440 saves; takes minutes
    source scripts/setup.sh && bv_find_libtorch && bv_build test_input test_ckpt
    build/release/test_input '[soak]' && build/release/test_ckpt '[soak]' ;;
  *) echo "usage: scripts/dev.sh build|lint|format|docs|tidy|asan|tsan|fuzz|ends|flips|soak" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# ranks.sh [OUT [CASES]]: runs the tests of gpu_test, which lies next to this script, with GPUs as ranks of a group.
# They gather in CASES (400) random cases and in replayed graphs, meet ranks that never come or fail, and time a gather.
# If there is one GPU, two ranks share it. Reports as JSON and text are in OUT (.). It takes less than three minutes,
# and exits 1 if any part has failed.
set -uo pipefail
out=$(realpath "${1:-.}") cases=${2:-400} failed=0
cd "$(dirname "${BASH_SOURCE[0]}")"

part() { # NAME SECONDS FLAGS...
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  if timeout "$seconds" ./gpu_test "$@" --json "$out/$name.json" >"$out/$name.txt" 2>&1; then
    echo "$name: passed in $((SECONDS - start)) s"
  else
    echo "$name: FAILED in $((SECONDS - start)) s"
    grep -v '^\[' "$out/$name.txt" | tail -n 25
    failed=1
  fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
part ranks 80 --part 5 --cases "$cases"
part ranks_without_early_starts 40 --part 5 --cases 50 --early off --gtest_filter='GpuRanks.HaveTheWholeRows:GpuRanks.GatherInReplayedGraphsHowever*'
part ranks_fault 20 --part 7
part ranks_speed 40 --part 6
grep -hE '^(ranks:|a rank|a GPU|the host)' "$out"/ranks*.txt
grep -E 'us a gather|share|us$' "$out/ranks_speed.txt"
exit $failed

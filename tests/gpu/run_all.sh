#!/usr/bin/env bash
# run_all.sh [OUT [CASES]]: every part of gpu_test, which lies beside this script, on GPU 0; reports as JSON and text in
# OUT (.). Ops are tested by several processes, each some of them. Then, where it is installed, compute-sanitizer over
# fewer cases. Prints a line a part; exits 1 if any has failed.
set -uo pipefail
out=$(realpath "${1:-.}")
cases=${2:-400}
cd "$(dirname "${BASH_SOURCE[0]}")"
shards=8
failed=0

part() { # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$out/$name.txt" 2>&1; then
    echo "$name: passed in $((SECONDS - start)) s"
  else
    echo "$name: FAILED in $((SECONDS - start)) s"
    grep -v '^\[' "$out/$name.txt" | tail -n 25
    failed=1
  fi
}

ops() {
  local jobs=() status=0 i
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i ./gpu_test --part 1 --cases "$cases" \
      --json "$out/ops_$i.json" >"$out/ops_$i.txt" 2>&1 &
    jobs+=($!)
  done
  for i in "${jobs[@]}"; do wait "$i" || status=1; done
  cat "$out"/ops_?.txt
  return $status
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
part ops ops
part speed ./gpu_test --part 2 --json "$out/speed.json"
grep -hE 'GB/s| us$' "$out/speed.txt"
part fault ./gpu_test --part 3 --json "$out/fault.json"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck initcheck synccheck racecheck; do
    part "$tool" timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 9 ./gpu_test --part 1 --cases 6
  done
fi
tar cJf "$out/gpu_test.tar.xz" -C "$out" --remove-files $(cd "$out" && ls ./*.json ./*.txt)
exit $failed

#!/usr/bin/env bash
# sanitize.sh [OUT [CASES [SECONDS]]]: runs gpu_test, which lies next to this script, under the tools of
# compute-sanitizer, all at once: the device's tests and CASES (2) cases of each op, with every array in memory of its
# own. Reports are in OUT (.). It prints a line for each tool. It exits 1 if any found something or took longer than
# SECONDS (150), and 0 if there is no compute-sanitizer, which it then says.
set -uo pipefail
out=$(realpath "${1:-.}") cases=${2:-2} seconds=${3:-150}
cd "$(dirname "${BASH_SOURCE[0]}")"
sanitizer=$(PATH=$PATH:$PWD:/usr/local/cuda/bin command -v compute-sanitizer)
if [ -z "$sanitizer" ]; then
  echo "sanitize: there is no compute-sanitizer on this machine: nothing was checked"
  exit 0
fi
tools=(memcheck initcheck synccheck racecheck) jobs=() failed=0
for tool in "${tools[@]}"; do
  # One test is a map that fails.
  options=(--tool "$tool" --error-exitcode 9)
  [ "$tool" = memcheck ] && options+=(--report-api-errors no)
  timeout "$seconds" "$sanitizer" "${options[@]}" ./gpu_test --part 1 --memory managed --cases "$cases" >"$out/$tool.txt" 2>&1 &
  jobs+=($!)
done
for i in "${!jobs[@]}"; do
  wait "${jobs[i]}"
  code=$?
  echo "${tools[i]}: exit $code, $(grep -c '^\[       OK' "$out/${tools[i]}.txt") tests, $(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/${tools[i]}.txt" | tail -n 1)"
  [ "$code" = 0 ] || failed=1
done
exit $failed

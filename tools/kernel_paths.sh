#!/usr/bin/env bash
# kernel_paths.sh BUILD_DIR [FLAG...]: the kernels' tests on every path of this machine. Runs BUILD_DIR's kernels_test
# with the FLAGs (--gtest_filter=...) once for each restriction of what the processor has (--kernels), and once with the
# scalar kernels, and prints a line for each. Needs the two programs kernels_test and sluice alone, no compiler and no
# network.
set -euo pipefail
build=${1:?usage: kernel_paths.sh BUILD_DIR [FLAG...]}
shift
sluice=$build/sluice test=$build/kernels_test
for program in "$sluice" "$test"; do
  [ -x "$program" ] || { echo "kernel_paths: $program: no such program" >&2; exit 1; }
done

# All features, then without each; then with each judgement that the machine's own is not.
features=$("$sluice" kernels | sed -n '1s/^machine .*: //p')
restrictions=("")
for feature in $features; do restrictions+=("-$feature"); done
for judgement in fast_bf16_dot reads_ahead scales_by_exponents emulated_tiles; do
  case " $features " in
    *" $judgement "*) ;;
    *) ! "$sluice" kernels --kernels "+$judgement" >/dev/null 2>&1 || restrictions+=("+$judgement") ;;
  esac
done

echo "features: ${features:-none}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for restriction in "${restrictions[@]}"; do
  start=$SECONDS
  result=passed
  SLUICE_TEST_KERNELS=$restriction "$test" --gtest_brief=1 "$@" >"$log" 2>&1 || { result=FAILED && failed=1; }
  ran=$(sed -nE 's/^\[==========\] ([0-9]+) tests? .* ran.*/\1/p' "$log")
  printf '%-22s %-8s %5s tests %5d s   %s\n' "${restriction:-(all)}" "$result" "${ran:-?}" $((SECONDS - start)) \
    "$("$sluice" kernels --kernels "$restriction" | sed -n '2s/^chosen *//p')"
  [ "$result" = passed ] || grep -E '^\[  FAILED|Failure|SLUICE_TEST_SEED|Aborted|Segmentation|Illegal' "$log" | head -20
done
exit $failed

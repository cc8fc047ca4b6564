#!/usr/bin/env bash
# server.sh FOLDER OUT [PARTS]: tests servers on a machine with a GPU, from the root of a checkout; FOLDER has sluice
# and soak_test. PARTS (both): schedules compares servers on the GPU under several sets of flags with one on the
# CPU (server.py). The part soak runs phases of the soak test with the embedded model until SOAK_SECONDS (300) are over,
# with memory that must stay flat on the host and on the GPU. It prints a line for each, and exits 1 if any fails.
set -uo pipefail
folder=$(realpath "$1") out=$(realpath "$2") parts=${3:-schedules soak} failed=0
if [[ " $parts " == *" schedules "* ]]; then
  SLUICE_BUILD_DIR=$folder python3 tests/gpu/server.py | tee "$out/schedules.txt" || failed=1
fi
if [[ " $parts " == *" soak "* ]]; then
  start=$SECONDS
  export SLUICE_SOAK_DEVICE=cuda SLUICE_SOAK_MODEL=$PWD/models/sluice-tiny-v4 SLUICE_SOAK_REQUESTS=${SOAK_REQUESTS:-800}
  while ((SECONDS - start < ${SOAK_SECONDS:-300} && failed == 0)); do
    "$folder/soak_test" --gtest_brief=1 >"$out/soak.txt" 2>&1 || failed=1
    grep -E 'SLUICE_TEST_SEED|memory|compared|Failure|FAILED|grows' "$out/soak.txt"
    nvidia-smi --query-gpu=memory.used --format=csv,noheader
  done
  echo "soak: $([ "$failed" = 0 ] && echo passed || echo FAILED) in $((SECONDS - start)) s"
fi
exit $failed

#!/bin/sh
# Checks that every patch in docs/examples applies to the tree: they show how something is added (docs/dev/adding.md).
set -eu
cd "$(dirname "$0")/.."

failed=0
for patch in docs/examples/*.patch; do
  git apply --check "$patch" || { echo "examples: $patch does not apply; make it anew" >&2; failed=1; }
done
exit $failed

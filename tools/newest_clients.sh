#!/usr/bin/env bash
# newest_clients.sh [--pinned] [PYTEST ARGS]: tests the program in build/ (SLUICE_BUILD_DIR) with the newest versions of the clients of
# tests/clients/requirements.txt (--pinned: those that it names), from PyPI in a fresh environment, and names them. For a nightly job: it fails if one fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
pinned=0
[ "${1:-}" != --pinned ] || { pinned=1; shift; }
mapfile -t names < <(sed -nE 's/^([^#=]+)==.*/\1/p' "$root/tests/clients/requirements.txt")
wanted=("${names[@]}")
[ $pinned = 0 ] || wanted=(-r "$root/tests/clients/requirements.txt")
python3 -m venv "$place"
"$place/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-compile --upgrade "${wanted[@]}"
"$place/bin/python" -m pip freeze | grep -iE "^($(IFS='|' && echo "${names[*]%%[*}"))=="
SLUICE_BUILD_DIR=${SLUICE_BUILD_DIR:-$root/build} "$place/bin/python" -m pytest -q -p no:cacheprovider "$root/tests/clients" "$@"

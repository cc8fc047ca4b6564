#!/usr/bin/env bash
# client_frameworks.sh [--newest] [PYTEST ARGS]: tests the program in build/ (SLUICE_BUILD_DIR) with the frameworks of
# tests/clients/requirements.txt, from PyPI in a fresh environment (500 MB, removed at the end). CI runs the versions
# that the file pins; with --newest a nightly job tries the newest ones, names them, and fails loudly if one fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
list=$root/tests/clients/requirements.txt
mapfile -t names < <(sed -nE 's/^([^#=]+)==.*/\1/p' "$list")
wanted=(-r "$list")
[ "${1:-}" != --newest ] || { wanted=("${names[@]}"); shift; }
python3 -m venv "$place"
"$place/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-compile --upgrade "${wanted[@]}"
"$place/bin/python" -m pip freeze | grep -iE "^($(IFS='|' && echo "${names[*]%%[*}"))=="
SLUICE_BUILD_DIR=${SLUICE_BUILD_DIR:-$root/build} "$place/bin/python" -m pytest -q -p no:cacheprovider -W ignore \
  "$root/tests/clients" "$@"

#!/usr/bin/env bash
# check_failure_modes.sh: every test that docs/dev/failure_modes.md names exists. A name without a suite has the suite before it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=$(grep -rhoE '^(TYPED_)?TEST(_F|_P)?\([A-Za-z0-9]+, *[A-Za-z0-9]+\)' src tests --include='*_test.cc' |
  sed -E 's/^[A-Z_]+\(([A-Za-z0-9]+), *([A-Za-z0-9]+)\)/\1.\2/')
python_tests=$(grep -hoE '^def test_\w+' tests/*_test.py | sed 's/^def //')

missing=0
while read -r name; do
  case $name in
    test_*) grep -qxF "$name" <<<"$python_tests" && continue ;;
    *.\*) grep -q "^${name%\*}" <<<"$tests" && continue ;;
    *) grep -qxF "$name" <<<"$tests" && continue ;;
  esac
  printf 'docs/dev/failure_modes.md: there is no test %s\n' "$name" >&2
  missing=1
done < <(grep -oE '`(test_\w+|[A-Z][A-Za-z0-9]*\.(\w+|\*)|\.[A-Z]\w+)`' docs/dev/failure_modes.md | tr -d '`' |
  awk -F. '{ if ($1 == "") print suite "." $2; else { suite = $1; print } }')
exit $missing

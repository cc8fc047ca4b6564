#!/usr/bin/env bash
# check_commits.sh [RANGE]: each commit after the one that added this file says what it changes, and why.
#   - the subject is "area: imperative subject", at most 72 characters, without a full stop; merges are left out
#   - a body follows: why the change was made, and the figures that it rests on
# RANGE is what to check instead. Prints one line per fault and exits 1 if there is any. A clone without history passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

range=${1:-}
if [ -z "$range" ]; then
  first=$(git log --diff-filter=A --format=%H -- tools/check_commits.sh 2>/dev/null | tail -1)
  [ -n "$first" ] || exit 0
  range="$first..HEAD"
fi
status=0
fault() { # COMMIT WHAT
  echo "commit $(git log -1 --format='%h "%s"' "$1"): $2" >&2
  status=1
}
while read -r commit; do
  subject=$(git log -1 --format=%s "$commit")
  [ "${#subject}" -le 72 ] || fault "$commit" "its subject has ${#subject} characters, expected at most 72"
  [[ $subject =~ ^[a-z0-9_,\ /.-]+:\ [a-z\`].*[^.]$ ]] ||
    fault "$commit" "expected a subject such as 'cache: free pages in order'"
  [ -n "$(git log -1 --format=%b "$commit")" ] || fault "$commit" "expected a body: why, and the figures"
done < <(git rev-list --no-merges "$range")
exit $status

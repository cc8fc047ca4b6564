#!/usr/bin/env bash
# make.sh SLUICE FOLDER: the checkpoints of all oracles in FOLDER, without their goldens, where no build has made them (tests/gpu).
set -euo pipefail
oracles=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) configs=$(mktemp -d)
trap 'rm -rf "$configs"' EXIT
for archive in "$oracles"/*.tar.xz; do
  name=$(basename "$archive" .tar.xz)
  tar xJf "$archive" -C "$configs"
  "$1" synth "$configs/$name/config.json" "$2/$name" >/dev/null
done
cd "$2"
sha256sum --check --quiet "$oracles/SHA256SUMS"

#!/usr/bin/env bash
# check_isa_symbols.sh OBJECTS_DIR: no function that the linker may take from any of several objects is compiled for
# different instruction sets. It would take one of them for all, and a processor without its instructions would crash.
# OBJECTS_DIR: the folder of the kernels' libraries in a release build (CMakeFiles).
set -euo pipefail
dir=$1
[ -d "$dir" ] || { echo "check_isa_symbols: $dir: expected a folder of objects" >&2; exit 1; }
objects=$(find "$dir"/sluice_kernels.dir "$dir"/sluice_kernels_*.dir -name '*.o' | sort)
[ -n "$objects" ] || { echo "check_isa_symbols: $dir: no objects" >&2; exit 1; }

# The target of an object, by the library that it is of (cmake/isa.cmake).
isa_of() {
  case $1 in
    */sluice_kernels_*.dir/*) isa=${1##*/sluice_kernels_} && echo "${isa%%.dir/*}" ;;
    *) echo base ;;
  esac
}

shared=$(while read -r object; do
  isa=$(isa_of "$object")
  nm --defined-only "$object" | awk -v isa="$isa" '$2 ~ /^[WVu]$/ && $3 !~ /^DW\.ref\./ {print $3, isa}'
done <<<"$objects" | sort -u | awk '{isas[$1] = isas[$1] " " $2; n[$1]++} END {for (s in n) if (n[s] > 1) print s isas[s]}')

if [ -n "$shared" ]; then
  printf '%s\n' "$shared" | c++filt | sed 's/^/check_isa_symbols: compiled for several instruction sets: /' >&2
  exit 1
fi

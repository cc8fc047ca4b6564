#!/usr/bin/env bash
# check_isa_symbols.sh OBJECTS_DIR: no function that the linker may take from any of several objects is compiled for
# different instruction sets. It would take one of them for all, and a processor without its instructions would crash.
# OBJECTS_DIR: the kernels' objects in a release build (CMakeFiles/sluice_kernels.dir).
set -euo pipefail
dir=$1
[ -d "$dir" ] || { echo "check_isa_symbols: $dir: expected a folder of objects" >&2; exit 1; }
[ -n "$(find "$dir" -name '*.o' -print -quit)" ] || { echo "check_isa_symbols: $dir: no objects" >&2; exit 1; }

# The instruction set of an object: its folder, and the file where a pragma in it adds to the folder's.
isa_of() {
  local name=${1##*/} folder=${1%/*}
  case $name in
    *_dot.cc.o | *_amx.cc.o | *_vnni.cc.o) echo "${folder##*/}/${name%.cc.o}" ;;
    *) case $folder in
         */cpu/avx*) echo "${folder##*/}" ;;
         *) echo base ;;
       esac ;;
  esac
}

shared=$(find "$dir" -name '*.o' | sort | while read -r object; do
  isa=$(isa_of "$object")
  nm --defined-only "$object" | awk -v isa="$isa" '$2 ~ /^[WVu]$/ && $3 !~ /^DW\.ref\./ {print $3, isa}'
done | sort -u | awk '{isas[$1] = isas[$1] " " $2; n[$1]++} END {for (s in n) if (n[s] > 1) print s isas[s]}')

if [ -n "$shared" ]; then
  printf '%s\n' "$shared" | c++filt | sed 's/^/check_isa_symbols: compiled for several instruction sets: /' >&2
  exit 1
fi

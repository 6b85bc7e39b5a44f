#!/bin/sh
# Pin tests/requirements.in in tests/requirements.txt, with hashes and without the packages that
# lab/requirements.txt has already.  Versions that are pinned stay.  Needs uv (UV=path).
set -eu
cd "$(dirname "$0")/../tests" || exit

all=$(mktemp)
trap 'rm -f "$all"' EXIT
cp requirements.txt "$all"
"${UV:-uv}" pip compile --quiet --universal --generate-hashes --no-annotate --no-header \
	--python-version 3.11 --constraints ../lab/requirements.txt \
	--output-file "$all" requirements.in
awk 'FNR == NR { if (/^[a-z]/) { split($0, part, "="); in_lab[part[1]] = 1 } next }
	/^[a-z]/ { split($0, part, "="); keep = !(part[1] in in_lab) }
	keep' ../lab/requirements.txt "$all" >requirements.txt

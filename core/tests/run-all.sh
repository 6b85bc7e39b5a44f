#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs each build of the tests; prints what failed, and one closing line.
passed=0 failed=0 broken=0
for t in "$@"; do
	variant=$(basename "$(dirname "$t")")
	log=$(dirname "$t")/tests.log
	"$t" >"$log" 2>&1
	line=$(tail -n 1 "$log")
	case $line in
	*" passed, "*" failed")
		set_passed=${line%% passed*}
		set_passed=${set_passed##* }
		set_failed=${line%% failed}
		set_failed=${set_failed##* }
		passed=$((passed + set_passed)) failed=$((failed + set_failed))
		[ "$set_failed" -eq 0 ] || grep -vE '^\[( RUN  |       OK |==)' "$log"
		;;
	*)
		broken=$((broken + 1))
		tail -n 60 "$log"
		;;
	esac
	echo "core-test $variant: $line"
done
[ "$broken" -eq 0 ] || echo "core-test: $broken builds did not run to their end"
echo "core-test: $passed passed, $((failed + broken)) failed"
[ $((failed + broken)) -eq 0 ]

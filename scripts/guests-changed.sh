#!/bin/sh
# Has anything changed that the guests of tests depend on (guest-inputs.txt), since they all passed with the commit
# that .ci/tested names? Exits with 0 if so, and where git cannot tell. They take most of an hour of two
# processors, and a guest in virtual time does the same with the same programs. The command's own programs
# (imtcp_ctl, imtcp_uncovered) steer no packet; test_kernels.py, which always runs, loads them on each kernel.
cd "$(dirname "$0")/.." || exit 0
read -r tested <.ci/tested || exit 0
# shellcheck disable=SC2046 # a pathspec a line
! git diff --quiet "$tested" -- $(cat scripts/guest-inputs.txt) 2>/dev/null

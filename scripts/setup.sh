#!/bin/sh
# Installs what building, testing and the laboratory need on Debian 12 or later, and nothing that
# is there already. With the argument "tests", also what tests alone need. Run by `make`, and safe to
# run again: it does nothing the second time.
set -eu
cd "$(dirname "$0")/.."

# The oldest compiler that the workspace builds with (rust-version in Cargo.toml).
need_rust=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null; then sudo "$@"
	else
		say "this needs root: run it as root, or install sudo"
		exit 1
	fi
}

rust_is_new_enough() {
	command -v cargo >/dev/null || return 1
	have=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
	[ "$(printf '%s\n%s\n' "$need_rust" "$have" | sort -V | head -n 1)" = "$need_rust" ]
}

installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v apt-get >/dev/null; then
	say "this is not Debian: install what scripts/packages-*.txt name, then run make again"
	exit 0
fi

lists=$(find scripts -name 'packages-*.txt' ! -name packages-tests.txt ! -name packages-deb.txt)
case "${1:-}" in
tests) lists="$lists scripts/packages-tests.txt scripts/packages-deb.txt" ;;
deb) lists="$lists scripts/packages-deb.txt" ;;
esac
missing=
# shellcheck disable=SC2013,SC2086 # one word a line; a list of files
for package in $(cat $lists | sed 's/#.*//' | sort -u); do
	installed "$package" || missing="$missing $package"
done
if ! rust_is_new_enough; then
	# Debian 12's rustc is too old, but it carries a newer one for building browsers.
	if apt-cache policy rustc-web 2>/dev/null | grep -q 'Candidate: [0-9]'; then
		missing="$missing rustc-web cargo-web"
	else
		missing="$missing rustc cargo"
	fi
fi
[ -n "$missing" ] || exit 0

say "installing:$missing"
as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	$missing >/dev/null
rust_is_new_enough || {
	say "no Rust $need_rust or later to be had from Debian here; install it with rustup"
	exit 1
}

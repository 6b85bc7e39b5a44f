#!/bin/sh
# cargo runs this in place of rustc (.cargo/config.toml): programs must not hold the directory that they
# were built in, nor the builder's home, or each clone would have other bytes.
#
# If several prefixes match, rustc takes the last.
root=$(cd "$(dirname "$0")/.." && pwd -P)
set -- "$@" --remap-path-prefix="$root=."
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
	set -- "$@" --remap-path-prefix="${registry%/}=crates.io"
done
[ -z "${OUT_DIR:-}" ] || set -- "$@" --remap-path-prefix="$OUT_DIR=generated"
exec "$@"

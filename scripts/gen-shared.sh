#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Writes crates/imtcp-bpf/src/shared.rs from the C headers that BPF and user space share.
set -eu
cd "$(dirname "$0")/.."
new=$(mktemp)
trap 'rm -f "$new"' EXIT
cargo run --quiet -p imtcp-bpf --example gen-shared >"$new"
rustfmt --edition 2021 "$new"
cp "$new" crates/imtcp-bpf/src/shared.rs

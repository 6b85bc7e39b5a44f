// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Compiles the BPF programs that the crate carries, with the command that `make bpf` uses:
//! run from the repository's root with relative paths, so both leave the same objects.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OBJECTS: [&str; 6] =
    ["imtcp", "imtcp_modes", "imtcp_paper", "imtcp_nocc", "imtcp_ctl", "imtcp_uncovered"];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap())
        .join("../..")
        .canonicalize()
        .expect("the repository's root");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let clang = clang();

    for name in OBJECTS {
        let status = Command::new(&clang)
            .current_dir(&root)
            .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3"])
            .args(["-Icore/include", "-Ibpf", "-Wall", "-Werror", "-ffile-compilation-dir=."])
            .arg("-c")
            .arg(format!("bpf/{name}.bpf.c"))
            .arg("-o")
            .arg(out.join(format!("{name}.bpf.o")))
            .status()
            .unwrap_or_else(|e| panic!("{clang}: {e} (install clang-19 or set CLANG)"));
        assert!(status.success(), "{clang} could not compile bpf/{name}.bpf.c");
    }
    // From the package's directory: a target/ that was copied must not watch another checkout.
    for dir in ["../../bpf", "../../core/include"] {
        println!("cargo:rerun-if-changed={dir}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
}

fn clang() -> String {
    env::var("CLANG").unwrap_or_else(|_| {
        let found = Command::new("clang-19").arg("--version").output().is_ok();
        if found { "clang-19" } else { "clang" }.to_string()
    })
}

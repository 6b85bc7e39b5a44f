// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Writes a file tree that real programs transfer; it is equal in every run.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::random::{BoundedPareto, Random};
use crate::units::parse_bytes;

#[derive(clap::Args)]
pub struct Args {
    /// Directory to create
    #[arg(long)]
    out: PathBuf,
    /// Total size of the files in bytes
    #[arg(long = "bytes", value_parser = parse_bytes, value_name = "BYTES")]
    bytes: u64,
    /// Mean file size in bytes
    #[arg(long = "mean-size", value_parser = parse_bytes, default_value = "500KB", value_name = "MEAN")]
    mean_bytes: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Files per directory.
const FILES_PER_DIRECTORY: usize = 32;

pub fn run(args: &Args) -> io::Result<()> {
    let high = args.mean_bytes as f64 * 40.0;
    let sizes =
        BoundedPareto::with_mean(args.mean_bytes as f64, 1.2, high).map_err(io::Error::other)?;
    let mut random = Random::new(args.seed, 5);
    let mut left = args.bytes;
    let mut block = vec![0u8; 1 << 16];
    for index in 0.. {
        if left == 0 {
            break;
        }
        let size = (sizes.sample(&mut random) as u64).clamp(1, left);
        let directory = args.out.join(format!("d{:03}", index / FILES_PER_DIRECTORY));
        if index % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut file = fs::File::create(directory.join(format!("f{index:05}.bin")))?;
        let mut rest = size as usize;
        while rest > 0 {
            // Random contents, so that no program can compress them.
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&random.next_u64().to_ne_bytes());
            }
            let n = rest.min(block.len());
            file.write_all(&block[..n])?;
            rest -= n;
        }
        left -= size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_the_size_and_contents_of_its_seed() {
        let base = std::env::temp_dir().join(format!("imtcp-tree-{}", std::process::id()));
        let contents = |name: &str, seed| {
            let out = base.join(name);
            run(&Args { out: out.clone(), bytes: 3_000_000, mean_bytes: 100_000, seed }).unwrap();
            let mut files: Vec<_> = fs::read_dir(out.join("d000"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            files.sort();
            files.iter().map(|f| fs::read(f).unwrap()).collect::<Vec<_>>()
        };
        let one = contents("a", 1);
        assert_eq!(one, contents("b", 1));
        assert_ne!(one, contents("c", 2));
        let total: usize = one.iter().map(Vec::len).sum();
        assert!(total <= 3_000_000 && total > 1_000_000, "{total}");
        fs::remove_dir_all(&base).unwrap();
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use imtcp_bpf::{objects, shared};
use imtcp_common::exit;
use imtcp_common::out::print_json;
use serde_json::json;

use crate::cli::VersionArgs;

pub fn main(args: VersionArgs) -> Result<u8> {
    if args.json {
        print_json(&json!({
            "version": objects::VERSION,
            "abi": shared::IMTCP_ABI_VERSION,
            "programs": objects::name(objects::id()),
        }))?;
    } else {
        outln!("imtcp {}, programs {}", objects::VERSION, objects::name(objects::id()));
    }
    Ok(exit::OK)
}

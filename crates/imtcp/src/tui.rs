use crate::cli::SortKey;
use anyhow::Result;
use imtcp_bpf::records::Records;
use std::time::Duration;
pub fn run(_r: Records, _i: Duration, _s: SortKey, _f: String) -> Result<()> {
    todo!()
}

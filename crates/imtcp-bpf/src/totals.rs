// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The counters of the whole machine.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::raw::Plain;
use crate::{paths, Totals};

pub struct TotalsMap(MapHandle);

impl TotalsMap {
    pub fn open() -> Result<Self> {
        let map = MapHandle::from_pinned_path(paths::pin("imtcp_totals"))
            .context("cannot open the counters: run `imtcp up`")?;
        Ok(TotalsMap(map))
    }

    pub fn read(&self) -> Result<Totals> {
        let value = self.0.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        Ok(Totals::from_bytes(&value).unwrap_or_default())
    }
}

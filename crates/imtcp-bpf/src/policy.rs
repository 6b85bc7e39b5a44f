// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The map of policies: one for each run or attachment.

use anyhow::{anyhow, Context, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use crate::raw::Plain;
use crate::shared::IMTCP_MODE_NONE;
use crate::{paths, Policy};

pub struct Policies(MapHandle);

impl Policies {
    pub fn open() -> Result<Self> {
        let map = MapHandle::from_pinned_path(paths::pin("imtcp_policies"))
            .context("cannot open the map of policies: run `imtcp up`")?;
        Ok(Policies(map))
    }

    pub fn get(&self, id: u64) -> Result<Option<Policy>> {
        let value = self.0.lookup(&id.to_ne_bytes(), MapFlags::ANY)?;
        Ok(value.and_then(|v| Policy::from_bytes(&v)))
    }

    /// Not after it was removed, nor where the map cannot be read.
    pub fn has(&self, id: u64) -> bool {
        matches!(self.get(id), Ok(Some(_)))
    }

    pub fn insert(&self, id: u64, policy: &Policy) -> Result<()> {
        self.0.update(&id.to_ne_bytes(), policy.bytes(), MapFlags::NO_EXIST).map_err(|e| {
            match e.kind() {
                ErrorKind::TooBig | ErrorKind::Other => anyhow!(
                    "there is no room for another run or attachment (4096 at once): \
                     end some, or run `imtcp up` to sweep leftovers"
                ),
                _ => anyhow!(e).context("cannot write the policy"),
            }
        })
    }

    /// Replaces the orders and keeps the programs' counters.
    pub fn replace_orders(&self, id: u64, orders: &Policy) -> Result<()> {
        let mut policy = self.get(id)?.unwrap_or_default();
        policy.min_bps = orders.min_bps;
        policy.max_bps = orders.max_bps;
        policy.mode = orders.mode;
        policy.dscp_plus1 = orders.dscp_plus1;
        policy.params = orders.params;
        Ok(self.0.update(&id.to_ne_bytes(), policy.bytes(), MapFlags::ANY)?)
    }

    /// Is this still the map that is loaded? Not after `down`, nor after an upgrade to programs
    /// whose maps are of another shape: what is in it then orders nothing new.
    pub fn is_loaded(&self) -> bool {
        let id = |map: &MapHandle| map.info().ok().map(|i| i.info.id);
        match MapHandle::from_pinned_path(paths::pin("imtcp_policies")) {
            Ok(now) => id(&now) == id(&self.0),
            Err(e) => e.kind() != ErrorKind::NotFound,
        }
    }

    /// Ends the orders of all: programs of cgroups may outlive this map, and then give nobody anything. The
    /// counts stay, for runs to tell.
    pub fn end_all(&self) {
        for id in self.ids() {
            let Ok(Some(mut policy)) = self.get(id) else { continue };
            policy.mode = IMTCP_MODE_NONE;
            (policy.min_bps, policy.max_bps, policy.dscp_plus1) = (0, 0, 0);
            let _ = self.0.update(&id.to_ne_bytes(), policy.bytes(), MapFlags::EXIST);
        }
    }

    /// Ends the orders of one for new connections, as those that a listener accepts after its run. Open ones
    /// keep its limits.
    pub fn end_for_new(&self, id: u64) {
        if let Ok(Some(mut policy)) = self.get(id) {
            policy.mode = IMTCP_MODE_NONE;
            let _ = self.0.update(&id.to_ne_bytes(), policy.bytes(), MapFlags::EXIST);
        }
    }

    /// Removing what is not there is fine.
    pub fn remove(&self, id: u64) {
        let _ = self.0.delete(&id.to_ne_bytes());
    }

    pub fn ids(&self) -> Vec<u64> {
        self.0.keys().filter_map(|k| k.try_into().ok().map(u64::from_ne_bytes)).collect()
    }
}

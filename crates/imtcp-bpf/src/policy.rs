// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The map of policies: one for each run or attachment.

use std::cell::OnceCell;

use anyhow::{anyhow, Context, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object, ProgramInput};

use crate::raw::Plain;
use crate::shared::{imtcp_orders, IMTCP_MODE_NONE};
use crate::{control, objects, paths, Policy};

pub struct Policies {
    map: MapHandle,
    /// The program that writes orders, once it was needed.
    writer: OnceCell<Object>,
}

impl Policies {
    pub fn open() -> Result<Self> {
        let map = MapHandle::from_pinned_path(paths::pin("imtcp_policies"))
            .context("cannot open the map of policies: run `imtcp up`")?;
        Ok(Policies { map, writer: OnceCell::new() })
    }

    pub fn get(&self, id: u64) -> Result<Option<Policy>> {
        let value = self.map.lookup(&id.to_ne_bytes(), MapFlags::ANY)?;
        Ok(value.and_then(|v| Policy::from_bytes(&v)))
    }

    /// Not after it was removed, nor where the map cannot be read.
    pub fn has(&self, id: u64) -> bool {
        matches!(self.get(id), Ok(Some(_)))
    }

    pub fn insert(&self, id: u64, policy: &Policy) -> Result<()> {
        self.map.update(&id.to_ne_bytes(), policy.bytes(), MapFlags::NO_EXIST).map_err(|e| match e
            .kind()
        {
            ErrorKind::TooBig | ErrorKind::Other => anyhow!(
                "there is no room for another run or attachment (4096 at once): \
                     end some, or run `imtcp up` to sweep leftovers"
            ),
            _ => anyhow!(e).context("cannot write the policy"),
        })
    }

    /// Replaces the orders and keeps the programs' counters, also those that count meanwhile. Where the policy is
    /// gone it begins anew.
    pub fn replace_orders(&self, id: u64, orders: &Policy) -> Result<()> {
        if self.set_orders(id, orders)? {
            return Ok(());
        }
        let anew = Policy {
            min_bps: orders.min_bps,
            max_bps: orders.max_bps,
            mode: orders.mode,
            dscp_plus1: orders.dscp_plus1,
            is_behind: orders.is_behind,
            receives: orders.receives,
            params: orders.params,
            ..Default::default()
        };
        self.insert(id, &anew)
    }

    /// False where there is no such policy.
    fn set_orders(&self, id: u64, orders: &Policy) -> Result<bool> {
        let writer = match self.writer.get() {
            Some(writer) => writer,
            None => {
                let loaded = control::load_writer(&self.map)?;
                self.writer.get_or_init(|| loaded)
            }
        };
        let wanted = imtcp_orders {
            policy: id,
            min_bps: orders.min_bps,
            max_bps: orders.max_bps,
            mode: orders.mode,
            dscp_plus1: orders.dscp_plus1,
            is_behind: orders.is_behind,
            receives: orders.receives,
            params: orders.params,
        };
        let mut context = wanted.bytes().to_vec();
        let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
        let done = control::program(writer, objects::SET_ORDERS)?.test_run(input);
        Ok(done.context("cannot write the policy")?.return_value == 1)
    }

    /// Is this still the map that is loaded? Not after `down`, nor after an upgrade to programs
    /// whose maps are of another shape: what is in it then orders nothing new.
    pub fn is_loaded(&self) -> bool {
        let id = |map: &MapHandle| map.info().ok().map(|i| i.info.id);
        match MapHandle::from_pinned_path(paths::pin("imtcp_policies")) {
            Ok(now) => id(&now) == id(&self.map),
            Err(e) => e.kind() != ErrorKind::NotFound,
        }
    }

    /// Ends the orders of all: programs of cgroups may outlive this map, and then give nobody anything. The
    /// counts stay, for runs to tell.
    pub fn end_all(&self) {
        for id in self.ids() {
            let Ok(Some(mut policy)) = self.get(id) else { continue };
            policy.mode = IMTCP_MODE_NONE;
            (policy.min_bps, policy.max_bps) = (0, 0);
            (policy.dscp_plus1, policy.is_behind, policy.receives) = (0, 0, 0);
            let _ = self.set_orders(id, &policy);
        }
    }

    /// Ends the orders of one for new connections, as those that a listener accepts after its run. Open ones
    /// keep its limits.
    pub fn end_for_new(&self, id: u64) {
        if let Ok(Some(mut policy)) = self.get(id) {
            policy.mode = IMTCP_MODE_NONE;
            let _ = self.set_orders(id, &policy);
        }
    }

    /// Removing what is not there is fine.
    pub fn remove(&self, id: u64) {
        let _ = self.map.delete(&id.to_ne_bytes());
    }

    pub fn ids(&self) -> Vec<u64> {
        self.map.keys().filter_map(|k| k.try_into().ok().map(u64::from_ne_bytes)).collect()
    }
}

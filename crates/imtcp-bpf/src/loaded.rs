// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Handles on what is loaded, for those who look at it for long. `imtcp down` and `imtcp up` may come at
//! any moment: then the old handles see nothing new.

use crate::meta;
use anyhow::{bail, Result};

/// Handles on the maps of one `imtcp up`, opened anew for the next.
pub struct Loaded<T> {
    open: fn() -> Result<T>,
    now: Option<Handles<T>>,
}

struct Handles<T> {
    /// The number of the map that each `up` pins anew.
    id: u32,
    handles: T,
}

impl<T> Handles<T> {
    fn open(open: fn() -> Result<T>) -> Result<Self> {
        let before = meta::pinned_id();
        meta::require_up()?;
        let handles = open()?;
        match before {
            Some(id) if meta::pinned_id() == before => Ok(Handles { id, handles }),
            _ => bail!("imtcp is being loaded"),
        }
    }
}

impl<T> Loaded<T> {
    /// For who waits until something is loaded.
    pub fn new(open: fn() -> Result<T>) -> Self {
        Loaded { open, now: None }
    }

    /// Refuses to begin while nothing is loaded.
    pub fn open(open: fn() -> Result<T>) -> Result<Self> {
        Ok(Loaded { open, now: Some(Handles::open(open)?) })
    }

    /// Those of the last look: what they are on may be unloaded by now.
    pub fn last(&self) -> Option<&T> {
        self.now.as_ref().map(|now| &now.handles)
    }

    /// Those on what is loaded now, or why there are none. Old ones are handed over, for what is still
    /// in their maps.
    pub fn look(&mut self, old: impl FnOnce(T)) -> Result<&mut T> {
        let current = meta::pinned_id();
        if let Some(replaced) = self.now.take_if(|now| current != Some(now.id)) {
            old(replaced.handles);
        }
        let now = match self.now.take() {
            Some(now) => now,
            None => Handles::open(self.open)?,
        };
        Ok(&mut self.now.insert(now).handles)
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The ring buffer of measurement results. It has one reader at a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::raw::Plain;
use crate::{paths, Event};

pub struct Events {
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<Vec<Event>>>,
}

impl Events {
    pub fn open() -> Result<Self> {
        let map = MapHandle::from_pinned_path(paths::pin("imtcp_events"))
            .context("cannot open the ring buffer of events: run `imtcp up`")?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&arrived);
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |data: &[u8]| {
            sink.borrow_mut().extend(Event::from_bytes(data));
            0
        })?;
        let ring = builder.build()?;
        Ok(Events { ring, arrived })
    }

    /// Waits until there are events or the time is over. An interrupted wait gives none.
    pub fn wait(&self, timeout: Duration) -> Vec<Event> {
        self.ring.poll_raw(timeout);
        self.arrived.take()
    }
}

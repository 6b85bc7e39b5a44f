// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What goes wrong while a command goes on.

/// A fault that lasts. It is said when it begins and when it ends, not each time between.
#[derive(Debug, Default)]
pub struct Fault {
    why: Option<String>,
    lost: u64,
}

impl Fault {
    /// Is this cause to be said?
    pub fn is_new(&mut self, why: &str) -> bool {
        let new = self.why.as_deref() != Some(why);
        self.why = Some(why.into());
        new
    }

    pub fn add_lost(&mut self, count: u64) {
        self.lost += count;
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How much was lost; `None` where there was no fault.
    pub fn end(&mut self) -> Option<u64> {
        self.why.take().map(|_| std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_said_when_it_begins_or_changes_and_ends_with_what_was_lost() {
        let mut fault = Fault::default();
        assert_eq!(fault.end(), None);
        assert!(fault.is_new("full"));
        assert!(!fault.is_new("full"));
        fault.add_lost(3);
        assert!(fault.is_new("read-only"));
        fault.add_lost(4);
        assert_eq!(fault.end(), Some(7));
        assert_eq!(fault.end(), None);
        assert!(fault.is_new("full"));
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A run within another or within an attachment: the ceiling around it holds for it, too.

use std::path::Path;

use imtcp_bpf::Policy;
use imtcp_common::format;

use crate::attachment::{self, Attachment};
use crate::runs;

/// Lowers the limits to the least ceiling of the runs and attachments around `home`. Tells so where that changes them: each
/// inner run has a clock of its own, so several at once may have more than the ceiling together.
pub fn limit(orders: &mut Policy, home: &Path) -> Option<String> {
    let is_around = |dir: &Path| home.starts_with(dir);
    let runs = runs::living().into_iter().filter(|run| is_around(&run.cgroup));
    let runs = runs.filter_map(|run| Some((run.limits.max_bps?, run.name())));
    let attached = attachment::all().into_iter();
    // One with a filter has some connections of what is in it, and no ceiling for all.
    let is_ceiling = |a: &Attachment| {
        a.filter.is_none() && a.has_orders() && a.cgroups().iter().any(|d| is_around(d))
    };
    let attached = attached.filter(is_ceiling);
    let attached = attached.filter_map(|a| Some((a.limits.max_bps?, a.target.to_string())));
    let (max_bps, outer) = runs.chain(attached).min_by_key(|(max, _)| *max)?;
    lower(orders, max_bps).then(|| told(&outer, max_bps))
}

/// Did it change anything?
fn lower(orders: &mut Policy, max_bps: u64) -> bool {
    if orders.max_bps != 0 && orders.max_bps <= max_bps {
        return false;
    }
    orders.max_bps = max_bps;
    orders.min_bps = orders.min_bps.min(max_bps);
    true
}

fn told(outer: &str, max_bps: u64) -> String {
    format!(
        "inside {outer}, so at most {} here too; runs inside it do not share that, each may have it",
        format::rate(max_bps)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_run_has_no_more_than_the_one_around_it() {
        let of = |min_bps, max_bps| {
            let mut orders = Policy { min_bps, max_bps, ..Default::default() };
            let changed = lower(&mut orders, 10);
            (changed, orders.min_bps, orders.max_bps)
        };
        assert_eq!(of(0, 0), (true, 0, 10));
        assert_eq!(of(30, 40), (true, 10, 10));
        assert_eq!(of(0, 10), (false, 0, 10));
        assert_eq!(of(2, 5), (false, 2, 5));
    }
}

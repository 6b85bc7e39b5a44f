// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Looks at the history's size off the path of requests, so that a scrape costs no query.

use std::sync::Arc;
use std::time::Duration;

use super::advice_cache::AdviceCache;
use super::metrics::Metrics;

/// 1 minute: counting series takes milliseconds, and a size changes slowly.
const EVERY: Duration = Duration::from_secs(60);

/// Looks once before it returns, then again and again beside the service.
pub async fn watch(cache: Arc<AdviceCache>, metrics: Arc<Metrics>) {
    look(&cache, &metrics).await;
    tokio::spawn(async move {
        let mut due = tokio::time::interval(EVERY);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        due.tick().await;
        loop {
            due.tick().await;
            look(&cache, &metrics).await;
        }
    });
}

async fn look(cache: &AdviceCache, metrics: &Metrics) {
    let size = cache.store().size().await;
    if let Err(e) = &size {
        tracing::warn!("cannot tell the history's size: {e}");
    }
    metrics.set_history(size.ok().as_ref());
}

//! Runs tests on SQLite, on PostgreSQL, and on PostgreSQL behind PgBouncer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use imtcp_advice::store::Place;
use libtest_mimic::{Arguments, Failed, Trial};

use super::pgbouncer::PgBouncer;
use super::Postgres;

pub type Running = Pin<Box<dyn Future<Output = ()>>>;
pub type Test = (&'static str, fn(Place) -> Running);

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        [$((
            stringify!($name),
            (|place| Box::pin($name(place))) as fn(imtcp_advice::store::Place) -> $crate::support::databases::Running,
        )),*]
    };
}
pub(crate) use tests;

/// Each test on a file, on a server and through a pooler; skipped where there is no such server.
pub fn run_all<const N: usize>(tests: [Test; N]) -> ! {
    let postgres = Postgres::start().map(Arc::new);
    if let Err(reason) = &postgres {
        eprintln!("skipped: {} tests on PostgreSQL: {reason}", tests.len());
    }
    let pooler = postgres.as_ref().map_err(String::clone).and_then(PgBouncer::start).map(Arc::new);
    if let Err(reason) = &pooler {
        eprintln!("skipped: {} tests on PostgreSQL behind PgBouncer: {reason}", tests.len());
    }
    let mut trials = Vec::new();
    for (name, test) in tests {
        let on_file = move || {
            let dir = tempfile::tempdir()?;
            run(test(Place::File(dir.path().join("history.db"))))
        };
        trials.push(Trial::test(format!("{name}::sqlite"), on_file));
        let server = postgres.as_ref().ok().cloned();
        let ignored = server.is_none();
        let on_server = move || server.map_or(Ok(()), |server| run(test(server.place())));
        trials.push(Trial::test(format!("{name}::postgres"), on_server).with_ignored_flag(ignored));
        let pooler = pooler.as_ref().ok().cloned();
        let ignored = pooler.is_none();
        let pooled = move || pooler.map_or(Ok(()), |pooler| run(test(pooler.place())));
        trials.push(Trial::test(format!("{name}::pgbouncer"), pooled).with_ignored_flag(ignored));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // Before exit, which runs no destructors: they hold the servers.
    drop(pooler);
    drop(postgres);
    conclusion.exit()
}

fn run(test: Running) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(test);
    Ok(())
}

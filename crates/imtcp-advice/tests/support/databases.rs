//! Runs tests on SQLite and on PostgreSQL.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use imtcp_advice::store::Place;
use libtest_mimic::{Arguments, Failed, Trial};

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

/// Each test on a file and on a server; those on a server are skipped where there is none.
pub fn run_all<const N: usize>(tests: [Test; N]) -> ! {
    let postgres = Postgres::start().map(Arc::new);
    if let Err(reason) = &postgres {
        eprintln!("skipped: {} tests on PostgreSQL: {reason}", tests.len());
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
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // Before exit, which runs no destructors: it holds the server.
    drop(postgres);
    conclusion.exit()
}

fn run(test: Running) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(test);
    Ok(())
}

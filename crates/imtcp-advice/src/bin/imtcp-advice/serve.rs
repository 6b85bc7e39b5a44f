// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use imtcp_advice::service::connections::Most;
use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::listen;
use imtcp_advice::service::tls::Tls;
use imtcp_advice::service::{Config, Service};
use imtcp_advice::store::Limits;
use imtcp_client::hosts::Hosts;
use imtcp_client::time::{now_us, SECOND_US};
use imtcp_common::exit;
use imtcp_common::out::to_stdout;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch;

use crate::cli::ServeArgs;

/// Requests a second of a client on another machine.
const RATE_LIMIT: u32 = 1000;
/// Descriptors for files, databases and ping, beside those of connections.
const OTHER_DESCRIPTORS: u64 = 128;
/// Threads that still look up a name when the service ends are not waited for.
const THREADS_END: Duration = Duration::from_millis(100);
/// Pairs of hop and source of one path: thirty hops, each measured by thirty hosts, are 900.
const MOST_SERIES_OF_PATH: u32 = 1000;
/// One day between two looks at the certificate's end: a warning a day is seen and fills no log.
const LOOK_AT_CERTIFICATE: Duration = Duration::from_secs(86_400);

pub fn main(args: ServeArgs) -> Result<u8> {
    if !args.listen.ip().is_loopback() && !has_tokens(&args) && !args.open {
        bail!(
            "{} can be reached from other hosts: give --read-token-file or --token-file, \
             or say --open",
            args.listen
        );
    }
    // https://no-color.org: set to anything but nothing.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !no_color)
        .with_target(false)
        // A closed log is no reason to end: what says so would panic.
        .log_internal_errors(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    runtime.shutdown_timeout(THREADS_END);
    served.map(|()| exit::OK)
}

fn has_tokens(args: &ServeArgs) -> bool {
    args.token_file.is_some() || args.read_token_file.is_some()
}

/// How many connections may be open: each has a descriptor, and this process may have so many.
fn most_connections(of_client: Option<u16>) -> Result<Most> {
    let mut most = Most::default();
    let wanted = most.of_all as u64 + OTHER_DESCRIPTORS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let allowed = wanted.min(hard).max(soft);
    setrlimit(Resource::RLIMIT_NOFILE, allowed, hard)?;
    if allowed < wanted {
        let left = allowed.saturating_sub(OTHER_DESCRIPTORS).max(16);
        most.of_all = usize::try_from(left)?;
        tracing::warn!("{left} connections at most: {allowed} descriptors are allowed (ulimit -n)");
    }
    if let Some(of_client) = of_client {
        (most.of_client, most.of_loopback) = (of_client.into(), of_client.into());
    }
    Ok(most)
}

async fn serve(args: ServeArgs) -> Result<()> {
    let (access, tls) = secrets(&args)?;
    let has_tokens = has_tokens(&args);
    let retention = crate::histories::retention(args.keep)?;
    let ended = ended()?;
    tokio::pin!(ended);
    let mut hangups = signal(SignalKind::hangup())?;
    let on_terminal = std::io::stderr().is_terminal();
    let config = Config {
        access,
        hosts: hosts(&args, tls.as_ref())?,
        rate_limit: args.rate_limit.unwrap_or(RATE_LIMIT),
        spares_loopback: args.rate_limit.is_none(),
        most_connections: most_connections(args.client_connections)?,
        trusted_proxies: args.trusted_proxy.clone(),
        retention,
        limits: Limits { paths: args.most_paths, series_of_path: MOST_SERIES_OF_PATH },
        ping: !args.no_ping,
    };
    let start = async {
        let store = crate::histories::open(&args.db).await?;
        let place = store.place().to_string();
        anyhow::Ok((Service::start(store, config).await?, place))
    };
    // A database that does not answer keeps nobody from ending it.
    let (service, place) = tokio::select! {
        started = start => started?,
        () = &mut ended => return Ok(()),
    };
    tell_of_certificate(&service, tls.as_ref());
    if has_tokens && tls.is_none() && !args.listen.ip().is_loopback() {
        tracing::warn!(
            "tokens cross the network in the clear: give --tls-cert and --tls-key, or listen on loopback behind a \
             proxy that has TLS"
        );
    }
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {} (--listen chooses another)", args.listen))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = listener.local_addr()?;
    to_stdout(&format!("imtcp-advice: advice at {scheme}://{address}/, history in {place}"));
    let (new_acceptor, acceptor) = watch::channel(tls.as_ref().map(|tls| tls.acceptor.clone()));
    let reloading = async {
        let mut tls = tls;
        let mut look_at_certificate = tokio::time::interval(LOOK_AT_CERTIFICATE);
        look_at_certificate.tick().await;
        loop {
            tokio::select! {
                _ = look_at_certificate.tick() => {
                    tell_of_certificate(&service, tls.as_ref());
                    continue;
                }
                hangup = hangups.recv() => if hangup.is_none() { return },
            }
            // Its terminal is gone, and nobody is left who could end it.
            if on_terminal && !std::io::stderr().is_terminal() {
                return;
            }
            match secrets(&args) {
                Ok((access, new)) => {
                    service.replace_access(access);
                    match hosts(&args, new.as_ref()) {
                        Ok(hosts) => service.replace_hosts(hosts),
                        Err(e) => tracing::error!("{e:#}"),
                    }
                    new_acceptor.send_replace(new.as_ref().map(|tls| tls.acceptor.clone()));
                    tls = new;
                    tracing::info!("read the files of tokens and TLS again");
                    tell_of_certificate(&service, tls.as_ref());
                }
                Err(e) => {
                    tracing::error!(
                        "the service keeps the tokens and the certificate it has: {e:#}"
                    )
                }
            }
        }
    };
    let end = async {
        tokio::select! {
            () = &mut ended => {}
            () = reloading => {}
        }
    };
    listen::serve(Arc::clone(&service), listener, acceptor, end).await?;
    Ok(())
}

/// Reads the secrets that SIGHUP reads again: all of them, or none if one file is wrong.
fn secrets(args: &ServeArgs) -> Result<(Access, Option<Tls>)> {
    let access = Access {
        write: args.token_file.as_deref().map(Tokens::read).transpose()?,
        read: args.read_token_file.as_deref().map(Tokens::read).transpose()?,
    };
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(Tls::read(certificates, key)?),
        _ => None,
    };
    Ok((access, tls))
}

fn hosts(args: &ServeArgs, tls: Option<&Tls>) -> Result<Hosts> {
    let of_certificate = tls.map_or(&[][..], Tls::names);
    Ok(Hosts::new(args.listen.ip(), &args.host, of_certificate)?)
}

/// Warns of a certificate that has expired or soon will, and shows its end in the metrics.
fn tell_of_certificate(service: &Service, tls: Option<&Tls>) {
    let Some(tls) = tls else { return };
    service.show_certificate_expiry(tls.expires_s());
    for warning in tls.warnings(now_us() / SECOND_US) {
        tracing::warn!("{warning}");
    }
}

/// Until SIGTERM or SIGINT. Set up before anything that takes time, so that none is missed.
fn ended() -> Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

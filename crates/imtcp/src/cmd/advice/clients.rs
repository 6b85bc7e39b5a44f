// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::io::{self, Write};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_advice::clients::proxies::{Forwarded, Proxy};
use imtcp_advice::clients::{files, Client, Clients, Counts, Format};
use imtcp_advice::time::{now_us, SECOND_US};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::super::print_json;
use crate::cli::logs::{ClientsArgs, LogFormat, LogLinesArgs};
use crate::{exit, format};

#[derive(Serialize)]
struct Learned {
    clients: Vec<Client>,
    #[serde(flatten)]
    counts: Counts,
}

pub fn main(args: ClientsArgs) -> Result<u8> {
    let found = files::find(&args.log, args.rotated)?;
    let (format, zone) = (args.lines.format.into(), TimeZone::system());
    let mut clients = Clients::behind(forwarded(&args.lines)?, format, zone, now_us());
    let named = |path: &Path| path.display().to_string();
    // All of them, before one is read for minutes in vain.
    let mut logs = Vec::new();
    for path in &found {
        match files::open(path) {
            Ok(log) => logs.push((log, path)),
            // A directory has what else is there, too.
            Err(e) if !args.log.contains(path) => {
                eprintln!("imtcp: {} is left out: {e}", named(path));
            }
            Err(e) => return Err(e).with_context(|| named(path)),
        }
    }
    for (log, path) in logs {
        clients.read(log).with_context(|| named(path))?;
    }
    let counts = clients.counts();
    let skipped = clients.skipped().map(String::from);
    if counts.skipped > 0 && counts.skipped == counts.lines {
        bail!("{}", no_clients(&counts, skipped.as_deref()));
    }
    let clients = clients.by_bytes(args.least_bytes);
    if args.json {
        print_json(&Learned { clients, counts })?;
    } else if args.peers {
        if clients.is_empty() {
            let why = no_clients(&counts, skipped.as_deref());
            bail!("there is no such client: {}; {why}", told(&counts).join("; "));
        }
        peers(&clients, &counts)?;
    } else {
        out!("{}", table(&clients));
        outln!("{}", told(&counts).join("\n"));
        if clients.is_empty() {
            outln!("no client: {}", no_clients(&counts, skipped.as_deref()));
        }
    }
    Ok(exit::OK)
}

/// Whose X-Forwarded-For counts.
pub fn forwarded(args: &LogLinesArgs) -> Result<Forwarded> {
    let proxies = args.trusted_proxy.iter().map(|proxy| proxy.parse::<Proxy>());
    let proxies = proxies.collect::<Result<_, _>>();
    let proxies = proxies.map_err(|e| exit::usage(format!("--trusted-proxy: {e}")))?;
    Ok(Forwarded { proxies, field: args.forwarded_field as usize })
}

/// Why there is none, and what to do: the reason with the most lines.
fn no_clients(counts: &Counts, skipped: Option<&str>) -> String {
    if counts.lines == 0 {
        return "the log is empty".into();
    }
    if counts.transfers > 0 {
        return "none got --least-bytes".into();
    }
    let example = skipped.unwrap_or_default();
    let unknown = format!(
        "no line is of a log that is known: what is read are nginx's and Apache's combined log, \
         ProFTPD's ExtendedLog, vsftpd's log, xferlog, and rsyncd's log; or --format names the wrong \
         one. The first such line: {example}"
    );
    let reasons = [
        (
            counts.other,
            "the log is known, and nothing was sent: it has uploads, empty answers and messages alone"
                .to_string(),
        ),
        (
            counts.local,
            "all was sent to this host itself: where that is a proxy, name it with --trusted-proxy"
                .to_string(),
        ),
        (
            counts.proxies,
            "all was sent to trusted proxies, and no line tells for whom: log X-Forwarded-For, or name \
             its field with --forwarded-field"
                .to_string(),
        ),
        (
            counts.named,
            "all clients are named by no address: switch HostnameLookups or UseReverseDNS off"
                .to_string(),
        ),
        (counts.skipped, unknown),
    ];
    // Messages are the usual beside a reason; of others the most frequent one counts.
    let (messages, others) = (&reasons[0], &reasons[1..]);
    let most = others.iter().max_by_key(|(lines, _)| *lines).filter(|(lines, _)| *lines > 0);
    most.unwrap_or(messages).1.clone()
}

/// As the agent's file of peers: an address a line, all else behind a #.
fn peers(clients: &[Client], counts: &Counts) -> Result<()> {
    let mut out = io::stdout().lock();
    for line in told(counts) {
        writeln!(out, "# {line}")?;
    }
    for client in clients {
        let transfers = format::count(client.transfers, "transfer");
        writeln!(out, "{}  # {transfers}, {}", client.address, format::bytes(client.bytes))?;
    }
    Ok(())
}

fn table(clients: &[Client]) -> String {
    let at = |us: i64| format::unix_time((us / SECOND_US) as u64);
    let head = ["CLIENT", "TRANSFERS", "BYTES", "FIRST", "LAST"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    rows.extend(clients.iter().map(|client| {
        vec![
            client.address.to_string(),
            client.transfers.to_string(),
            format::bytes(client.bytes),
            at(client.first_us),
            at(client.last_us),
        ]
    }));
    format::table(&rows)
}

/// What became of the lines, a sentence each.
fn told(counts: &Counts) -> Vec<String> {
    let (read, sent) = (format::count(counts.lines, "line"), counts.transfers);
    let mut all = vec![format!("{read} read, {}", format::count(sent, "transfer"))];
    let mut more = |n: u64, what: &str, rest: &str| {
        if n > 0 {
            all.push(format!("{}: {rest}", format::count(n, what)));
        }
    };
    more(counts.other, "line", "nothing was sent (uploads, empty answers, messages)");
    more(counts.local, "line", "sent to this host itself");
    more(counts.proxies, "line", "sent to a trusted proxy, for whom is not told");
    let named = "skipped, the client is named by no address (HostnameLookups, UseReverseDNS: off)";
    more(counts.named, "line", named);
    more(counts.skipped, "line", "skipped, not as a server writes them, or not possible");
    let forgotten = "left out, those with the fewest bytes of too many";
    more(counts.forgotten, "client", forgotten);
    all
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Auto => Format::Auto,
            LogFormat::Combined => Format::Combined,
            LogFormat::Xferlog => Format::Xferlog,
            LogFormat::Vsftpd => Format::Vsftpd,
            LogFormat::Rsync => Format::Rsync,
        }
    }
}

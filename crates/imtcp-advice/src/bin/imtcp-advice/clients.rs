// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::io::{self, Write};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_client::time::{now_us, SECOND_US};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};
use imtcp_logs::args::{forwarded, ClientsArgs};
use imtcp_logs::{files, no_client, Client, Clients, Counts};
use jiff::tz::TimeZone;
use serde::Serialize;

#[derive(Serialize)]
struct Learned {
    clients: Vec<Client>,
    #[serde(flatten)]
    counts: Counts,
}

pub fn main(args: ClientsArgs) -> Result<u8> {
    let found = files::find(&args.log, args.rotated)?;
    let (format, zone) = (args.lines.format.into(), TimeZone::system());
    let forwarded = forwarded(&args.lines)?;
    let field = forwarded.field;
    let mut clients = Clients::behind(forwarded, format, zone, now_us());
    let named = |path: &Path| path.display().to_string();
    // All of them, before one is read for minutes in vain.
    let mut logs = Vec::new();
    for path in &found {
        match files::open(path) {
            Ok(log) => logs.push((log, path)),
            // A directory has what else is there, too.
            Err(e) if !args.log.contains(path) => {
                eprintln!("imtcp-advice: {} is left out: {e}", named(path));
            }
            Err(e) => return Err(e).with_context(|| named(path)),
        }
    }
    for (log, path) in logs {
        clients.read(log).with_context(|| named(path))?;
    }
    let counts = clients.counts();
    let skipped = clients.skipped().map(String::from);
    let why = || match (counts.lines, counts.transfers) {
        (0, _) => "the log is empty".into(),
        (_, 1..) => "none got --least-bytes".into(),
        _ => no_client::why(&counts, field, skipped.as_deref()),
    };
    if counts.skipped > 0 && counts.skipped == counts.lines {
        bail!("{}", why());
    }
    let (clients, told) = (clients.by_bytes(args.least_bytes), told(&counts, field));
    if args.json {
        print_json(&Learned { clients, counts })?;
    } else if args.peers {
        if clients.is_empty() {
            bail!("there is no such client: {}; {}", told.join("; "), why());
        }
        peers(&clients, &told)?;
    } else {
        out!("{}", table(&clients));
        outln!("{}", told.join("\n"));
        if clients.is_empty() {
            outln!("no client: {}", why());
        }
    }
    Ok(exit::OK)
}

/// As the agent's file of peers: an address a line, all else behind a #.
fn peers(clients: &[Client], told: &[String]) -> Result<()> {
    let mut out = io::stdout().lock();
    for line in told {
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

/// The outcomes of the lines, a sentence each.
fn told(counts: &Counts, field: usize) -> Vec<String> {
    let (read, sent) = (format::count(counts.lines, "line"), counts.transfers);
    let mut all = vec![format!("{read} read, {}", format::count(sent, "transfer"))];
    let mut more = |n: u64, what: &str, rest: &str| {
        if n > 0 {
            all.push(format!("{}: {rest}", format::count(n, what)));
        }
    };
    more(counts.other, "line", "nothing was sent (uploads, errors, empty answers, messages)");
    more(counts.local, "line", "sent to this host itself, or to an address that is no peer");
    more(counts.proxies, "line", "sent to a trusted proxy, for whom is not told");
    let wrong_field = format!("skipped, field {field} behind the bytes holds no address");
    more(counts.wrong_field, "line", &wrong_field);
    let named = "skipped, the client is named by no address (HostnameLookups, UseReverseDNS: off)";
    more(counts.named, "line", named);
    more(counts.skipped, "line", "skipped, not as a server writes them, or not possible");
    let forgotten = "left out, those with the fewest bytes of too many";
    more(counts.forgotten, "client", forgotten);
    all
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_advice::clients::{Client, Clients, Counts, Format};
use imtcp_advice::time::{now_us, SECOND_US};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::super::print_json;
use crate::cli::advice::{ClientsArgs, LogFormat};
use crate::{exit, format};

/// How much of a log is read at once.
const CHUNK: usize = 256 * 1024;

#[derive(Serialize)]
struct Learned {
    clients: Vec<Client>,
    #[serde(flatten)]
    counts: Counts,
}

pub fn main(args: ClientsArgs) -> Result<u8> {
    // All of them, before one is read for minutes in vain.
    let logs = args.log.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
    let mut clients = Clients::new(args.format.into(), TimeZone::system(), now_us());
    for (log, path) in logs.into_iter().zip(&args.log) {
        clients.read(log).with_context(|| format!("{}", path.display()))?;
    }
    let counts = clients.counts();
    if counts.skipped > 0 && counts.skipped == counts.lines {
        bail!(
            "no line is of a log that is known: what is read are nginx's and Apache's combined log, \
             ProFTPD's ExtendedLog, xferlog, and rsyncd's log; or --format names the wrong one"
        );
    }
    let clients = clients.by_bytes(args.least_bytes);
    if args.json {
        print_json(&Learned { clients, counts })?;
    } else if args.peers {
        if clients.is_empty() {
            bail!("there is no such client: {}", told(&counts).join("; "));
        }
        peers(&clients, &counts)?;
    } else {
        out!("{}", table(&clients));
        outln!("{}", told(&counts).join("\n"));
    }
    Ok(exit::OK)
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let shown = path.display();
    let log: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).with_context(|| format!("{shown}"))?),
    };
    let mut log = BufReader::with_capacity(CHUNK, log);
    let begins = log.fill_buf().with_context(|| format!("{shown}"))?;
    if let Some((kind, unpack)) = compressed(begins) {
        bail!(
            "{shown} is compressed ({kind}): unpack it, as in \
             `{unpack} {shown} | imtcp advice clients --log -`"
        );
    }
    Ok(Box::new(log))
}

/// What a file that begins so is packed with, and what unpacks it.
fn compressed(begins: &[u8]) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _, _); 4] = [
        (b"\x1f\x8b", "gzip", "zcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"BZh", "bzip2", "bzcat"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
    ];
    known
        .iter()
        .find(|(magic, ..)| begins.starts_with(magic))
        .map(|(_, kind, unpack)| (*kind, *unpack))
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
    let other = "about nothing that was sent to another host (uploads, empty answers, messages)";
    more(counts.other, "line", other);
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
            LogFormat::Rsync => Format::Rsync,
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a line of each log says. Clients write much of such a line themselves (requests, names of
//! files, their own names), so each part is taken from the side of the line where nothing of theirs
//! lies in between, and a line that is not whole is none.

use std::net::IpAddr;

use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::TimeZone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Told by how each line begins.
    Auto,
    /// The common and the combined log: nginx, Apache, ProFTPD's ExtendedLog.
    Combined,
    /// wu-ftpd's: ProFTPD's TransferLog, vsftpd's `xferlog_std_format`.
    Xferlog,
    /// vsftpd's own, which it writes unless told otherwise.
    Vsftpd,
    /// rsyncd's with `transfer logging`.
    Rsync,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'l> {
    /// This host sent something. `more` is what an HTTP server wrote behind the bytes.
    Sent { host: &'l str, bytes: u64, t_us: i64, more: &'l str },
    /// As the server writes lines, and about nothing that this host sent.
    Other,
}

/// `None`: the server did not write this, or not all of it. Times without an offset are of `zone`.
pub fn parse<'l>(format: Format, line: &'l str, zone: &TimeZone) -> Option<Line<'l>> {
    match format {
        Format::Auto => {
            let first = line.split(' ').next().unwrap_or_default();
            let format = match first.as_bytes() {
                [_, _, _, _, b'/', ..] if first.len() == 10 => Format::Rsync,
                [a, b, c] if [a, b, c].iter().all(|l| l.is_ascii_alphabetic()) => {
                    match line.get(24..30) {
                        Some(" [pid ") => Format::Vsftpd,
                        _ => Format::Xferlog,
                    }
                }
                _ => Format::Combined,
            };
            parse(format, line, zone)
        }
        Format::Combined => combined(line),
        Format::Xferlog => xferlog(line, zone),
        Format::Vsftpd => vsftpd(line, zone),
        Format::Rsync => rsync(line, zone),
    }
}

/// `192.0.2.7 - user [22/Nov/2026:04:19:21 +0000] "GET / HTTP/1.1" 200 6 "referer" "agent"`, with a
/// virtual host before it as Debian's Apache has it, and anything behind the bytes.
fn combined(line: &str) -> Option<Line<'_>> {
    let (head, rest) = line.split_once('"')?;
    let (head, time) = head.strip_suffix("] ")?.rsplit_once('[')?;
    // The time is the last in brackets: the user's name may look like one.
    let broken = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    let t_us = broken.to_timestamp().ok()?.as_microsecond();
    let method = rest.split([' ', '"']).next()?;
    let answer = match method {
        "GET" | "POST" => {
            let answer = only_answer(rest)?;
            // HTTP's servers escape a quote in a request: this line is not whole, or not theirs.
            if until_quote(rest)?.0 != answer.request {
                return None;
            }
            answer
        }
        "RETR" => last_answer(rest)?,
        _ => last_answer(rest).or_else(|| answers(rest).next())?,
    };
    let sent = match method {
        // A refusal is no transfer, and anybody gets one.
        "GET" | "POST" => answer.status.starts_with('2'),
        // Sent, or broken off. Otherwise, and with other commands, ProFTPD may tell the bytes of the
        // transfer before.
        "RETR" => matches!(answer.status, "226" | "426"),
        _ => false,
    };
    match answer.bytes {
        "-" => Some(Line::Other),
        bytes => Some(sent_or_other(client_in(head), number(bytes)?, t_us, sent, answer.more)),
    }
}

/// The client is the first word, or the second behind `files.example.org:443`.
fn client_in(head: &str) -> &str {
    let mut words = head.split(' ');
    let first = words.next().unwrap_or_default();
    let port = first.rsplit_once(':').map_or("", |(_, port)| port);
    let is_host_and_port = !port.is_empty() && number(port).is_some();
    match is_host_and_port && first.parse::<IpAddr>().is_err() {
        true => words.next().unwrap_or_default(),
        false => first,
    }
}

/// A server's answer to a request: `request" 200 6 more`.
struct Answer<'l> {
    request: &'l str,
    status: &'l str,
    bytes: &'l str,
    more: &'l str,
}

/// Each place where a quote ends and an answer follows.
fn answers(rest: &str) -> impl Iterator<Item = Answer<'_>> {
    rest.match_indices('"').filter_map(|(at, _)| {
        let after = rest[at + 1..].strip_prefix(' ')?;
        let (status, after) = after.split_once(' ')?;
        let (bytes, more) = after.split_once(' ').unwrap_or((after, ""));
        let is_status = status.len() == 3 && (100..600).contains(&number(status)?);
        let is_bytes = !bytes.is_empty() && (bytes == "-" || number(bytes).is_some());
        (is_status && is_bytes).then(|| Answer { request: &rest[..at], status, bytes, more })
    })
}

/// Where a server escapes no quote, a client may write another answer, but the server's own is always
/// there too. Then it is not known which is which.
fn only_answer(rest: &str) -> Option<Answer<'_>> {
    let mut found = answers(rest);
    let only = found.next()?;
    found.next().is_none().then_some(only)
}

/// `RETR a "name" 226 7.txt" 226 6`: ProFTPD escapes no quote, and nothing of the client's follows.
fn last_answer(rest: &str) -> Option<Answer<'_>> {
    answers(rest).last().filter(|answer| answer.more.is_empty())
}

/// Splits at the next quote that no backslash precedes.
pub(super) fn until_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// `Sun Nov 22 04:19:21 2026 0 192.0.2.7 6 /file_name b _ o a any name ftp 0 * c`: the file's name has
/// no blank in it, an anonymous user's may have.
fn xferlog<'l>(line: &'l str, zone: &TimeZone) -> Option<Line<'l>> {
    let (time, rest) = line.split_at_checked(24)?;
    let t_us = local_us(strtime::parse("%a %b %e %H:%M:%S %Y", time).ok()?, zone)?;
    let words: Vec<&str> = rest.strip_prefix(' ')?.split(' ').collect();
    let [took, host, bytes, _file, kind, action, direction, access, ..] = words[..] else {
        return None;
    };
    let rules = [
        words.len() >= 13,
        number(took).is_some(),
        matches!(kind, "a" | "b"),
        !action.is_empty() && action.chars().all(|c| "CUT_".contains(c)),
        matches!(direction, "i" | "o" | "d"),
        matches!(access, "a" | "g" | "r"),
        matches!(words.last(), Some(&"c" | &"i")),
    ];
    if !rules.iter().all(|holds| *holds) {
        return None;
    }
    Some(sent_or_other(host, number(bytes)?, t_us, direction == "o", ""))
}

/// `2026/11/22 04:19:24 [123] send NAME [192.0.2.7] MODULE (USER) FILE 6`, and other messages
fn rsync<'l>(line: &'l str, zone: &TimeZone) -> Option<Line<'l>> {
    let (time, rest) = line.split_at_checked(19)?;
    let t_us = local_us(strtime::parse("%Y/%m/%d %H:%M:%S", time).ok()?, zone)?;
    let (pid, message) = rest.strip_prefix(" [")?.split_once("] ")?;
    number(pid)?;
    let Some(message) = message.strip_prefix("send ") else { return Some(Line::Other) };
    let (_name, rest) = message.split_once(" [")?;
    let (host, rest) = rest.split_once("] ")?;
    let bytes = number(rest.rsplit_once(' ')?.1)?;
    Some(sent_or_other(host, bytes, t_us, true, ""))
}

/// `Sun Nov 22 04:19:21 2026 [pid 2] [ftp] OK DOWNLOAD: Client "192.0.2.7", "/name", 6 bytes, 1.00Kbyte/sec`
/// and other messages. Clients choose the names of users and files; those of users who logged in are
/// the administrator's.
fn vsftpd<'l>(line: &'l str, zone: &TimeZone) -> Option<Line<'l>> {
    let (time, rest) = line.split_at_checked(24)?;
    let t_us = local_us(strtime::parse("%a %b %e %H:%M:%S %Y", time).ok()?, zone)?;
    let (pid, message) = rest.strip_prefix(" [pid ")?.split_once("] ")?;
    number(pid)?;
    let event = match message.strip_prefix('[') {
        Some(of_user) => of_user.split_once("] ")?.1,
        None => message,
    };
    let Some(event) = event.strip_prefix("OK DOWNLOAD: Client \"") else {
        return Some(Line::Other);
    };
    // A user whose login fails may have such a name, but not the end of such a line.
    let Some(event) = event.strip_suffix("Kbyte/sec") else { return Some(Line::Other) };
    let (host, rest) = event.split_once("\", \"")?;
    let (rest, _rate) = rest.rsplit_once(" bytes, ")?;
    let (_name, bytes) = rest.rsplit_once("\", ")?;
    Some(sent_or_other(host, number(bytes)?, t_us, true, ""))
}

fn sent_or_other<'l>(host: &'l str, bytes: u64, t_us: i64, sent: bool, more: &'l str) -> Line<'l> {
    match sent && bytes > 0 {
        true => Line::Sent { host, bytes, t_us, more },
        false => Line::Other,
    }
}

/// Digits alone: Rust would take a sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn local_us(time: BrokenDownTime, zone: &TimeZone) -> Option<i64> {
    let zoned = time.to_datetime().ok()?.to_zoned(zone.clone()).ok()?;
    Some(zoned.timestamp().as_microsecond())
}

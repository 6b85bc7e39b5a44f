// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Clients from access logs. The logs are what the real servers wrote, with clients at addresses for
//! documentation, some of which chose their names and requests to deceive a reader.

use imtcp_client::time::{format, parse};
use imtcp_logs::{Client, Clients, Counts, Format};
use jiff::tz::TimeZone;

/// nginx 1.22.1, `combined`.
const NGINX: &str = r#"198.51.100.7 - - [22/Nov/2026:04:19:19 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "curl/7.88.1"
198.51.100.7 - - [22/Nov/2026:04:19:19 +0000] "GET /small.txt HTTP/1.1" 200 6 "-" "curl/7.88.1"
198.51.100.8 - - [22/Nov/2026:04:19:19 +0000] "GET /nothere?x=%22%0a HTTP/1.1" 404 153 "http://x/\x22y\x22" "a \x22quoted\x22 agent \x5C with backslash"
2001:db8::7 - - [22/Nov/2026:04:19:19 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "curl/7.88.1"
203.0.113.9 - - [22/Nov/2026:04:19:19 +0000] "HEAD /big.bin HTTP/1.1" 200 0 "-" "curl/7.88.1"
203.0.113.9 - - [22/Nov/2026:04:19:19 +0000] "GARBAGE \x01\xFF \x22\x5C\x22 request" 400 157 "-" "-"
198.51.100.7 - user name [22/Nov/2026:04:19:20 +0000] "GET /small.txt HTTP/1.1" 200 6 "-" "curl/7.88.1"
"#;

/// Apache 2.4.71, `combined`.
const APACHE: &str = r#"198.51.100.7 - - [22/Nov/2026:04:19:20 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "curl/7.88.1"
198.51.100.8 - - [22/Nov/2026:04:19:20 +0000] "GET /nothere?x=%22%0a HTTP/1.1" 404 236 "http://x/\"y\"" "a \"quoted\" agent \\ with backslash"
203.0.113.9 - - [22/Nov/2026:04:19:21 +0000] "HEAD /big.bin HTTP/1.1" 200 - "-" "curl/7.88.1"
"#;

/// ProFTPD 1.3.8, `ExtendedLog … READ,WRITE default`.
const EXTENDED: &str = r#"198.51.100.7 UNKNOWN nobody [22/Nov/2026:04:19:21 +0000] "RETR big.bin" 226 3000000
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:21 +0000] "STOR up file name.txt" 226 6
203.0.113.9 UNKNOWN nobody [22/Nov/2026:04:19:21 +0000] "RETR big.bin" 226 3000000
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "RETR no"such" 226 99999 x" 550 -
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "RETR small.txt" 226 6
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "STOR we"ird 226 7.txt" 226 6
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "RETR we"ird 226 7.txt" 226 6
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "STOR café €.txt" 226 6
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "RETR café €.txt" 226 6
198.51.100.8 UNKNOWN nobody [22/Nov/2026:04:19:22 +0000] "DELE we"ird 226 7.txt" 250 6
"#;

/// The same transfers in ProFTPD's `TransferLog`.
const XFERLOG: &str = r#"Sun Nov 22 04:19:21 2026 0 198.51.100.7 3000000 /srv/ftp/big.bin b _ o a a b@c.example ftp 0 * c
Sun Nov 22 04:19:21 2026 0 198.51.100.8 6 /srv/ftp/up_file_name.txt b _ i a ftp@example.com ftp 0 * c
Sun Nov 22 04:19:21 2026 0 203.0.113.9 3000000 /srv/ftp/big.bin b _ o a ftp@example.com ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/small.txt b _ o a x" [1.2.3.4] y ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/we"ird_226_7.txt b _ i a x" [1.2.3.4] y ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/we"ird_226_7.txt b _ o a x" [1.2.3.4] y ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/café_€.txt b _ i a x" [1.2.3.4] y ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/café_€.txt b _ o a x" [1.2.3.4] y ftp 0 * c
Sun Nov 22 04:19:22 2026 0 198.51.100.8 6 /srv/ftp/we"ird_226_7.txt b _ d a x" [1.2.3.4] y ftp 0 * c
"#;

/// rsync 3.5.0, `transfer logging = yes`.
const RSYNC: &str = r#"2026/11/22 04:16:28 [10759] rsyncd version 3.5.0 starting, listening on port 873
2026/11/22 04:16:32 [11046] connect from UNDETERMINED (198.51.100.7)
2026/11/22 04:16:32 [11046] rsync allowed access on module files from UNDETERMINED (198.51.100.7)
2026/11/22 04:16:32 [11046] rsync on files/big.bin from UNDETERMINED (198.51.100.7)
2026/11/22 04:16:32 [11046] building file list
2026/11/22 04:16:32 [11046] send UNDETERMINED [198.51.100.7] files () big.bin 3000000
2026/11/22 04:16:32 [11046] sent 3000830 bytes  received 48 bytes  total size 3000000
2026/11/22 04:16:32 [11054] send UNDETERMINED [198.51.100.8] files () big.bin 3000000
2026/11/22 04:16:32 [11054] send UNDETERMINED [198.51.100.8] files () small.txt 6
2026/11/22 04:16:32 [11054] sent 3000924 bytes  received 70 bytes  total size 3000006
2026/11/22 04:16:32 [11059] receiving file list
2026/11/22 04:16:32 [11059] recv UNDETERMINED [203.0.113.9] up () small.txt 6
2026/11/22 04:16:32 [11059] sent 40 bytes  received 106 bytes  total size 6
"#;

/// nginx 1.22.1 with fields behind the combined log's: X-Forwarded-For, times, and more.
const NGINX_LONGER: &str = r#"198.51.100.7 - - [22/Nov/2026:04:25:13 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "curl/7.88.1" 0.000 - .
198.51.100.8 - - [22/Nov/2026:04:25:13 +0000] "GET /small.txt?x=%22 HTTP/1.1" 200 6 "-" "a \x22quoted\x22 agent" 0.000 - .
203.0.113.9 - - [22/Nov/2026:04:25:13 +0000] "HEAD /big.bin HTTP/1.1" 200 0 "-" "curl/7.88.1" 0.000 - .
198.51.100.8 - - [22/Nov/2026:04:25:13 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "curl/7.88.1" "203.0.113.50" rt=0.000 uct="-" cache=- "192.0.2.1" sn=""
203.0.113.9 - - [22/Nov/2026:04:25:13 +0000] "GET /small.txt HTTP/1.1" 200 6 "-" "curl/7.88.1" "evil\x22 200 999 \x22x" rt=0.000 uct="-" cache=- "192.0.2.1" sn=""
2001:db8::7 - - [22/Nov/2026:04:25:13 +0000] "GET /small.txt HTTP/1.1" 200 6 "-" "curl/7.88.1" "2001:db8::99"
"#;

/// Apache 2.4.71, Debian's `vhost_combined`, and the combined log with X-Forwarded-For and `%D`.
const APACHE_VHOST: &str = r#"files.example.org:80 198.51.100.7 - - [22/Nov/2026:04:25:15 +0000] "GET /big.bin HTTP/1.1" 200 3000211 "-" "curl/7.88.1"
files.example.org:80 203.0.113.9 - - [22/Nov/2026:04:25:15 +0000] "GET /small.txt HTTP/1.1" 200 206 "-" "q\"x"
files.example.org:80 2001:db8::7 - - [22/Nov/2026:04:25:15 +0000] "GET /small.txt HTTP/1.1" 200 206 "-" "curl/7.88.1"
198.51.100.7 - - [22/Nov/2026:04:25:15 +0000] "GET /big.bin HTTP/1.1" 200 3000211 "-" "curl/7.88.1" "-" 1521
203.0.113.9 - - [22/Nov/2026:04:25:15 +0000] "HEAD /big.bin HTTP/1.1" 200 211 "-" "curl/7.88.1" "-" 190
"#;

/// vsftpd 3.0.3, its own log. A user of the name `x] OK DOWNLOAD: …` failed to log in.
const VSFTPD: &str = r#"Sun Nov 22 04:33:33 2026 [pid 9189] CONNECT: Client "198.51.100.7"
Sun Nov 22 04:33:33 2026 [pid 9188] [ftp] OK LOGIN: Client "198.51.100.7", anon password "ftp@example.com"
Sun Nov 22 04:33:33 2026 [pid 9190] [ftp] OK DOWNLOAD: Client "198.51.100.7", "/big.bin", 3000000 bytes, 381122.35Kbyte/sec
Sun Nov 22 04:33:34 2026 [pid 9195] [ftp] OK UPLOAD: Client "198.51.100.8", "/up/up-own.txt", 6 bytes, 0.49Kbyte/sec
Sun Nov 22 04:33:34 2026 [pid 9206] [ftp] OK DOWNLOAD: Client "198.51.100.8", "/a name".txt", 2 bytes, 7.23Kbyte/sec
Sun Nov 22 04:33:34 2026 [pid 9219] [ftp] OK LOGIN: Client "203.0.113.9", anon password "a",_"x"
Sun Nov 22 04:33:34 2026 [pid 9222] [ftp] OK MKDIR: Client "203.0.113.9", "/up/dir" x"
Sun Nov 22 04:33:34 2026 [pid 9222] [ftp] FAIL DELETE: Client "203.0.113.9", "/up/nothere"
Sun Nov 22 04:33:35 2026 [pid 9230] [x] OK DOWNLOAD: Client "192.0.2.200", "/f", 9 bytes, 1.00Kbyte/sec] FAIL LOGIN: Client "203.0.113.9"
"#;

/// vsftpd 3.0.3, `xferlog_std_format=YES`.
const VSFTPD_XFERLOG: &str = r#"Sun Nov 22 04:33:36 2026 1 198.51.100.7 3000000 /big.bin b _ o a ftp@example.com ftp 0 * c
Sun Nov 22 04:33:36 2026 1 198.51.100.8 6 /up/up-xfer.txt b _ i a ftp@example.com ftp 0 * c
Sun Nov 22 04:33:36 2026 1 198.51.100.8 2 /a_name".txt b _ o a ftp@example.com ftp 0 * c
"#;

fn read_as(format: Format, zone: TimeZone, log: &[u8]) -> (Vec<Client>, Counts) {
    let now_us = parse("2026-11-22T05:00:00Z").unwrap();
    let mut clients = Clients::new(format, zone, now_us);
    clients.read(log).unwrap();
    let counts = clients.counts();
    (clients.by_bytes(0), counts)
}

fn read(log: &str) -> (Vec<Client>, Counts) {
    read_as(Format::Auto, TimeZone::UTC, log.as_bytes())
}

/// Address, transfers and bytes of each.
fn told(clients: &[Client]) -> Vec<(String, u64, u64)> {
    clients.iter().map(|c| (c.address.to_string(), c.transfers, c.bytes)).collect()
}

fn expect(clients: &[Client], wanted: &[(&str, u64, u64)]) {
    let wanted: Vec<_> = wanted.iter().map(|(a, n, b)| (a.to_string(), *n, *b)).collect();
    assert_eq!(told(clients), wanted);
}

/// One line that a server could have written, about 5 bytes to 192.0.2.1.
const ONE: &str = r#"192.0.2.1 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "x""#;

#[track_caller]
fn skipped(line: &str) {
    let (found, counts) = read(&format!("{line}\n{ONE}\n"));
    assert_eq!(
        counts,
        Counts { lines: 2, transfers: 1, skipped: 1, ..Counts::default() },
        "{line}"
    );
    expect(&found, &[("192.0.2.1", 1, 5)]);
}

#[test]
fn clients_of_nginx_are_those_who_got_something() {
    let (found, counts) = read(NGINX);
    expect(&found, &[("198.51.100.7", 3, 3_000_012), ("2001:db8::7", 1, 3_000_000)]);
    assert_eq!(counts, Counts { lines: 7, transfers: 4, other: 3, ..Counts::default() });
    assert_eq!(format(found[0].first_us), "2026-11-22T04:19:19Z");
    assert_eq!(format(found[0].last_us), "2026-11-22T04:19:20Z");
}

#[test]
fn apache_escapes_quotes_in_its_own_way() {
    let (found, counts) = read(APACHE);
    expect(&found, &[("198.51.100.7", 1, 3_000_000)]);
    assert_eq!(counts, Counts { lines: 3, transfers: 1, other: 2, ..Counts::default() });
}

#[test]
fn fields_behind_the_combined_logs_change_nothing() {
    let (found, counts) = read(NGINX_LONGER);
    let wanted = [
        ("198.51.100.8", 2, 3_000_006),
        ("198.51.100.7", 1, 3_000_000),
        ("203.0.113.9", 1, 6),
        ("2001:db8::7", 1, 6),
    ];
    expect(&found, &wanted);
    assert_eq!(counts, Counts { lines: 6, transfers: 5, other: 1, ..Counts::default() });
}

#[test]
fn a_virtual_host_before_the_client_is_no_client() {
    let (found, counts) = read(APACHE_VHOST);
    let wanted = [("198.51.100.7", 2, 6_000_422), ("203.0.113.9", 1, 206), ("2001:db8::7", 1, 206)];
    expect(&found, &wanted);
    assert_eq!(counts, Counts { lines: 5, transfers: 4, other: 1, ..Counts::default() });
}

#[test]
fn both_logs_of_vsftpd_are_read() {
    let wanted = [("198.51.100.7", 1, 3_000_000), ("198.51.100.8", 1, 2)];
    for (format, log, lines) in
        [(Format::Vsftpd, VSFTPD, 9), (Format::Auto, VSFTPD, 9), (Format::Auto, VSFTPD_XFERLOG, 3)]
    {
        let (found, counts) = read_as(format, TimeZone::UTC, log.as_bytes());
        expect(&found, &wanted);
        let other = lines - 2;
        assert_eq!(counts, Counts { lines, transfers: 2, other, ..Counts::default() });
    }
}

#[test]
fn of_ftp_what_clients_took_counts_and_not_what_they_brought() {
    let wanted =
        [("198.51.100.7", 1, 3_000_000), ("203.0.113.9", 1, 3_000_000), ("198.51.100.8", 3, 18)];
    for (log, lines) in [(EXTENDED, 10), (XFERLOG, 9)] {
        let (found, counts) = read(log);
        expect(&found, &wanted);
        let other = lines - 5;
        assert_eq!(counts, Counts { lines, transfers: 5, other, ..Counts::default() });
    }
}

#[test]
fn of_rsyncd_the_files_that_it_sent_count() {
    let (found, counts) = read(RSYNC);
    expect(&found, &[("198.51.100.8", 2, 3_000_006), ("198.51.100.7", 1, 3_000_000)]);
    assert_eq!(counts, Counts { lines: 13, transfers: 3, other: 10, ..Counts::default() });
}

#[test]
fn logs_without_a_zone_are_in_the_one_that_is_given() {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    for log in [XFERLOG, RSYNC] {
        let utc = read(log).0[0].first_us;
        let (found, _) = read_as(Format::Auto, berlin.clone(), log.as_bytes());
        assert_eq!(utc - found[0].first_us, 3_600_000_000);
    }
    let (found, _) = read_as(Format::Auto, berlin, NGINX.as_bytes());
    assert_eq!(found, read(NGINX).0);
}

#[test]
fn a_format_that_is_named_is_the_only_one() {
    let all = [NGINX, XFERLOG, RSYNC].concat();
    for (format, others) in [(Format::Combined, 22), (Format::Xferlog, 20), (Format::Rsync, 16)] {
        let (_, counts) = read_as(format, TimeZone::UTC, all.as_bytes());
        assert_eq!((counts.lines, counts.skipped), (29, others), "{format:?}");
    }
    assert_eq!(read(&all).1.skipped, 0);
}

/// With servers that escape no quote, a client may write what looks like the rest of the line.
#[test]
fn what_a_client_writes_into_its_request_is_not_taken_for_the_servers() {
    let head = r#"203.0.113.9 - - [22/Nov/2026:04:00:00 +0000]"#;
    for request in [
        r#""GET /" 200 99999999 "-" "x HTTP/1.1" 404 7 "-" "-""#,
        r#""GET /" 200 99999999 "x HTTP/1.1" 404 7 "-" "-""#,
        r#""GET /" 200 99999999 HTTP/1.1" 404 7 "-" "-""#,
        r#""GET / HTTP/1.1" 404 7 "\" 200 99999999 "-" "x""#,
        r#""GET /" 200 99999999 "\" 404 7 " "x" "-""#,
        r#""GET / HTTP/1.1\" 200 99999999"#,
        r#""GET / HTTP/1.1" 200"#,
        r#""GET / HTTP/1.1" 200 "-" "-""#,
    ] {
        skipped(&format!("{head} {request}"));
    }
    // A name in brackets moves no time, and no name an address.
    let (found, _) = read(
        "203.0.113.9 - [01/Jan/2020:00:00:00 +0000] [22/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 7\n",
    );
    assert_eq!(format(found[0].first_us), "2026-11-22T04:00:00Z");
    // Lines of other messages of rsyncd are about what clients asked for.
    let forged = "unknown module 'send x [192.0.2.9] m () f 99999' tried from x (203.0.113.9)";
    let (found, counts) = read(&format!("2026/11/22 04:16:32 [11046] {forged}\n"));
    assert_eq!((found.len(), counts.other), (0, 1));
}

/// Anybody gets one, for a byte of a request.
#[test]
fn a_refusal_and_a_redirection_are_no_transfer() {
    let with_status = |status: u16| ONE.replace("\" 200 ", &format!("\" {status} "));
    for status in [301, 400, 404, 499, 500] {
        let (found, counts) = read(&with_status(status));
        assert_eq!((found.len(), counts.other, counts.skipped), (0, 1, 0), "{status}");
    }
    assert_eq!(read(&with_status(206)).0.len(), 1);
}

#[test]
fn what_cannot_be_is_skipped() {
    for line in [
        "x",
        r#"192.0.2.9 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 99999999999999999999 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 1000000000000001 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 -5 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 +5 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/2026:04:00:00 +0000] "GET / HTTP/1.1" 7 5 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/2126:04:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#,
        r#"192.0.2.9 - - [22/Nov/1926:04:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#,
        r#"192.0.2.9 - - [31/Feb/2026:04:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#,
        "Sun Nov 22 04:19:21 2026 0 192.0.2.9 5 /a name b _ o a u ftp 0 * c",
        "Sun Nov 22 04:19:21 2026 0 192.0.2.9 5 /name b _ o a u ftp",
        "Sun Nov 22 04:19:21 2026 0 192.0.2.9 -5 /name b _ o a u ftp 0 * c",
        "Sun Nov 22 04:19:21 €",
        "2026/11/22 04:16:32 [x] send h [192.0.2.9] m () f 5",
        "2026/11/22 04:16:32 [1] send h [192.0.2.9] m () f many",
    ] {
        skipped(line);
    }
}

#[test]
fn bytes_that_are_no_text_and_lines_without_end_are_skipped() {
    let mut log = Vec::new();
    log.extend_from_slice(
        b"192.0.2.9 \xff\xfe [22/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n",
    );
    log.extend_from_slice(b"\0\0\0\0\n\r\n\n");
    let long = ONE.replace("GET /", &format!("GET /{}", "a".repeat(70_000)));
    log.extend_from_slice(format!("{long}\n{ONE}\r\n{ONE}").as_bytes());
    let (found, counts) = read_as(Format::Auto, TimeZone::UTC, &log);
    assert_eq!(counts, Counts { lines: 5, transfers: 2, skipped: 3, ..Counts::default() });
    expect(&found, &[("192.0.2.1", 2, 10)]);
}

#[test]
fn names_are_not_trusted_and_this_host_is_no_destination() {
    let as_host = |host: &str| ONE.replace("192.0.2.1", host);
    let log = ["mirror.example.org", "unix:", "127.0.0.1", "::1", "::ffff:198.51.100.7"];
    let log = log.map(as_host).join("\n");
    let (found, counts) = read(&log);
    assert_eq!(counts, Counts { lines: 5, transfers: 1, local: 2, named: 2, ..Counts::default() });
    expect(&found, &[("198.51.100.7", 1, 5)]);
}

#[test]
fn clients_with_few_bytes_can_be_left_out() {
    let mut clients = Clients::new(Format::Auto, TimeZone::UTC, i64::MAX);
    clients.read(NGINX.as_bytes()).unwrap();
    clients.read(APACHE.as_bytes()).unwrap();
    let all = clients.by_bytes(1_000);
    expect(&all, &[("198.51.100.7", 4, 6_000_012), ("2001:db8::7", 1, 3_000_000)]);
}

/// Text that a client may send, much of it in the servers' own form.
const CLIENTS_OWN: &str = r#"([ -~]|" 200 99999 "|" 226 99999|\\|\[22/Nov/2026:04:00:00 |\] "|192\.0\.2\.9 | b _ o a |\] OK DOWNLOAD: Client "192\.0\.2\.9", "/f", 9 bytes, 1Kbyte/sec|é){0,12}"#;

proptest::proptest! {
    /// These servers escape nothing; those that do leave less to try.
    #[test]
    fn no_client_makes_another_ones_transfer_or_more_bytes_than_there_were(
        own in CLIENTS_OWN, also in CLIENTS_OWN
    ) {
        let head = "203.0.113.9 - - [22/Nov/2026:04:00:00 +0000]";
        let ftp = "Sun Nov 22 04:19:21 2026 0 203.0.113.9 7";
        let vsftpd = "Sun Nov 22 04:33:33 2026 [pid 9190]";
        for line in [
            format!("{head} \"{own}\" 200 7 \"{also}\" \"{own}\""),
            format!("{head} \"GET /{own} HTTP/1.1\" 200 7 \"-\" \"{also}\""),
            format!("{head} \"GET /{own} HTTP/1.1\" 200 7"),
            format!("{head} \"RETR {own}\" 226 7"),
            format!("{head} \"RETR {own}\" 550 -"),
            format!("{ftp} /{own} b _ o a {also} ftp 0 * c"),
            format!("2026/11/22 04:16:32 [11054] send NAME [203.0.113.9] files () {own} 7"),
            format!("{head} \"GET /{own} HTTP/1.1\" 200 7 \"-\" \"{also}\" 0.003 - ."),
            format!("{head} \"GET /{own} HTTP/1.1\" 200 7 \"-\" \"{also}\" \"{own}\" 1521"),
            format!("files.example.org:80 {head} \"GET /{own} HTTP/1.1\" 200 7 \"-\" \"{also}\""),
            format!("{vsftpd} [ftp] OK DOWNLOAD: Client \"203.0.113.9\", \"/{own}\", 7 bytes, 1.00Kbyte/sec"),
            format!("{vsftpd} [{own}] FAIL LOGIN: Client \"203.0.113.9\""),
            format!("{vsftpd} [ftp] OK LOGIN: Client \"203.0.113.9\", anon password \"{own}\""),
        ] {
            let (found, c) = read(&line);
            proptest::prop_assert_eq!(c.lines, 1, "{}", &line);
            for client in &found {
                let told = (client.address.to_string(), client.bytes);
                proptest::prop_assert_eq!(told, ("203.0.113.9".into(), 7), "{}", &line);
            }
        }
    }

    #[test]
    fn whatever_a_log_says_its_reading_ends_and_every_line_is_counted_once(
        log in "([ -~\\n]|[0-9]{1,20}|\" 200 |GET /|send |\\[|\\] |2026/11/22 04:16:32|é){0,80}"
    ) {
        let (found, c) = read(&log);
        let none = c.other + c.local + c.named + c.wrong_field + c.skipped;
        proptest::prop_assert_eq!(c.lines, c.transfers + none);
        proptest::prop_assert!(found.len() as u64 <= c.transfers);
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Why a log names no client, and what to do: for `imtcp-advice clients` and `imtcp-agent feed --log`.

use crate::Counts;

/// The reason with the most lines. `field` is `--forwarded-field`, `skipped` the first line that was
/// skipped.
pub fn why(counts: &Counts, field: usize, skipped: Option<&str>) -> String {
    let example = skipped.unwrap_or_default();
    let unknown = format!(
        "no line is of a log that is known: what is read are nginx's and Apache's combined log, \
         ProFTPD's ExtendedLog, vsftpd's log, xferlog, and rsyncd's log; or --format names the wrong \
         one. The first such line: {example}"
    );
    let wrong_field = format!(
        "all was sent to trusted proxies, and field {field} behind the bytes holds no address: name \
         the field of X-Forwarded-For with --forwarded-field (1 is the referer, 2 the user agent)"
    );
    let reasons = [
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
        (counts.wrong_field, wrong_field),
        (
            counts.named,
            "all clients are named by no address: switch HostnameLookups or UseReverseDNS off"
                .to_string(),
        ),
        (counts.skipped, unknown),
    ];
    // Messages are the usual beside a reason; of others the most frequent one counts.
    let most = reasons.into_iter().max_by_key(|(lines, _)| *lines).filter(|(lines, _)| *lines > 0);
    most.map_or_else(
        || {
            "the log is known, and nothing was sent: it has uploads, errors, empty answers and messages alone"
                .into()
        },
        |(_, why)| why,
    )
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The line at the end of a run. It claims what was seen, and names what imtcp did not hold back.

use imtcp_bpf::shared;
use imtcp_common::format;

use super::not_held_back::not_held_back;
use super::summary::{Summary, TakenAway, WORTH_TELLING_BYTES};
use crate::left_behind;
use crate::policy::{self, Limits};

/// Round trips below this are too short to measure in: IMTCP_SHORT_RTT_US of
/// core/include/imtcp/meas_state.h (a test compares), here for the text alone.
const SHORT_RTT_US: u64 = 1000;

/// A run may be so far ahead of its ceiling (IMTCP_CREDIT_NS of bpf/imtcp_policy.h).
const AHEAD_US: u64 = shared::IMTCP_T_MAX_US as u64;
/// The measurement that a connection is sending may go beyond the ceiling. ours: more than it does to a run's mean.
const MEASURING_PCT: u128 = 2;
/// Ten segments of Ethernet's size: what Linux sends of a connection before it paces.
const FIRST_BYTES: u128 = 10 * 1500;

/// So many times what was sent is a download.
const DOWNLOAD: u64 = 10;

pub fn line(s: &Summary) -> String {
    let until = match s.taken_away {
        None => "",
        Some(TakenAway::Down) => "taken down during the run; until then ",
        Some(TakenAway::Nocc) => "mode nocc was taken away during the run; until then ",
    };
    let mut parts = if s.connections == 0 {
        Vec::from_iter(no_connections(s))
    } else if made_none(s) {
        let tried = format::count(s.connections, "connection");
        vec![format!("{tried} tried in {}, and none was made", format::micros(s.elapsed_us))]
    } else if is_download(s) {
        vec![download(s)]
    } else {
        upload(s)
    };
    parts.extend(inner(s));
    parts.extend(not_held_back(s));
    let orders = policy::options(s.mode, &s.params, &s.limits, s.handling);
    parts.extend(left_behind::told_with_remedy(&s.left_behind, &orders));
    format!("imtcp: {until}{}", parts.join("; "))
}

/// Nothing where those without room or control are told: they were seen.
fn no_connections(s: &Summary) -> Option<String> {
    let own = if s.inner_connections > 0 { "'s own" } else { "" };
    (s.no_room_connections + s.refused_connections == 0)
        .then(|| format!("saw no TCP connection of the command{own}"))
}

/// A handshake has a round trip. Refused connections and those that nobody answers have none.
fn made_none(s: &Summary) -> bool {
    s.min_rtt_us.is_none()
        && s.bytes_acked == 0
        && s.bytes_received == 0
        && s.available.is_none()
        && s.left_uncounted() == 0
}

fn is_download(s: &Summary) -> bool {
    s.available.is_none()
        && s.left_uncounted() == 0
        && s.bytes_received >= WORTH_TELLING_BYTES
        && s.bytes_received >= DOWNLOAD * s.bytes_acked
}

fn download(s: &Summary) -> String {
    let gave_way = match s.received_yielded_pct() {
        _ if !s.handling.receives => "not held back (direction send)".into(),
        None => "not held back (without TCP timestamps no download is)".into(),
        Some(0) => "never had to yield".into(),
        Some(pct) => format!("gave way to a queue {pct} % of the time"),
    };
    format!(
        "{} received and {} sent in {}{}; {gave_way}",
        format::bytes(s.bytes_received),
        format::bytes(s.bytes_acked),
        format::micros(s.elapsed_us),
        limits(s)
    )
}

/// A handshake and an end count as a byte each.
fn sent_nothing(s: &Summary) -> bool {
    s.bytes_acked <= 2 * s.connections && s.queued_bytes == 0 && s.available.is_none()
}

fn upload(s: &Summary) -> Vec<String> {
    if sent_nothing(s) {
        let made = format::count(s.connections, "connection");
        let nothing = if s.left_uncounted() == 0 { ", and nothing sent" } else { "" };
        return vec![format!("{made} in {}{nothing}", format::micros(s.elapsed_us))];
    }
    let sent = format::bytes(s.bytes_acked);
    let sent = match s.mean_bps() {
        Some(mean) => {
            let elapsed = format::micros(s.elapsed_us);
            // For less data, the mean would tell how long the command waited for something else.
            let mean = match s.bytes_acked {
                0..WORTH_TELLING_BYTES => String::new(),
                _ => format!(", mean {}", format::rate(mean)),
            };
            format!("{sent} sent in {elapsed}{mean}{}", limits(s))
        }
        None if s.left_uncounted() > 0 => format!("{sent} sent while held back"),
        None => format!("{sent} sent"),
    };
    let queued = (s.queued_bytes > 0)
        .then(|| format!("{} more still on their way", format::bytes(s.queued_bytes)));
    [Some(sent), queued, Some(available(s)), yielded(s)].into_iter().flatten().collect()
}

fn limits(s: &Summary) -> String {
    if s.limits == Limits::default() {
        return String::new();
    }
    let over = match exceeded_bytes(s) {
        0 => "",
        // Linux does not pace the first segments of a connection: many connections at once send many.
        bytes if bytes <= u128::from(s.connections) * FIRST_BYTES => {
            ", exceeded: the first ten segments of each connection are not held"
        }
        _ => ", exceeded",
    };
    format!(" ({}{over})", s.limits)
}

/// Bytes that were sent beyond a ceiling.
fn exceeded_bytes(s: &Summary) -> u128 {
    let Some(max_bps) = s.limits.max_bps else { return 0 };
    let allowed_bits = u128::from(max_bps) * u128::from(s.elapsed_us + AHEAD_US) / 1_000_000;
    (u128::from(s.bytes_acked) * 8).saturating_sub(allowed_bits * (100 + MEASURING_PCT) / 100) / 8
}

fn available(s: &Summary) -> String {
    let Some(a) = s.available else {
        return format!("available bandwidth not measured{}", why_not_measured(s));
    };
    // It had more than that: the results are of moments that were no rule.
    if s.mean_bps().is_some_and(|mean| a.mean_bps < mean / 2) {
        let results = format::count(a.results, "result");
        return format!("available bandwidth unknown ({results}, below half of what it sent)");
    }
    let seen = match [a.min_bps, a.max_bps].map(format::rate_short) {
        _ if a.results == 1 => " (one result)".into(),
        [min, max] if min == max => String::new(),
        [min, max] => format!(" ({min}–{max})"),
    };
    format!("available {}{seen}", format::rate(a.mean_bps))
}

/// In parentheses, where it is known.
fn why_not_measured(s: &Summary) -> String {
    match s.min_rtt_us {
        _ if !s.mode.measures() => format!(" (mode {} does not)", s.mode.name()),
        Some(rtt_us) if rtt_us < SHORT_RTT_US => {
            format!(" (a round trip of {} is too short)", format::micros(rtt_us))
        }
        _ if s.limits.max_bps.is_some() => {
            " (what --max-rate lets by may be too little for it)".into()
        }
        _ => String::new(),
    }
}

/// Alone on a path it is most of the time, at full rate.
fn yielded(s: &Summary) -> Option<String> {
    s.yielding_us().filter(|_| s.held_all())?;
    Some(match s.yielded_pct() {
        // Who measured nothing does not know what there was to yield to.
        None | Some(0) if s.available.is_none() => return None,
        None | Some(0) => "never had to yield".into(),
        // Nobody knows what was free.
        Some(pct) if s.available.is_none() => format!("gave way to a queue {pct} % of the time"),
        Some(pct) => format!("held to what was free {pct} % of the time"),
    })
}

fn inner(s: &Summary) -> Option<String> {
    (s.inner_connections > 0).then(|| {
        let inner = format::count(s.inner_connections, "connection");
        // Each of them has the ceiling, and attachments may have another.
        let ceiling = match s.limits.max_bps {
            Some(_) => ", which do not share the ceiling of this run",
            None => "",
        };
        format!("{inner} counted by `imtcp run` or `attach` inside{ceiling}")
    })
}

#[cfg(test)]
mod tests {
    use imtcp_bpf::{Policy, Record};

    use super::super::summary::Available;
    use super::*;
    use crate::mode::Mode;
    use crate::policy::{usual_orders, Handling};

    fn nothing() -> Summary {
        Summary::new(Mode::Bg, &usual_orders(), 2_000_000)
    }

    fn measured() -> Summary {
        Summary {
            connections: 2,
            bytes_acked: 12_500_000,
            busy_us: 1_000_000,
            yielding_us: 250_000,
            available: Some(Available {
                results: 7,
                mean_bps: 60_000_000,
                min_bps: 10_000_000,
                max_bps: 90_000_000,
            }),
            ..nothing()
        }
    }

    #[track_caller]
    fn says(s: &Summary, part: &str) {
        assert!(line(s).contains(part), "{}", line(s));
    }

    #[test]
    fn the_line_tells_bytes_rate_available_and_for_how_long_it_was_held() {
        assert_eq!(
            line(&measured()),
            "imtcp: 12.5 MB sent in 2.00 s, mean 50.0 Mbit/s; \
             available 60.0 Mbit/s (10.0M–90.0M); held to what was free 25 % of the time"
        );
    }

    #[test]
    fn a_single_result_is_not_told_as_a_range() {
        let mut s = measured();
        s.add_ended(&Policy {
            avail_count: 1,
            avail_sum_kbps: 90_900,
            avail_min_bps: 90_900_000,
            avail_max_bps: 90_900_000,
            ..Default::default()
        });
        says(&s, "; available 90.9 Mbit/s (one result); ");
    }

    #[test]
    fn a_ceiling_that_did_not_hold_is_told_with_the_cause_that_explains_it() {
        let with = |max_bps| Summary {
            limits: Limits { max_bps: Some(max_bps), ..Limits::default() },
            connections: 20,
            ..measured()
        };
        let told =
            "mean 50.0 Mbit/s (at most 47.0 Mbit/s, exceeded: the first ten segments of each";
        says(&with(47_000_000), told);
        says(&with(48_000_000), "mean 50.0 Mbit/s (at most 48.0 Mbit/s); ");
        // The first segments of one connection are not as much as that.
        let few = Summary { connections: 1, ..with(40_000_000) };
        says(&few, "mean 50.0 Mbit/s (at most 40.0 Mbit/s, exceeded); ");
        // A short run has what it may be ahead, and that is not above the ceiling.
        let short = Summary { elapsed_us: 200_000, bytes_acked: 1_250_000, ..with(40_000_000) };
        says(&short, "mean 50.0 Mbit/s (at most 40.0 Mbit/s); ");
    }

    #[test]
    fn a_range_whose_ends_read_alike_is_none() {
        let available = Some(Available {
            results: 7,
            mean_bps: 49_500_000,
            min_bps: 49_480_000,
            max_bps: 49_520_000,
        });
        says(&Summary { available, ..measured() }, "; available 49.5 Mbit/s; held to ");
    }

    #[test]
    fn a_run_that_sent_next_to_nothing_has_no_mean() {
        let few = Summary { bytes_acked: 9_999, ..measured() };
        says(&few, "imtcp: 10.0 kB sent in 2.00 s; ");
        says(&Summary { bytes_acked: 10_000, ..few }, "imtcp: 10.0 kB sent in 2.00 s, mean 40.0 ");
    }

    #[test]
    fn who_measured_nothing_and_yielded_did_so_to_a_queue() {
        let s = Summary { available: None, ..measured() };
        says(&s, "; available bandwidth not measured; gave way to a queue 25 % of the time");
    }

    #[test]
    fn a_mode_of_which_yielding_is_not_counted_does_not_say_that_it_never_yielded() {
        let lp = Summary { mode: Mode::Lp, yielding_us: 0, ..measured() };
        assert!(!line(&lp).contains("held") && !line(&lp).contains("yield"), "{}", line(&lp));
        let bg = Summary { yielding_us: 0, ..measured() };
        assert!(line(&bg).ends_with("; never had to yield"), "{}", line(&bg));
    }

    #[test]
    fn connections_that_were_never_made_are_no_sending_at_no_rate() {
        let s = Summary { connections: 2, ..nothing() };
        assert_eq!(line(&s), "imtcp: 2 connections tried in 2.00 s, and none was made");
        let made = Summary { min_rtt_us: Some(210), ..s };
        assert!(!line(&made).contains("none was made"), "{}", line(&made));
    }

    #[test]
    fn results_that_the_run_itself_refutes_are_not_told_as_what_was_available() {
        let available = Some(Available { results: 1, mean_bps: 0, min_bps: 0, max_bps: 0 });
        says(
            &Summary { available, ..measured() },
            "mean 50.0 Mbit/s; available bandwidth unknown (1 result, below half of what it sent); ",
        );
    }

    #[test]
    fn a_connection_that_was_made_and_sent_nothing_has_no_rate_and_yielded_to_nobody() {
        let s = Summary { connections: 1, bytes_acked: 2, min_rtt_us: Some(210), ..nothing() };
        assert_eq!(line(&s), "imtcp: 1 connection in 2.00 s, and nothing sent");
        let held_down_by_others = Summary { available: None, yielding_us: 0, ..measured() };
        assert!(!line(&held_down_by_others).contains("yield"), "{}", line(&held_down_by_others));
    }

    #[test]
    fn of_connections_that_chose_another_control_only_what_was_counted_is_told() {
        let left = Summary { left_connections: 1, uncounted_connections: 1, ..measured() };
        says(&left, "imtcp: 12.5 MB sent while held back; available 60.0 ");
        says(
            &left,
            "; 1 connection chose another congestion control, not held back nor counted meanwhile",
        );
        assert!(!line(&left).contains("mean ") && !line(&left).contains(" % "), "{}", line(&left));
        let at_once = Summary {
            connections: 1,
            bytes_acked: 2,
            left_connections: 1,
            uncounted_connections: 1,
            ..nothing()
        };
        let told = "imtcp: 1 connection in 2.00 s; 1 connection chose another congestion control, ";
        assert!(line(&at_once).starts_with(told), "{}", line(&at_once));
        let received = Summary { bytes_received: 31_000_000, ..at_once };
        assert!(!line(&received).contains("download"), "{}", line(&received));
    }

    #[test]
    fn connections_on_a_control_of_ours_that_holds_nothing_back_are_counted_and_not_praised() {
        let s = Summary { yielding_us: 0, left_connections: 1, ..measured() };
        says(&s, "imtcp: 12.5 MB sent in 2.00 s, mean 50.0 Mbit/s; ");
        says(&s, "; 1 connection chose another congestion control, not held back meanwhile");
        assert!(!line(&s).contains("yield") && !line(&s).contains("counted"), "{}", line(&s));
    }

    #[test]
    fn limits_are_told_in_bits_per_second() {
        let limits = Limits { max_bps: Some(80_000_000), min_bps: None };
        says(&Summary { limits, ..measured() }, "mean 50.0 Mbit/s (at most 80.0 Mbit/s); ");
    }

    #[test]
    fn what_is_still_on_its_way_is_told() {
        let mut s = measured();
        s.add_open(&Record { bytes_acked: 100, queued_bytes: 200_000, ..Default::default() });
        says(&s, "mean 50.0 Mbit/s; 200 kB more still on their way; ");
    }

    #[test]
    fn why_nothing_was_measured_is_told_where_it_is_known() {
        let mut lan = Summary { connections: 1, ..nothing() };
        lan.bytes_acked = 5_000;
        assert!(line(&lan).ends_with("; available bandwidth not measured"), "{}", line(&lan));
        lan.min_rtt_us = Some(210);
        says(&lan, "available bandwidth not measured (a round trip of 210 µs is too short)");
        let limits = Limits { max_bps: Some(5_000_000), min_bps: None };
        let capped = Summary {
            limits,
            min_rtt_us: Some(20_000),
            connections: 1,
            bytes_acked: 9_000,
            ..nothing()
        };
        says(&capped, "not measured (what --max-rate lets by may be too little for it)");
        lan.mode = Mode::Lp;
        says(&lan, "not measured (mode lp does not)");
        says(&Summary { min_rtt_us: Some(210), ..measured() }, "available 60.0 Mbit/s");
    }

    #[test]
    fn a_round_trip_is_too_short_where_the_core_finds_it_so() {
        let core = include_str!("../../../../../core/include/imtcp/meas_state.h");
        let line = format!("#define IMTCP_SHORT_RTT_US {SHORT_RTT_US}U\n");
        assert!(core.contains(&line), "not in meas_state.h: {line}");
    }

    #[test]
    fn a_run_that_imtcp_did_not_last_for_says_until_when_and_has_no_mean() {
        let s = Summary {
            taken_away: Some(TakenAway::Down),
            connections: 1,
            left_connections: 1,
            bytes_acked: 100,
            ..nothing()
        };
        let down = line(&s);
        assert!(down.starts_with("imtcp: taken down during the run; until then 100 bytes sent; "));
        assert!(!down.contains("chose another"), "{down}");
        let line = line(&Summary { taken_away: Some(TakenAway::Nocc), ..s });
        assert!(line.starts_with("imtcp: mode nocc was taken away during the run; until then 100 "));
    }

    #[test]
    fn where_nothing_was_seen_nothing_is_claimed() {
        assert_eq!(line(&nothing()), "imtcp: saw no TCP connection of the command");
    }

    #[test]
    fn connections_of_a_run_inside_are_told() {
        let s = Summary { inner_connections: 3, ..nothing() };
        assert_eq!(
            line(&s),
            "imtcp: saw no TCP connection of the command's own; \
             3 connections counted by `imtcp run` or `attach` inside"
        );
        let s = Summary { inner_connections: 1, ..measured() };
        assert!(line(&s).ends_with("; 1 connection counted by `imtcp run` or `attach` inside"));
        let limits = Limits { max_bps: Some(80_000_000), min_bps: None };
        let s = Summary { limits, ..s };
        let told = " inside, which do not share the ceiling of this run";
        assert!(line(&s).ends_with(told), "{}", line(&s));
    }

    #[test]
    fn a_download_says_whether_it_yielded() {
        let s = Summary {
            connections: 1,
            bytes_received: 31_000_000,
            bytes_acked: 120,
            yielding_us: 0,
            ..nothing()
        };
        assert_eq!(
            line(&s),
            "imtcp: 31.0 MB received and 120 bytes sent in 2.00 s; \
             not held back (without TCP timestamps no download is)"
        );
        let s = Summary { handling: Handling { receives: false, ..s.handling }, ..s };
        assert!(line(&s).ends_with("in 2.00 s; not held back (direction send)"), "{}", line(&s));
        let s = Summary { handling: Handling { receives: true, ..s.handling }, ..s };
        let s = Summary { received_busy_us: 1_000_000, ..s };
        assert!(line(&s).ends_with("in 2.00 s; never had to yield"), "{}", line(&s));
        let s = Summary { received_yielding_us: 250_000, ..s };
        assert!(line(&s).ends_with("in 2.00 s; gave way to a queue 25 % of the time"));
        let both = Summary { bytes_acked: 31_000_000, ..s };
        assert!(!line(&both).contains("download"), "{}", line(&both));
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A program that asks for pacing (SO_MAX_PACING_RATE) has it under each control, and after it.

use imtcp_test_support::*;

/// Bytes per second that the program asks for, and what it sends twice.
const MOST_BYTES_PER_S: u32 = 250_000;
const SENT_BYTES: u32 = 200_000;

/// A program that sets this rate, in bytes per second, and prints how long SENT_BYTES took. The first ten segments of a
/// connection leave before any pacing. 47 is SO_MAX_PACING_RATE.
fn sends_at(net: &Net, rate: u32) -> String {
    let (host, port) = net.peer();
    format!(
        "{SENT}s = socket.create_connection(('{host}', {port}))\n\
         s.setsockopt(1, 47, {rate})\n\
         sent(s, 20000)\n\
         print(sent(s, {SENT_BYTES}))\n"
    )
}

#[test]
fn no_control_exceeds_the_pacing_rate_that_a_program_sets_nor_leaves_the_connection_without_it() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let script = format!(
        "{}s.setsockopt(6, 13, b'reno')\nprint(sent(s, {SENT_BYTES}))\n",
        sends_at(&net, MOST_BYTES_PER_S)
    );
    let least_s = f64::from(SENT_BYTES) / f64::from(MOST_BYTES_PER_S);
    for mode in ["bg", "measure", "lp", "ledbat"] {
        let output = net.run(&["--mode", mode, "--", "python3", "-c", &script]);
        let seconds: Vec<f64> =
            text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
        let [with_ours, after] = seconds[..] else { panic!("{}", text(&output.stderr)) };
        // The credit that the connection saved up before counts, a buffer or two.
        assert!(with_ours > 0.9 * least_s, "{mode}: {with_ours} s");
        assert!(after > 0.9 * least_s, "{mode}, then reno: {after} s");
    }
}

/// TCP takes a pacing rate of 0 for none. A ceiling holds all the same.
#[test]
fn a_pacing_rate_of_zero_frees_no_program_of_its_ceiling() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let script = sends_at(&net, 0);
    // 200 kB at 2 Mbit/s.
    let least_s = f64::from(SENT_BYTES) * 8.0 / 2e6;
    for mode in ["bg", "lp"] {
        let output = net.run(&["--mode", mode, "--max-rate", "2M", "--", "python3", "-c", &script]);
        let seconds: f64 = text(&output.stdout).trim().parse().unwrap();
        assert!(seconds > 0.9 * least_s, "{mode}: {seconds} s, {}", text(&output.stderr));
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What counts towards a ceiling: short connections, and nothing from before there was one.

use imtcp_bpf::policy::Policies;
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

#[test]
fn a_connection_that_goes_on_waits_for_what_short_ones_sent_and_short_ones_begin_with_a_segment() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let (host, port) = net.peer();
    let (short, short_bytes, long_bytes) = (40, 10_000, 100_000);
    // The window is 80 bytes into struct tcp_info, option 11.
    let script = format!(
        "{SENT}began, peer = time.monotonic(), ('{host}', {port})\n\
         for i in range({short}):\n\
         \ts = socket.create_connection(peer)\n\
         \tsent(s, {short_bytes})\n\
         \twindow = struct.unpack('I', s.getsockopt(6, 11, 84)[80:])[0]\n\
         \ts.close()\n\
         s = socket.create_connection(peer)\n\
         sent(s, {long_bytes})\n\
         print(window, time.monotonic() - began)\n"
    );
    for mode in ["bg", "lp"] {
        let run = ["--mode", mode, "--max-rate", "1M", "--", "python3", "-c", &script];
        let output = net.run(&run);
        let said = text(&output.stdout);
        let Some((window, seconds)) = said.trim().split_once(' ') else { panic!("{output:?}") };
        let (window, seconds): (u32, f64) = (window.parse().unwrap(), seconds.parse().unwrap());
        assert!(window <= 2, "{mode}: a window of {window} segments");
        let least = f64::from(short * short_bytes + long_bytes) * 8.0 / 1e6;
        // The run does not wait for the time that its last packets are ahead.
        assert!(seconds > 0.9 * least, "{mode}: {seconds} s, and {least} s at the ceiling");
    }
}

#[test]
fn a_ceiling_does_not_count_what_was_sent_while_there_was_none() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let program = format!(
        "{SENT}s = socket.create_connection(('{host}', {port}))\n\
         sent(s, 100000)\n\
         print('ready', flush=True)\n\
         for line in sys.stdin: print(sent(s, int(line)), flush=True)\n"
    );
    let Some(mut subject) = Subject::of_program(&net, &program, &[]) else { return };
    imtcp_ok(&["attach", "--pid", &subject.pid(), "--max-rate", "4M"]);
    let mut seconds = |bytes: u32| subject.tell(&bytes.to_string())[0].parse::<f64>().unwrap();
    seconds(100_000);
    let policies = Policies::open().unwrap();
    let status = json(&imtcp_ok(&["status", "--json"]));
    let id = status["attachments"][0]["policy"].as_u64().unwrap();
    let set = |max_bps| {
        let mut orders = policies.get(id).unwrap().unwrap();
        orders.max_bps = max_bps;
        policies.replace_orders(id, &orders).unwrap();
    };
    set(0);
    seconds(5_000_000);
    set(4_000_000);
    let (took, at_ceiling) = (seconds(200_000), 200_000.0 * 8.0 / 4e6);
    imtcp_ok(&["detach", "--all"]);
    assert!((0.7 * at_ceiling..3.0 * at_ceiling).contains(&took), "{took} s");
}

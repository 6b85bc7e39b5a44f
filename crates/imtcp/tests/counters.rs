// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the programs count for a run is lost neither to new orders nor to connections of others.

use std::time::{Duration, Instant};

use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::totals::TotalsMap;
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

#[test]
fn orders_that_are_replaced_amid_a_transfer_lose_nothing_of_what_is_counted() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let program = format!(
        "{SENT}s = socket.create_connection(('{host}', {port}))\n\
         print('ready', flush=True)\n\
         for line in sys.stdin: print(sent(s, int(line)), flush=True)\n"
    );
    let Some(mut subject) = Subject::of_program(&net, &program, &[]) else { return };
    imtcp_ok(&["attach", "--pid", &subject.pid(), "--mode", "measure"]);
    let policies = Policies::open().unwrap();
    let status = json(&imtcp_ok(&["status", "--json"]));
    let id = status["attachments"][0]["policy"].as_u64().unwrap();
    let counted = || policies.get(id).unwrap().unwrap();
    let sending = std::thread::spawn(move || {
        subject.tell("10000000");
        subject
    });
    let mut replaced = 0;
    while !sending.is_finished() {
        policies.replace_orders(id, &counted()).unwrap();
        replaced += 1;
    }
    let _subject = sending.join().unwrap();
    let open = Records::open().unwrap().read().unwrap();
    let open: Vec<_> = open.iter().filter(|r| r.policy == id).collect();
    assert_eq!(open.len(), 1);
    let acked = open[0].bytes_acked - open[0].bytes_acked_before;
    let bytes_counted = counted().bytes_acked;
    imtcp_ok(&["detach", "--all"]);
    assert!(acked >= 10_000_000 && replaced > 100, "{acked} bytes, replaced {replaced} times");
    assert_eq!(bytes_counted, acked, "replaced {replaced} times");
}

#[test]
fn new_orders_are_in_force_and_a_policy_that_is_gone_begins_anew() {
    let Some(_alone) = alone() else { return };
    let policies = Policies::open().unwrap();
    let id = 1;
    let with = |max_bps, dscp_plus1| imtcp_bpf::Policy {
        max_bps,
        min_bps: 5,
        mode: 2,
        dscp_plus1,
        params: imtcp_bpf::shared::imtcp_params { h_segs: 7, ..Default::default() },
        ended_conns: 9,
        ..Default::default()
    };
    policies.replace_orders(id, &with(10, 1)).unwrap();
    let anew = policies.get(id).unwrap().unwrap();
    policies.replace_orders(id, &with(20, 2)).unwrap();
    let replaced = policies.get(id).unwrap().unwrap();
    policies.end_for_new(id);
    let ended = policies.get(id).unwrap().unwrap();
    policies.remove(id);
    assert_eq!(anew, imtcp_bpf::Policy { ended_conns: 0, ..with(10, 1) });
    assert_eq!(replaced, imtcp_bpf::Policy { ended_conns: 0, ..with(20, 2) });
    assert_eq!(ended, imtcp_bpf::Policy { mode: 0, ..replaced });
}

#[test]
fn connections_of_others_leave_most_of_the_buffer_to_the_results_of_runs() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    // Small buffers, so that streams of them fit into this path's window.
    net.write_in_client("/proc/sys/net/ipv4/tcp_tso_rtt_log", "0");
    let (host, port) = net.peer();
    let totals = || TotalsMap::open().unwrap().read().unwrap();
    // A reader takes what is there.
    let mut watch = std::process::Command::new(IMTCP.as_str());
    watch.args(["watch", "--events"]).stdout(std::process::Stdio::null());
    let reader = Background(watch.spawn().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    drop(reader);
    let before = totals();
    // This one measures without pauses.
    let flood = format!(
        "import select, socket\n\
         open = []\n\
         for i in range(8):\n\
         \ts = socket.create_connection(('{host}', {port}))\n\
         \ts.setsockopt(6, 13, b'imtcp_fs')\n\
         \ts.setblocking(False)\n\
         \topen.append(s)\n\
         while True:\n\
         \tfor s in select.select([], open, [])[1]:\n\
         \t\ttry: s.send(bytes(100000))\n\
         \t\texcept BlockingIOError: pass\n"
    );
    let flooding = Background(net.command("python3").args(["-c", &flood]).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(150);
    while totals().events_dropped == before.events_dropped {
        assert!(Instant::now() < deadline, "{:?}", totals());
        std::thread::sleep(Duration::from_millis(100));
    }
    // Nobody reads: the buffer stays as it is, and the path is free for a measurement.
    drop(flooding);
    std::thread::sleep(Duration::from_secs(1));
    let full = totals();
    let client = client.to_str().unwrap();
    let mut results = 0;
    // Behind this token bucket about every second transfer of five seconds ends without a valid result.
    within(Duration::from_secs(90), "a run measures", || {
        let output = net.run(&["--mode", "fs", "--json", "--", client, &host, &port, "30000000"]);
        results += summary(&output)["avail_results"].as_u64().unwrap();
        results > 0
    });
    assert!(totals().events_sent - full.events_sent >= results, "{:?} {full:?}", totals());
    let a_quarter = 512 * 1024 / 4 / std::mem::size_of::<imtcp_bpf::Event>() as u64;
    assert!(full.events_sent - before.events_sent <= a_quarter, "{before:?} {full:?}");
}

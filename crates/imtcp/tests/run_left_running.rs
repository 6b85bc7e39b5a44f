// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What `imtcp run` and `status` say of processes that a run leaves: which control their new connections have.

mod support;

use support::*;

#[test]
fn what_is_left_running_within_another_run_is_told_to_have_what_that_one_orders() {
    let Some(_alone) = alone() else { return };
    let inner = "setsid sleep 60 >/dev/null 2>&1 & echo $!";
    let outer = ["run", "-q", "--max-rate", "5M", "--", &IMTCP, "run", "--", "sh", "-c", inner];
    let output = imtcp(&outer);
    let pid: i32 = text(&output.stdout).trim().parse().unwrap();
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let line = text(&output.stderr);
    assert!(line.contains(", whose new connections have what `imtcp run` "), "{line}");
    assert!(line.contains(" orders: bg, at most 5.00 Mbit/s\n"), "{line}");
}

#[test]
fn what_is_said_to_cover_those_left_running_covers_each_of_them() {
    let Some(_alone) = alone() else { return };
    let two = "for i in 1 2; do setsid sleep 60 >/dev/null 2>&1 & echo $!; done";
    let output = imtcp(&["run", "--", "sh", "-c", two]);
    let said = text(&output.stdout);
    let pids: Vec<i32> = said.split_whitespace().map(|p| p.parse().unwrap()).collect();
    let line = text(&output.stderr);
    let remedy =
        format!("`for p in {} {}; do imtcp attach --pid $p; done` covers them", pids[0], pids[1]);
    imtcp_ok(&["attach", "--pid", &pids[0].to_string()]);
    let status = imtcp_ok(&["status"]);
    imtcp_ok(&["detach", "--all"]);
    for pid in pids {
        // SAFETY: our own grandchild.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    assert!(line.contains(&remedy), "{line}");
    let told = "left running, with the default control or what process ";
    assert!(status.contains(told), "{status}");
}

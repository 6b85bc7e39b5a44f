// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run --advise`: the mode follows the advice, and is bg without it.

use imtcp_test_support::advice::{certificate, Service};
use imtcp_test_support::*;

/// Four days of 80 Mbit/s about this time of day, and the newest record now.
fn history(newest_bps: u64) -> String {
    let now = jiff::Timestamp::now();
    let mut csv = String::from("time,available_bps,capacity_bps\n");
    for minute in (1..5).flat_map(|day| (0..60).map(move |m| 1440 * day - m)) {
        let at = now - jiff::SignedDuration::from_mins(minute);
        csv.push_str(&format!("{at},80000000,100000000\n"));
    }
    csv + &format!("{now},{newest_bps},100000000\n")
}

#[test]
fn open_connections_change_their_mode_with_the_advice_and_back_when_the_service_is_away() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let service = Service::start_as(net.command(&IMTCP_ADVICE), Scratch::new(), &[]);
    let (db, file) = (service.db(), service.scratch.path("history.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    let import = |newest_bps| {
        std::fs::write(file, history(newest_bps)).unwrap();
        advice_ok(&["import", "--db", db, "--path", SERVER, file]);
    };
    import(80_000_000);
    // Asked each second, so that the test need not wait.
    advice_ok(&["set", "--db", db, "next_max_s=1"]);

    let (host, port) = net.peer();
    let (url, client) = (service.url.clone(), client.to_str().unwrap());
    let run = net.run_spawn(&["--advise", &url, "--", client, &host, &port, "100000", "25"]);
    let mode = |wanted: &str| {
        let wanted = wanted.to_string();
        move || connections(SERVER).iter().any(|c| c["mode"] == *wanted)
    };
    eventually("the path is free", mode("measure"));
    import(10_000_000);
    eventually("the path is congested", mode("bg"));
    import(80_000_000);
    eventually("the path is free again", mode("measure"));
    drop(service);
    eventually("nobody advises any more", mode("bg"));
    run.signal(libc::SIGTERM);
    let output = run.finish();
    assert!(text(&output.stdout).contains("control=imtcp_bg"), "the safe mode comes first");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("by advice the mode is now measure"), "{stderr}");
    assert!(stderr.contains("without advice the mode is now bg"), "{stderr}");
}

#[test]
fn advice_gives_no_mode_to_a_run_that_down_has_ended() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let service = Service::start_as(net.command(&IMTCP_ADVICE), Scratch::new(), &[]);
    let file = service.scratch.path("history.csv");
    std::fs::write(&file, history(80_000_000)).unwrap();
    let (db, file) = (service.db(), file.to_str().unwrap());
    advice_ok(&["import", "--db", db.to_str().unwrap(), "--path", SERVER, file]);

    let (host, port) = net.peer();
    let go = service.scratch.path("go");
    let client = client.display();
    let line = format!(
        "{client} {host} {port} 100000 25 & until [ -e {} ]; do sleep 0.1; done; \
         exec {client} {host} {port} 100000 25",
        go.display()
    );
    let run = net.run_spawn(&["--advise", &service.url, "--", "sh", "-c", &line]);
    eventually("the path is free", || connections(SERVER).iter().any(|c| c["mode"] == "measure"));
    imtcp_ok(&["down"]);
    imtcp_ok(&["up"]);
    // Longer than the advice takes to be followed.
    std::thread::sleep(std::time::Duration::from_secs(3));
    std::fs::write(&go, "").unwrap();
    let open = || {
        let sockets = net.command("ss").args(["-tinH", "dst", SERVER]).output();
        text(&sockets.unwrap().stdout)
    };
    eventually("the second is open", || open().matches("ESTAB").count() == 2);
    assert!(!open().contains("imtcp"), "{}", open());
    run.signal(libc::SIGTERM);
    let said = text(&run.finish().stderr);
    assert!(said.contains("imtcp: it was taken down: the run goes on without advice"), "{said}");
    assert!(!said.contains("the mode is now bg"), "{said}");
}

#[test]
fn a_run_trusts_the_certificate_authority_that_it_is_given() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let Some((cert, key)) = certificate(&scratch) else { return };
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let service = Service::start(&["--tls-cert", cert, "--tls-key", key]);
    let without_advice = |trust: &[&str]| {
        let run = [&["run", "--advise", &service.url][..], trust, &["--", "sleep", "2"]].concat();
        let output = imtcp(&run);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr).contains("going on without advice")
    };
    assert!(!without_advice(&["--advise-ca", cert]));
    assert!(without_advice(&[]), "nobody else vouches for it");
    let output = imtcp(&["run", "--advise", &service.url, "--advise-ca", "/no/file", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("/no/file"));
}

#[test]
fn a_service_that_cannot_be_reached_is_told_once_and_the_command_goes_on() {
    let Some(_alone) = alone() else { return };
    let run = ["run", "--advise", "http://127.0.0.1:1", "--", "sleep", "3"];
    let output = imtcp(&run);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let told: Vec<_> = stderr.lines().filter(|l| l.contains("going on without advice")).collect();
    assert_eq!(told.len(), 1, "{stderr}");
    assert!(told[0].contains("http://127.0.0.1:1") && told[0].contains("connection refused"));
}

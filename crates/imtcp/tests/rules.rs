// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp rules`: what rules name is attached, and stays so.

use std::fs;
use std::process::Command;
use std::time::Duration;

use imtcp_test_support::rules::{unit_rule, Rules};
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

#[test]
fn a_unit_that_restarts_is_covered_again_and_all_is_given_back_at_the_end() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    let unit = Unit::new();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    let rules = Rules::new();
    rules.write("backup", &unit_rule(&unit, "max-rate = \"20M\""));
    let watch = rules.watch();
    let said = watch.says("rule backup: cgroup ");
    assert!(
        said.ends_with("is attached: bg, at most 20.0 Mbit/s; 1 process, 2 open sockets"),
        "{said}"
    );
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);

    imtcp::cgroup::move_pid(subject.child.pid(), &imtcp::cgroup::mount().unwrap()).unwrap();
    unit.make_anew();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    watch.says("rule backup: cgroup ");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    let list = rules.list();
    assert_eq!(
        (&list["watched"], &list["faults"]),
        (&true.into(), &serde_json::json!([])),
        "{list}"
    );
    let target = &list["rules"][0]["targets"][0];
    assert_eq!((&target["processes"], &target["gap"]), (&1.into(), &().into()), "{list}");
    let output = imtcp(&["rules", "list", "--dir", &rules.dir()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    // A change of the file is followed; one that is wrong changes nothing, and is said once.
    rules.write("backup", &unit_rule(&unit, "mode = \"nice\""));
    watch.says("is attached: nice, no limits");
    assert_eq!(subject.tell("look")[0], "imtcp_nice");
    rules.write("backup", "mode = \"nicer\"");
    watch.says(
        "backup.toml: there is no mode nicer: did you mean nice? (what it said before holds)",
    );
    assert_eq!(subject.tell("connect")[..2], ["imtcp_nice", "imtcp_nice"]);
    assert_eq!(rules.list()["faults"].as_array().unwrap().len(), 1);

    watch.end();
    assert_eq!(subject.tell("look")[..2], [before.clone(), before]);
}

#[test]
fn a_program_is_covered_when_it_starts_and_a_rule_that_is_removed_gives_it_back() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let rules = Rules::new();
    rules.write("python", "command = \"imtcp-test-python\"");
    let watch = rules.watch();
    watch.says("1 rule in ");
    let program = rules.0.path("imtcp-test-python");
    let Some(python) = python3() else { return };
    std::os::unix::fs::symlink(python, &program).unwrap();
    let Some(mut subject) = Subject::start_as(&net, &program) else { return };
    watch.says("rule python: process ");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    let said = imtcp_ok(&["rules", "remove", "python", "--dir", &rules.dir()]);
    assert_eq!(said, "rule python is removed; 1 target detached\n");
    assert!(subject.tell("connect").iter().all(|control| !control.starts_with("imtcp")));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(subject.tell("look").iter().all(|control| !control.starts_with("imtcp")));
    watch.end();
}

#[test]
fn what_was_attached_by_hand_stays_and_after_down_the_rules_wait_for_up() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let (by_hand, other) = (Unit::new(), Unit::new());
    imtcp::cgroup::move_pid(subject.child.pid(), &by_hand.0).unwrap();
    imtcp_ok(&["attach", "--cgroup", by_hand.path(), "--mode", "measure"]);
    let rules = Rules::new();
    rules.write("a", &unit_rule(&by_hand, ""));
    rules.write("b", &unit_rule(&other, ""));
    let watch = rules.watch();
    watch.says("rule b: cgroup ");
    assert_eq!(subject.tell("look")[0], "imtcp");
    let list = imtcp(&["rules", "list", "--dir", &rules.dir()]);
    assert_eq!(list.status.code(), Some(1));
    let told = "it was attached by hand and keeps that: measure, no limits";
    assert!(text(&list.stdout).contains(told), "{}", text(&list.stdout));

    imtcp_ok(&["down"]);
    watch.says("rules wait: ");
    assert_eq!(imtcp(&["status"]).status.code(), Some(3), "nobody loads it again");
    imtcp_ok(&["up"]);
    watch.says("rules hold again");
    eventually("by hand is over, and the rule has it", || subject.tell("look")[0] == "imtcp_bg");
    // A second one does not interfere.
    let second = imtcp(&["rules", "watch", "--dir", &rules.dir()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another `imtcp rules watch` runs"));
    watch.end();
}

#[test]
fn after_a_crash_the_next_one_goes_on_with_what_is_attached() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let rules = Rules::new();
    rules.write("a", &unit_rule(&unit, ""));
    let watch = rules.watch();
    watch.says("rule a: cgroup ");
    watch.child.signal(libc::SIGKILL);
    watch.child.finish();
    let attached = |status: &str| json(status)["attachments"].as_array().unwrap().len();
    assert_eq!(attached(&imtcp_ok(&["status", "--json"])), 1);
    fs::remove_file(rules.file("a")).unwrap();
    let watch = rules.watch();
    watch.says("rule a: cgroup ");
    eventually("it is given back", || attached(&imtcp_ok(&["status", "--json"])) == 0);
    watch.end();
}

#[test]
fn rules_are_written_tested_and_removed_by_command() {
    let Some(_alone) = alone() else { return };
    let rules = Rules::new();
    let run = |args: &[&str]| rules.run(args);
    let help = imtcp_ok(&["rules", "add", "--help"]);
    for option in [
        "--unit",
        "--cgroup",
        "--container",
        "--user",
        "--command",
        "--to",
        "--port",
        "--mode",
        "--max-rate",
    ] {
        assert!(help.contains(&format!("{option} <")), "{option}: {help}");
    }
    let add = run(&["add", "backup", "--unit", "restic*", "--max-rate", "20M", "--param", "g=0.9"]);
    let said = text(&add.stdout);
    assert!(said.contains("unit restic*.service: bg, g=0.9, at most 20.0 Mbit/s\n"), "{said}");
    assert!(
        said.contains("nobody applies the rules: `systemctl enable --now imtcp-rules`"),
        "{said}"
    );
    let again = run(&["add", "backup", "--unit", "restic"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--replace writes over it"), "{}", text(&again.stderr));
    assert_eq!(run(&["add", "backup", "--unit", "restic", "--replace"]).status.code(), Some(0));
    for (args, says) in [
        (&["add", "x"][..], "it names nothing"),
        (&["add", "../x", "--unit", "a"], "a rule's name has letters"),
        (&["add", "x", "--user", "root"], "user root has all services"),
        (&["add", "x", "--cgroup", "/"], "every process of this machine"),
        (&["add", "x", "--to", "host.example.org"], "`getent ahosts host.example.org` shows those"),
        (&["add", "x", "--to", "::/0"], "'::/0' is every address"),
        (&["add", "x", "--unit", "a", "--port", "9-8"], "write 1 to 65535"),
    ] {
        let refused = run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(text(&refused.stderr).contains(says), "{args:?}: {}", text(&refused.stderr));
    }
    let test = run(&["test"]);
    assert_eq!(test.status.code(), Some(0), "{}", text(&test.stderr));
    let said = text(&test.stdout);
    assert_eq!(
        said,
        "backup: unit restic.service: bg, no limits\n    nothing of that is there now\n"
    );
    rules.write("wrong", "unit = 7");
    let test = run(&["test", "--json"]);
    assert_eq!(test.status.code(), Some(1));
    let told = json(&text(&test.stdout));
    assert_eq!(
        (&told["rules"][0]["name"], &told["watched"]),
        (&"backup".into(), &().into()),
        "{told}"
    );
    assert!(told["faults"][0].as_str().unwrap().contains("wrong.toml: "), "{told}");
    let unknown = run(&["remove", "backups"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there are backup"), "{}", text(&unknown.stderr));
    assert_eq!(run(&["remove", "backup"]).status.code(), Some(0));
    assert!(!rules.file("backup").exists());
}

#[test]
fn systemd_is_told_that_it_is_ready_when_what_runs_already_is_covered() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let unit = Unit::new();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    let rules = Rules::new();
    rules.write("backup", &unit_rule(&unit, ""));
    let path = rules.0.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = Command::new(&*IMTCP);
    command.args(["rules", "watch", "--dir", &rules.dir()]).env("NOTIFY_SOCKET", &path);
    let watch = rules.watch_by(command);
    let mut told = [0; 64];
    let length = socket.recv(&mut told).expect("it is ready within 20 s");
    assert_eq!(text(&told[..length]).trim(), "READY=1");
    let list = imtcp(&["rules", "list", "--dir", &rules.dir()]);
    assert_eq!(list.status.code(), Some(0), "{}", text(&list.stdout));
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    watch.end();
}

#[test]
fn what_a_new_rule_names_that_is_not_there_is_said() {
    let Some(_alone) = alone() else { return };
    let rules = Rules::new();
    let said = |name, args: &[&str]| text(&rules.run(&[&["add", name], args].concat()).stdout);
    let none = "nothing that it names is there now; it holds for what comes\n";
    assert!(said("a", &["--unit", "imtcp-no-such.service"]).contains(none));
    assert!(said("b", &["--user", "imtcp-nobody"]).contains("there is no user imtcp-nobody now\n"));
    let unit = Unit::new();
    let there = said("c", &["--cgroup", unit.0.file_name().unwrap().to_str().unwrap()]);
    assert_eq!(there.lines().count(), 2, "{there}");
}

#[test]
fn nobody_waits_until_all_that_a_rule_names_is_attached() {
    let Some(_alone) = alone() else { return };
    let units: Vec<Unit> = (0..60).map(|_| Unit::new()).collect();
    let attached = || {
        let files = fs::read_dir(imtcp_bpf::rundir::ATTACHMENTS).unwrap();
        files
            .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "json"))
            .count()
    };
    let rules = Rules::new();
    rules.write("units", "cgroup = \"imtcp-test-*\"");
    let watch = rules.watch();
    watch.says("rule units: cgroup ");
    imtcp_ok(&["run", "-q", "--", "true"]);
    let when_it_had_run = attached();
    assert!(when_it_had_run < units.len(), "all were attached first");
    // Whoever ends it does not wait for the rest either.
    watch.end();
}

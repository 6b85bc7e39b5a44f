// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Attachments with a filter: by rules, and by hand.

use std::net::SocketAddr;
use std::path::Path;

use imtcp_test_support::rules::{unit_rule, Rules};
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

/// Makes and accepts connections, each with a name, and says their controls.
const PROGRAM: &str = r#"
import socket, sys
all = {}
def do(word, name, host='', port='0'):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    if word == 'listen':
        all[name] = socket.socket(socket.AF_INET6)
        all[name].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        all[name].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        all[name].bind(('::', int(port)))
        all[name].listen()
    elif word == 'connect':
        all[name] = socket.socket(family)
        all[name].connect((host, int(port)))
        all[name].sendall(bytes(1000))
    elif word == 'socket':
        all[name] = socket.socket()
    elif word == 'connect-it':
        all[name].connect((host, int(port)))
    elif word == 'begin':
        all[name] = socket.socket(family)
        all[name].setblocking(False)
        all[name].connect_ex((host, int(port)))
    elif word == 'call-itself':
        open('/proc/self/comm', 'w').write(name)
    elif word == 'end':
        # The server closes what its peer has closed.
        all[name].shutdown(socket.SHUT_WR)
        while all[name].recv(1000): pass
    elif word == 'accept':
        all[name] = all[host].accept()[0]
def control(name):
    return all[name].getsockopt(6, 13, 16).split(b'\0')[0].decode() if name in all else '-'
print('ready', flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word != 'look':
        do(word, *rest)
        rest = rest[:1]
    print(*map(control, rest), flush=True)
"#;

const PORT: u16 = 7778;

/// A program in the client's namespace with a listener, and the server's port.
fn subject(net: &Net) -> Option<(Connecting, String)> {
    subject_in(net, None)
}

fn subject_in(net: &Net, unit: Option<&Unit>) -> Option<(Connecting, String)> {
    let mut subject = Connecting(Subject::of_program(net, PROGRAM, &[])?);
    if let Some(unit) = unit {
        imtcp::cgroup::move_pid(subject.0.child.pid(), &unit.0).unwrap();
    }
    subject.0.tell(&format!("listen server :: {PORT}"));
    Some((subject, net.server.port().to_string()))
}

/// It runs PROGRAM.
struct Connecting(Subject);

impl Connecting {
    fn connect(&mut self, name: &str, host: &str, port: &str) -> String {
        self.0.tell(&format!("connect {name} {host} {port}")).remove(0)
    }

    /// One from the server's side, which it accepts.
    fn accept(&mut self, net: &Net, name: &str) -> String {
        let there = net.connect_from_server(SocketAddr::new(CLIENT.parse().unwrap(), PORT));
        let control = self.0.tell(&format!("accept {name} server")).remove(0);
        drop(there);
        control
    }

    fn is(&mut self, name: &str, control: &str) -> bool {
        self.0.tell(&format!("look {name}")) == [control]
    }
}

/// Attaches the root cgroup. Process 1 may not let its sockets be looked at, which exit code 1 says.
fn attach_root(more: &[&str]) -> String {
    text(&imtcp(&[&["attach", "--cgroup", &root()], more].concat()).stdout)
}

fn root() -> String {
    imtcp::cgroup::mount().unwrap().display().to_string()
}

#[test]
fn connections_to_a_destination_are_covered_wherever_they_are_made_and_no_others() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    let usual = subject.connect("old", SERVER, &port);
    subject.connect("here", "127.0.0.1", &PORT.to_string());
    subject.0.tell("accept of-here server");
    let rules = Rules::new();
    let add = rules.run(&["add", "there", "--to", "10.98.0.0/24", "--port", &port]);
    let filter = format!("to 10.98.0.0/24, port {port}");
    assert!(text(&add.stdout).contains(&format!("there.toml: {filter}: bg, no limits\n")));
    let watch = rules.watch();
    let said = watch.says("rule there: ");
    let attached = format!("cgroup {}, {filter} is attached: bg, no limits; ", root());
    assert!(said.contains(&attached), "{said}");

    assert!(subject.is("old", "imtcp_bg"));
    for other in ["here", "of-here", "server"] {
        assert!(subject.is(other, &usual), "{other}");
    }
    assert_eq!(subject.connect("new", SERVER, &port), "imtcp_bg");
    assert_eq!(subject.connect("mapped", &format!("::ffff:{SERVER}"), &port), "imtcp_bg");
    assert_eq!(subject.connect("new-here", "127.0.0.1", &PORT.to_string()), usual);
    subject.0.tell("accept of-new-here server");
    assert_eq!(subject.accept(&net, "accepted"), usual, "its port is another");

    let status = json(&imtcp_ok(&["status", "--json"]));
    let attached = &status["attachments"][0];
    let wanted = serde_json::json!({"to": ["10.98.0.0/24"], "port": [port]});
    assert_eq!((&attached["rule"], &attached["filter"]), (&"there".into(), &wanted), "{attached}");
    assert!(imtcp_ok(&["status"]).contains(&format!(", {filter}: bg, no limits (rule there)")));
    assert_eq!(rules.list()["rules"][0]["filter"], wanted);
    assert!(text(&rules.run(&["test"]).stdout).contains(&format!("there: {filter}: bg")));

    // The port of connections that are accepted is this machine's.
    let to = format!("to = [\"{SERVER}\", \"::1\"]\nport = [{PORT}]");
    rules.write("there", &to);
    let changed = format!("to ::1 or {SERVER}, port {PORT} is attached: ");
    watch.says(&changed);
    assert!(subject.is("old", &usual) && subject.is("mapped", &usual));
    assert!(subject.is("accepted", "imtcp_bg"));
    assert_eq!(subject.accept(&net, "accepted-2"), "imtcp_bg");
    assert_eq!(subject.connect("six", "::1", &PORT.to_string()), "imtcp_bg");
    assert_eq!(subject.0.tell("accept of-six server"), ["imtcp_bg"]);
    assert_eq!(subject.connect("four", "127.0.0.1", &PORT.to_string()), usual);
    assert_eq!(subject.0.tell("accept of-four server"), [usual.as_str()]);
    watch.end();
    for name in ["accepted", "accepted-2", "six", "of-six"] {
        assert!(subject.is(name, &usual), "{name}");
    }
    assert_eq!(subject.accept(&net, "accepted-3"), usual);
}

#[test]
fn of_a_unit_a_filter_takes_what_passes_and_the_rest_is_left_to_a_rule_without() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let unit = Unit::new();
    let (Some((mut inside, port)), Some(mut outside)) =
        (subject_in(&net, Some(&unit)), Subject::of_program(&net, PROGRAM, &[]).map(Connecting))
    else {
        return;
    };
    let usual = inside.connect("old", SERVER, &port);
    inside.connect("old-here", "127.0.0.1", &PORT.to_string());
    inside.0.tell("accept of-old-here server");
    let rules = Rules::new();
    // The one without a filter is attached first, and has the first name.
    rules.write("a-all", &unit_rule(&unit, "mode = \"nice\""));
    let watch = rules.watch();
    watch.says("rule a-all: ");
    assert!(inside.is("old", "imtcp_nice"));
    rules.write("b-there", &unit_rule(&unit, &format!("to = \"{SERVER}\"")));
    watch.says("rule b-there: ");
    rules.write("c-there", &unit_rule(&unit, "to = \"10.98.0.0/16\"\nmode = \"ledbat\""));
    watch.says("rule c-there: ");
    let here = PORT.to_string();
    assert!(inside.is("old", "imtcp_bg") && inside.is("old-here", "imtcp_nice"));
    assert!(inside.is("of-old-here", "imtcp_nice"));
    for (host, port, control) in [(SERVER, &port, "imtcp_bg"), ("127.0.0.1", &here, "imtcp_nice")] {
        assert_eq!(inside.connect("new", host, port), control);
    }
    assert_eq!(inside.0.tell("accept of-new server"), ["imtcp_nice"]);
    assert_eq!(inside.accept(&net, "accepted"), "imtcp_bg");
    assert_eq!(outside.connect("new", SERVER, &port), usual);

    // A connection that one rule gives up goes to the next.
    assert_eq!(rules.run(&["remove", "b-there"]).status.code(), Some(0));
    assert!(inside.is("old", "imtcp_ledbat") && inside.is("accepted", "imtcp_ledbat"));
    assert_eq!(inside.accept(&net, "accepted"), "imtcp_ledbat");
    assert_eq!(inside.connect("new", SERVER, &port), "imtcp_ledbat");
    std::fs::remove_file(rules.file("c-there")).unwrap();
    watch.says("rule c-there: ");
    eventually("the rest has all", || inside.is("old", "imtcp_nice"));
    assert_eq!(inside.accept(&net, "accepted"), "imtcp_nice");
    // The rule with the earlier name comes first, though it is attached last.
    rules.write("b", &unit_rule(&unit, &format!("to = \"{SERVER}\"\nmode = \"measure\"")));
    watch.says("rule b: ");
    rules.write("a", &unit_rule(&unit, "to = \"10.98.0.0/16\"\nmode = \"lp\""));
    watch.says("rule a: ");
    assert!(inside.is("old", "imtcp_lp"));
    assert_eq!(inside.connect("new", SERVER, &port), "imtcp_lp");
    assert_eq!(inside.accept(&net, "accepted"), "imtcp_lp");
    watch.end();
    assert!(inside.is("old", &usual) && inside.is("old-here", &usual));
}

#[test]
fn what_has_a_run_or_attachment_of_its_own_is_not_taken_by_a_destination() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let unit = Unit::new();
    let Some((mut subject, port)) = subject_in(&net, Some(&unit)) else { return };
    subject.connect("old", SERVER, &port);
    imtcp_ok(&["attach", "--cgroup", unit.path(), "--mode", "nice"]);
    let rules = Rules::new();
    rules.write("there", &format!("to = \"{SERVER}\""));
    let watch = rules.watch();
    watch.says("rule there: ");
    assert!(subject.is("old", "imtcp_nice"));
    assert_eq!(subject.connect("new", SERVER, &port), "imtcp_nice");
    assert_eq!(subject.accept(&net, "accepted"), "imtcp_nice");
    imtcp_ok(&["detach", "--cgroup", unit.path()]);
    assert!(subject.is("old", "imtcp_bg") && subject.is("new", "imtcp_bg"));
    assert_eq!(subject.accept(&net, "accepted"), "imtcp_bg");
    watch.end();
}

#[test]
fn by_hand_the_root_cgroup_with_a_filter_needs_no_force_and_detach_names_one_or_all() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    let usual = subject.connect("old", SERVER, &port);
    let root = root();
    let refused = imtcp(&["attach", "--cgroup", &root]);
    assert!(text(&refused.stderr).contains("name a destination (--to)"));
    let wrong = imtcp(&["attach", "--pid", &subject.0.pid(), "--to", SERVER]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    attach_root(&["--to", "192.0.2.0/24,2001:db8::/32", "--mode", "nice"]);
    let said = attach_root(&["--to", SERVER, "--json"]);
    assert_eq!(json(&said)["filter"], serde_json::json!({"to": [SERVER], "port": []}), "{said}");
    assert!(subject.is("old", "imtcp_bg"));
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["attachments"].as_array().unwrap().len(), 2);
    // Once more changes it.
    let said = attach_root(&["--to", SERVER, "--mode", "lp"]);
    assert!(
        said.contains(&format!("cgroup {root}, to {SERVER} is attached: lp, no limits (before"))
    );
    assert!(subject.is("old", "imtcp_lp"));
    let said = imtcp_ok(&["detach", "--cgroup", &root, "--to", SERVER]);
    assert!(said.starts_with(&format!("cgroup {root}, to {SERVER} is detached\n")), "{said}");
    assert!(subject.is("old", &usual));
    let said = imtcp_ok(&["detach", "--cgroup", &root]);
    assert!(said.contains("to 192.0.2.0/24 or 2001:db8::/32 is detached"), "{said}");
}

#[test]
fn a_connection_that_is_being_made_when_a_filter_begins_is_covered_once_it_is_there() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    subject.connect("old", SERVER, &port);
    let tc = |rest: &str| {
        let line = format!("qdisc replace dev veth0 root {rest}");
        assert!(net.command("tc").args(line.split(' ')).status().unwrap().success(), "{line}");
    };
    tc("pfifo limit 0");
    subject.0.tell(&format!("begin slow {SERVER} {port}"));
    attach_root(&["--to", SERVER]);
    assert!(!subject.is("slow", "imtcp_bg"));
    tc("pfifo limit 1000");
    eventually("it is connected, and covered", || subject.is("slow", "imtcp_bg"));
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn after_a_crash_and_after_down_a_destination_is_covered_again() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    let rules = Rules::new();
    rules.write("there", &format!("to = \"{SERVER}\""));
    let watch = rules.watch();
    watch.says("rule there: ");
    watch.child.signal(libc::SIGKILL);
    watch.child.finish();
    assert_eq!(subject.connect("old", SERVER, &port), "imtcp_bg");
    let watch = rules.watch();
    watch.says("1 rule in ");
    imtcp_ok(&["down"]);
    assert!(!subject.is("old", "imtcp_bg"));
    watch.says("rules wait: ");
    imtcp_ok(&["up"]);
    watch.says("rule there: ");
    assert!(subject.is("old", "imtcp_bg"));
    std::fs::remove_file(rules.file("there")).unwrap();
    watch.says("is detached");
    assert!(!subject.is("old", "imtcp_bg"));
    watch.end();
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

/// The kernel shows what a listener accepts to the programs of the cgroup that it was opened in.
#[test]
fn what_a_listener_from_another_cgroup_accepts_is_left_to_an_attachment_without_a_filter() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, _)) = subject(&net) else { return };
    let unit = Unit::new();
    imtcp::cgroup::move_pid(subject.0.child.pid(), &unit.0).unwrap();
    let rules = Rules::new();
    rules.write("there", &unit_rule(&unit, &format!("to = \"{SERVER}\"")));
    let watch = rules.watch();
    watch.says("could not reach 1 open socket (a listener was opened in another cgroup");
    assert!(!subject.accept(&net, "accepted").starts_with("imtcp"));
    rules.write("whole", &unit_rule(&unit, "mode = \"nice\""));
    watch.says("rule whole: ");
    assert!(subject.is("accepted", "imtcp_nice"));
    assert_eq!(subject.accept(&net, "accepted"), "imtcp_nice");
    watch.end();
}

#[test]
fn a_program_with_a_destination_has_only_that_covered() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    let usual = subject.connect("old-here", "127.0.0.1", &PORT.to_string());
    let rules = Rules::new();
    let command = std::fs::read_link(format!("/proc/{}/exe", subject.0.pid())).unwrap();
    let rule = |to: &str| format!("command = \"{}\"\nto = \"{to}\"", command.display());
    rules.write("python", &rule(SERVER));
    let watch = rules.watch();
    watch.says(&format!("process {}, to {SERVER} is attached", subject.0.pid()));
    assert_eq!(subject.connect("new", SERVER, &port), "imtcp_bg");
    assert!(subject.is("old-here", &usual));
    rules.write("python", &rule("127.0.0.0/8"));
    watch.says(&format!("process {}, to 127.0.0.0/8 is attached", subject.0.pid()));
    assert!(subject.is("old-here", "imtcp_bg") && subject.is("new", &usual));
    watch.end();
}

/// The kernel shows what a socket connects to to the programs of the cgroup that it was opened in.
#[test]
fn a_socket_that_connects_after_its_program_was_taken_for_a_destination_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some((mut subject, port)) = subject(&net) else { return };
    let usual = subject.0.tell("socket early").remove(0);
    let over = subject.connect("over", SERVER, &port);
    assert_eq!(over, usual);
    subject.0.tell("end over");
    // Other programs in Python run on this machine.
    subject.0.tell("call-itself imtcp-early");
    let rules = Rules::new();
    let rule = format!("command = \"imtcp-early\"\nto = \"{SERVER}\"\n");
    rules.write("early", &rule);
    let watch = rules.watch();
    let told =
        "one that is not connected yet was opened in another cgroup, before its program came here";
    let said = watch.says(told);
    assert!(said.contains("could not reach 2 open sockets (a listener"), "{said}");
    let status = imtcp_ok(&["status"]);
    assert!(status.contains(told), "{status}");
    let connect = |name| format!("connect-it {name} {SERVER} {port}");
    assert_eq!(subject.0.tell(&connect("early")), [usual.as_str()]);
    subject.0.tell("socket late");
    assert_eq!(subject.0.tell(&connect("late")), ["imtcp_bg"]);

    // Connections that exist by then are taken, and sockets opened here are seen when they connect.
    subject.0.tell("socket here");
    rules.write("early", &(rule + "mode = \"nice\"\n"));
    let said = watch.says("could not reach 1 open socket (a listener");
    assert!(!said.contains(told), "{said}");
    assert!(subject.is("early", "imtcp_nice"));
    assert_eq!(subject.0.tell(&connect("here")), ["imtcp_nice"]);
    watch.end();
}

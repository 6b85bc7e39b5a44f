// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Ten thousand connections: `watch` and the end of a run stay within the time and memory that
//! docs/explanation/architecture.md states.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use imtcp_test_support::*;

const CONNECTIONS: u64 = 10_000;

/// Both ends of each are its own: those that it accepts have the listener's control.
const PROGRAM: &str = r#"
import resource, socket, sys
pairs = int(sys.argv[1]) // 2
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if most < 2 * pairs + 100:
    sys.exit(print(f'a process may have {most} descriptors', flush=True))
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
server = socket.create_server(('127.0.0.1', 0))
held = []
for _ in range(pairs):
    held.append(socket.create_connection(server.getsockname()))
    held[-1].send(b'x')
    held.append(server.accept()[0])
    held[-1].send(b'y')
print('ready', flush=True)
sys.stdin.readline()
"#;

/// `watch --once`: its lines, its greatest memory in kB, and the time that it took beside its interval.
#[allow(clippy::zombie_processes)] // wait4 waits for it, and tells its memory
fn watch(args: &[&str]) -> (usize, u64, Duration) {
    const INTERVAL: Duration = Duration::from_millis(100);
    let began = Instant::now();
    let mut watch = Command::new(&*IMTCP);
    watch.args(["watch", "--once", "--json", "--interval", "0.1"]).args(args);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().count();
    // SAFETY: integers only, for which zero is a value; the child has not been waited for.
    let usage = unsafe {
        let (mut status, mut usage): (i32, libc::rusage) = (0, std::mem::zeroed());
        let waited = libc::wait4(watch.id() as i32, &mut status, 0, &mut usage);
        assert!(waited > 0 && status == 0, "watch: {status}");
        usage
    };
    (lines, usage.ru_maxrss as u64, began.elapsed().saturating_sub(INTERVAL))
}

/// In kB, of a process that lives.
fn greatest_memory_kb(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn ten_thousand_connections_are_watched_and_counted_in_bounded_time_and_memory() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (_, idle_kb, _) = watch(&["--filter", "nothing has this name"]);
    let mut run = net.command(&IMTCP);
    run.args(["run", "--json", "--", "python3", "-c", PROGRAM, &CONNECTIONS.to_string()]);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Background(run.spawn().unwrap());
    let mut said = String::new();
    BufReader::new(run.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said.trim() != "ready" {
        skip(said.trim());
        return;
    }
    let (lines, watch_kb, took) = watch(&["--filter", "127.0.0.1"]);
    println!("watch: {lines} lines, {idle_kb} kB and {watch_kb} kB with them, {took:?}");
    assert!(lines as u64 >= CONNECTIONS, "{lines}");
    // 3.5 KB for each.
    assert!(watch_kb - idle_kb <= CONNECTIONS * 7 / 2, "{watch_kb} kB, {idle_kb} kB without them");
    assert!(took < Duration::from_secs(5), "{took:?}");

    let began = Instant::now();
    drop(run.0.stdin.take());
    let mut run_kb = 0;
    while run.0.try_wait().unwrap().is_none() {
        run_kb = greatest_memory_kb(run.pid()).unwrap_or(run_kb);
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = began.elapsed();
    println!("the run's end: {run_kb} kB, {took:?}");
    let summary = summary(&run.finish());
    assert_eq!(summary["connections"], CONNECTIONS, "{summary}");
    assert!(run_kb <= 15_000, "{run_kb} kB");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run` ends, stops and goes on as its command does, whatever becomes of its output.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use imtcp_test_support::*;

fn state_of(pid: i32) -> char {
    imtcp_common::procfs::state(pid).unwrap_or('?')
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: a process that this test has started.
    unsafe { libc::kill(pid, signal) };
}

/// A run of a command that sleeps, and the command's pid.
fn sleeping(net: &Net, scratch: &Scratch, seconds: &str) -> (Background, i32) {
    let file = scratch.path("pid");
    let script = format!("echo $$ >{}; exec sleep {seconds}", file.display());
    let running = net.run_spawn(&["-q", "--", "sh", "-c", &script]);
    let pid = || fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok();
    eventually("the command sleeps", || pid().is_some_and(|p| state_of(p) == 'S'));
    (running, pid().unwrap())
}

#[test]
fn a_command_that_is_stopped_and_continued_alone_takes_the_run_along() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let (running, command) = sleeping(&net, &scratch, "3");
    for signal in [libc::SIGSTOP, libc::SIGTSTP] {
        kill(command, signal);
        let both = |state| state_of(command) == state && state_of(running.pid()) == state;
        eventually("both stop", || both('T'));
        kill(command, libc::SIGCONT);
        eventually("both go on", || both('S'));
    }
    assert_eq!(running.finish().status.code(), Some(0));
}

#[test]
fn each_signal_that_can_be_caught_reaches_the_command_with_its_value() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let script = "import os, signal\n\
        all, run = signal.valid_signals(), os.getppid()\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, all)\n\
        print('ready', flush=True)\n\
        while os.getppid() == run:\n\
        \x20 if got := signal.sigtimedwait(all, 0.2): print(got.si_signo, flush=True)";
    let mut command = Command::new(&*IMTCP);
    command.args(["run", "-q", "--", "python3", "-c", script]).stdout(Stdio::piped());
    let mut running = Background(command.spawn().unwrap());
    let mut said =
        std::io::BufRead::lines(std::io::BufReader::new(running.0.stdout.take().unwrap()));
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    // SIGCONT and those that stop are for the job; what tells of a process's own doing is not for another.
    let own = "KILL STOP CONT TSTP TTIN TTOU CHLD PIPE SEGV BUS FPE ILL TRAP SYS";
    let own: Vec<i32> = own
        .split(' ')
        .map(|name| format!("SIG{name}").parse::<nix::sys::signal::Signal>().unwrap() as i32)
        .collect();
    let usual = (1..=31).filter(|signal| !own.contains(signal));
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    for signal in usual.chain(real_time) {
        running.signal(signal);
        assert_eq!(said.next().unwrap().unwrap(), signal.to_string());
    }
}

/// As pkill(1) is when the run looks who it was.
#[test]
fn a_signal_of_a_sender_that_has_ended_reaches_the_command() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let (running, _) = sleeping(&net, &scratch, "60");
    running.signal(libc::SIGSTOP);
    eventually("the run is stopped", || state_of(running.pid()) == 'T');
    let sent = Command::new("sh").args(["-c", &format!("kill -TERM {}", running.pid())]).status();
    assert!(sent.unwrap().success());
    running.signal(libc::SIGCONT);
    let began = Instant::now();
    assert_eq!(running.finish().status.signal(), Some(libc::SIGTERM));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_timer_that_was_set_before_the_run_ends_its_command() {
    let Some(_alone) = alone() else { return };
    let began = Instant::now();
    let output = Command::new("perl")
        .args(["-e", "alarm 1; exec @ARGV", &IMTCP, "run", "-q", "--", "sleep", "20"])
        .output();
    let Ok(output) = output else { return skip("perl is missing") };
    assert_eq!(output.status.signal(), Some(libc::SIGALRM), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_command_that_dies_while_it_is_stopped_ends_the_run() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let (running, command) = sleeping(&net, &scratch, "60");
    kill(command, libc::SIGSTOP);
    eventually("the run stops", || state_of(running.pid()) == 'T');
    kill(command, libc::SIGKILL);
    assert_eq!(running.finish().status.signal(), Some(libc::SIGKILL));
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn a_run_ends_by_the_signal_that_ended_its_command() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    for signal in ["INT", "TERM", "HUP", "PIPE", "KILL", "SEGV", "QUIT"] {
        let script = format!("ulimit -c unlimited; kill -{signal} $$");
        let output = Command::new("sh")
            .args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh", &IMTCP])
            .args(["run", "--", "sh", "-c", &script])
            .current_dir(scratch.path("."))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let number = output.status.signal().unwrap_or_else(|| panic!("{signal}: {output:?}"));
        let name = nix::sys::signal::Signal::try_from(number).unwrap().as_str();
        assert_eq!(name, format!("SIG{signal}"));
        assert!(!output.status.core_dumped(), "{signal}: a core file of imtcp");
        assert!(text(&output.stderr).contains("imtcp: "), "the line comes first: {output:?}");
    }
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn a_signal_while_a_run_starts_leaves_nothing_of_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
        for wait_ms in [0, 2, 5] {
            let mut running = net.run_spawn(&["-q", "--", "sleep", "20"]);
            let running_pid = running.pid();
            while cgroups_left().is_empty() {
                assert!(running.0.try_wait().unwrap().is_none());
            }
            std::thread::sleep(Duration::from_millis(wait_ms));
            running.signal(signal);
            assert_eq!(running.finish().status.signal(), Some(signal));
            assert_eq!(cgroups_left(), [] as [&std::path::Path; 0], "{signal}, {wait_ms} ms");
            let of_it = format!("\"pid\":{},", running_pid);
            let files = fs::read_dir("/run/imtcp/runs").unwrap().flatten();
            let texts: Vec<_> = files.filter_map(|f| fs::read_to_string(f.path()).ok()).collect();
            assert!(!texts.iter().any(|t| t.contains(&of_it)), "{signal}, {wait_ms} ms: {texts:?}");
        }
    }
}

/// Ctrl-S, a message that waits for the terminal, Ctrl-C: the kernel lets the message through then.
#[test]
fn a_ctrl_c_while_a_message_waits_for_a_stopped_terminal_starts_no_command() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let (began, waits) = (scratch.path("began"), scratch.path("waits"));
    let script = format!(
        "echo >{}; sleep 0.5; exec {} run -- touch {}",
        waits.display(),
        *IMTCP,
        began.display()
    );
    let mut command = Command::new(&*IMTCP);
    command.args(["run", "-q", "--max-rate", "5M", "--", "sh", "-c", &script]);
    let mut shell = on_terminal_with_errors(command);
    eventually("the command has begun", || waits.exists());
    std::io::Write::write_all(&mut shell.master, b"\x13").unwrap();
    sleep(Duration::from_millis(1500));
    std::io::Write::write_all(&mut shell.master, b"\x03").unwrap();
    assert_eq!(shell.child.finish().status.signal(), Some(libc::SIGINT));
    assert!(!began.exists());
}

#[test]
fn one_ctrl_c_ends_a_loop_of_the_shell() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let script = format!(
        "for i in 1 2 3; do {} run -q -- sh -c 'echo $0 >>{1}; exec sleep 5' $i; done",
        *IMTCP,
        log.display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]);
    let mut shell = on_terminal(command);
    let began = Instant::now();
    eventually("the loop begins", || log.exists());
    sleep(Duration::from_millis(300));
    std::io::Write::write_all(&mut shell.master, b"\x03").unwrap();
    assert_eq!(shell.child.finish().status.signal(), Some(libc::SIGINT));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(fs::read_to_string(&log).unwrap(), "1\n");
}

#[test]
fn output_that_nobody_reads_changes_no_exit_code() {
    let Some(_alone) = alone() else { return };
    let script = "sleep 0.2; exit 42";
    let run = |options: &[&str]| {
        let mut command = Command::new(&*IMTCP);
        command.arg("run").args(options).args(["--", "sh", "-c", script]).stdin(Stdio::null());
        command
    };
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = run(&[]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(42), "2>/dev/full");
    let status = run(&["-o", "-"]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(42), "-o - on a full disk");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status =
        run(&["-o", "-"]).stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(42), "| true");

    let pty = nix::pty::openpty(None, None).unwrap();
    drop(pty.master);
    let status = run(&[]).stderr(File::from(pty.slave)).status().unwrap();
    assert_eq!(status.code(), Some(42), "a closed terminal");

    // An option that makes it say something before the command begins.
    let status = run(&["--mode", "lpecn"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(42), "a warning");
}

/// A pipe that is full; nobody reads what it has.
fn full_pipe() -> (std::io::PipeReader, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = File::from(std::os::fd::OwnedFd::from(writer));
    let set = |flags| nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
    set(nix::fcntl::OFlag::O_NONBLOCK);
    for size in [4096, 1] {
        while std::io::Write::write(&mut &writer, &vec![b'x'; size]).is_ok() {}
    }
    set(nix::fcntl::OFlag::empty());
    (reader, writer)
}

#[test]
fn a_signal_ends_a_run_that_waits_for_a_reader_of_its_line() {
    let Some(_alone) = alone() else { return };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let scratch = Scratch::new();
        let (_reader, full) = full_pipe();
        let pid_file = scratch.path("pid");
        let script = format!("echo $$ >{}; exit 42", pid_file.display());
        let mut command = Command::new(&*IMTCP);
        command.args(["run", "--", "sh", "-c", &script]).stdin(Stdio::null()).stderr(full);
        let mut running = Background(command.spawn().unwrap());
        let pid = || fs::read_to_string(&pid_file).ok()?.trim().parse::<i32>().ok();
        eventually("the command has ended", || {
            pid().is_some_and(|pid| !imtcp_common::procfs::exists(pid))
        });
        sleep(Duration::from_millis(700));
        assert!(running.0.try_wait().unwrap().is_none(), "it waits for a reader");
        assert_eq!(cgroups_left(), [] as [&Path; 0], "and holds nothing meanwhile");
        running.signal(signal);
        let asked = Instant::now();
        eventually("it ends", || running.0.try_wait().unwrap().is_some());
        assert!(asked.elapsed() < Duration::from_secs(2), "{signal}: {:?}", asked.elapsed());
        assert_eq!(running.finish().status.code(), Some(42), "the command's");
    }
}

#[test]
fn a_line_whose_reader_is_late_is_whole() {
    let Some(_alone) = alone() else { return };
    let (mut reader, full) = full_pipe();
    let mut command = Command::new(&*IMTCP);
    command.args(["run", "--", "true"]).stdin(Stdio::null()).stderr(full);
    let running = Background(command.spawn().unwrap());
    drop(command);
    sleep(Duration::from_millis(700));
    let mut read = String::new();
    std::io::Read::read_to_string(&mut reader, &mut read).unwrap();
    assert_eq!(read.trim_start_matches('x'), "imtcp: saw no TCP connection of the command\n");
    assert_eq!(running.finish().status.code(), Some(0));
}

#[test]
fn the_command_ends_by_a_pipe_that_nobody_reads() {
    let Some(_alone) = alone() else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(&*IMTCP)
        .args(["run", "-q", "--", "sh", "-c", "sleep 0.2; exec yes"])
        .stdin(Stdio::null())
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGPIPE));
}

/// On a terminal of its own, `--user` or not: may the command type into it?
fn typing(options: &[&str]) -> String {
    let scratch = Scratch::new();
    let said = scratch.path("said");
    let script = "import fcntl, os, sys, termios\n\
        try: fcntl.ioctl(0, termios.TIOCSTI, b'x'); said = 'typed'\n\
        except OSError as e: said = os.strerror(e.errno)\n\
        print(said, open('/dev/tty') and 'has its terminal', sep='; ', file=sys.stderr)";
    let mut command = Command::new(&*IMTCP);
    command.args(["run", "-q"]).args(options).args(["--", "python3", "-c", script]);
    command.stderr(File::create(&said).unwrap());
    let run = on_terminal(command);
    assert!(run.child.finish().status.success());
    fs::read_to_string(&said).unwrap()
}

#[test]
fn a_command_of_another_user_does_not_type_into_the_terminal() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let said = typing(&["--user", "nobody"]);
    assert_eq!(said, "Operation not permitted; has its terminal\n");
    let status = "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status";
    let inside = imtcp(&["run", "-q", "--user", "nobody", "--", "sh", "-c", status]);
    assert_eq!(text(&inside.stdout), "NoNewPrivs:\t0\nSeccomp:\t2\n", "sudo still works inside");
    let own = imtcp(&["run", "-q", "--", "sh", "-c", status]);
    assert!(text(&own.stdout).contains("Seccomp:\t0"), "{own:?}");
}

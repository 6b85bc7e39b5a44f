// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the tests of the real command share: two network namespaces joined by a shaped link,
//! a server that swallows what it gets, and ways to start the command.
#![allow(clippy::new_without_default)] // what is made is on the machine, and no default of anything

pub mod advice;
pub mod rules;
pub mod subject;
pub mod tls;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

/// The command under test; IMTCP_BIN names another, for a machine that has no build tree.
pub static IMTCP: LazyLock<String> = LazyLock::new(|| program("imtcp"));
pub static IMTCP_ADVICE: LazyLock<String> = LazyLock::new(|| program("imtcp-advice"));
pub static IMTCP_AGENT: LazyLock<String> = LazyLock::new(|| program("imtcp-agent"));

/// Where cargo has put it, two above this test; `cargo test --workspace` builds all of them.
fn program(name: &str) -> String {
    let named = std::env::var("IMTCP_BIN").map(PathBuf::from);
    let imtcp = named.unwrap_or_else(|_| {
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().join("imtcp")
    });
    let program = imtcp.with_file_name(name);
    assert!(program.exists(), "{} is not built", program.display());
    program.to_str().unwrap().into()
}

/// The loaded programs are the whole machine's: one test at a time, of all test programs.
pub struct Alone {
    _thread: MutexGuard<'static, ()>,
    _process: Flock<File>,
}

/// `None`, with the reason printed, where the tests cannot run.
pub fn alone() -> Option<Alone> {
    static LOCK: Mutex<()> = Mutex::new(());
    if let Err(reason) = can_run() {
        skip(format_args!("{reason}"));
        return None;
    }
    let thread = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    let file = File::create("/run/imtcp-tests.lock").unwrap();
    let process = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e).unwrap();
    // Whatever was loaded before: these tests are about this build.
    imtcp_ok(&["up"]);
    Some(Alone { _thread: thread, _process: process })
}

/// A test that cannot run says so, and is counted. libtest hides what a passing test prints by macros; it
/// does not see this.
pub fn skip(reason: impl std::fmt::Display) {
    let test = thread::current();
    let _ = writeln!(std::io::stderr(), "\nskipped: {}: {reason}", test.name().unwrap_or("main"));
}

fn can_run() -> Result<(), String> {
    imtcp_bpf::probe::require_privileges("this test").map_err(|e| e.to_string())?;
    imtcp_bpf::probe::require_kernel().map_err(|e| e.to_string())?;
    imtcp::cgroup::mount().map_err(|e| e.to_string())?;
    let ip = Command::new("ip").arg("-V").output();
    ip.map_err(|e| format!("ip(8) of iproute2: {e}")).map(drop)
}

pub fn imtcp(args: &[&str]) -> Output {
    output_of(&IMTCP, args)
}

/// Standard output of an invocation that must succeed.
#[track_caller]
pub fn imtcp_ok(args: &[&str]) -> String {
    printed_by(&IMTCP, args)
}

pub fn advice(args: &[&str]) -> Output {
    output_of(&IMTCP_ADVICE, args)
}

#[track_caller]
pub fn advice_ok(args: &[&str]) -> String {
    printed_by(&IMTCP_ADVICE, args)
}

pub fn agent(args: &[&str]) -> Output {
    output_of(&IMTCP_AGENT, args)
}

fn output_of(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn printed_by(program: &str, args: &[&str]) -> String {
    let output = output_of(program, args);
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line.trim()).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// The JSON line that `run --json` writes last to standard error.
#[track_caller]
pub fn summary(output: &Output) -> serde_json::Value {
    let stderr = text(&output.stderr);
    json(stderr.lines().last().unwrap_or_default())
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(10), what, holds);
}

#[track_caller]
pub fn within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {time:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Leftovers of any run or attachment in the cgroup hierarchy.
pub fn cgroups_left() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let note = |cgroup: &imtcp::cgroup::Cgroup| {
        found.extend(imtcp::cgroup::has_our_name(cgroup.path).then(|| cgroup.path.to_path_buf()));
    };
    imtcp::cgroup::visit(&imtcp::cgroup::mount().unwrap(), |_| true, note).unwrap();
    found
}

/// Two namespaces and a link of 50 Mbit/s between them.
pub struct Net {
    a: String,
    b: String,
    ns_a: File,
    ns_b: File,
    pub server: SocketAddr,
}

pub const CLIENT: &str = "10.98.0.1";
pub const SERVER: &str = "10.98.0.2";

impl Net {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (a, b) = (format!("imtcp-a-{id}"), format!("imtcp-b-{id}"));
        let ip = |args: String| {
            let output = Command::new("ip").args(args.split(' ')).output().unwrap();
            assert!(output.status.success(), "ip {args}: {}", text(&output.stderr));
        };
        for ns in [&a, &b] {
            ip(format!("netns add {ns}"));
            ip(format!("-n {ns} link set lo up"));
        }
        ip(format!("link add veth0 netns {a} type veth peer name veth0 netns {b}"));
        for (ns, address) in [(&a, CLIENT), (&b, SERVER)] {
            ip(format!("-n {ns} address add {address}/24 dev veth0"));
            ip(format!("-n {ns} link set veth0 up"));
            let tc = "qdisc add dev veth0 root tbf rate 50mbit burst 16k limit 250k";
            let tc = Command::new("tc").args(["-n", ns]).args(tc.split(' ')).output().unwrap();
            assert!(tc.status.success(), "tc: {}", text(&tc.stderr));
        }
        let open = |ns: &str| File::open(format!("/run/netns/{ns}")).unwrap();
        let mut net = Net {
            ns_a: open(&a),
            ns_b: open(&b),
            a,
            b,
            server: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        net.server = net.serve();
        net
    }

    pub fn client_ns(&self) -> &str {
        &self.a
    }

    /// Swallows what it gets, and closes when the peer does.
    fn serve(&self) -> SocketAddr {
        let listener = in_ns(&self.ns_b, || TcpListener::bind((SERVER, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
        });
        address
    }

    /// A connection of this process, in the client's namespace.
    pub fn connect(&self) -> TcpStream {
        in_ns(&self.ns_a, || TcpStream::connect(self.server).unwrap())
    }

    pub fn connect_from_server(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        in_ns(&self.ns_b, || TcpStream::connect(to))
    }

    pub fn read_in_client(&self, path: &str) -> String {
        in_ns(&self.ns_a, || fs::read_to_string(path).unwrap())
    }

    pub fn has_in_client(&self, path: &str) -> bool {
        in_ns(&self.ns_a, || fs::exists(path).unwrap_or(false))
    }

    pub fn write_in_client(&self, path: &str, value: &str) {
        in_ns(&self.ns_a, || fs::write(path, value).unwrap());
    }

    /// A command that starts in the client's namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let fd = self.ns_a.as_raw_fd();
        // SAFETY: setns is one system call; the descriptor is open in the child.
        unsafe {
            command.pre_exec(move || match libc::setns(fd, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        command.stdin(Stdio::null());
        command
    }

    /// `imtcp run ARGS` in the client's namespace.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(&IMTCP).arg("run").args(args).output().unwrap()
    }

    /// The same, going on in the background.
    pub fn run_spawn(&self, args: &[&str]) -> Background {
        let child = self
            .command(&IMTCP)
            .arg("run")
            .args(args)
            // A job of its own: the kernel does not let a group without a shell be stopped.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Background(child)
    }

    /// Arguments for a client program: the server's address and port.
    pub fn peer(&self) -> (String, String) {
        (self.server.ip().to_string(), self.server.port().to_string())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
    }
}

fn in_ns<T: Send>(ns: &File, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|s| {
        s.spawn(|| {
            nix::sched::setns(ns.as_fd(), nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
        .join()
        .unwrap()
    })
}

/// Python: `sent(s, n)`: sends so much, waits until the peer has it (0x5411 is SIOCOUTQ), and returns the seconds that took.
pub const SENT: &str = "import fcntl, socket, struct, sys, time\n\
    def sent(s, n):\n\
    \tbegan = time.monotonic()\n\
    \ts.sendall(bytes(n))\n\
    \twhile struct.unpack('i', fcntl.ioctl(s, 0x5411, bytes(4)))[0]: time.sleep(0.001)\n\
    \treturn time.monotonic() - began\n";

/// Says so where it is not.
pub fn python3_is_there() -> bool {
    python3().is_some()
}

/// Where the program itself is, or says that it is not there.
pub fn python3() -> Option<PathBuf> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    match asked {
        Ok(output) => Some(text(&output.stdout).trim().into()),
        Err(_) => {
            skip("python3 is missing");
            None
        }
    }
}

/// No test has a child that takes longer, on a busy machine either.
const ENDS_WITHIN: Duration = Duration::from_secs(180);

/// A child that does not outlive its test.
pub struct Background(pub Child);

impl Background {
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the pid is its.
        unsafe {
            libc::kill(self.pid(), signal);
        }
    }

    /// Its whole output, once it has ended. A test of what never ends fails, and does not hang.
    pub fn finish(mut self) -> Output {
        let deadline = Instant::now() + ENDS_WITHIN;
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            self.0.kill().unwrap();
        }
        let mut output =
            Output { status: self.0.wait().unwrap(), stdout: Vec::new(), stderr: Vec::new() };
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_end(&mut output.stdout).unwrap();
        }
        if let Some(mut err) = self.0.stderr.take() {
            err.read_to_end(&mut output.stderr).unwrap();
        }
        assert!(status.is_some(), "it did not end within {ENDS_WITHIN:?}: {output:?}");
        output
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A child on a terminal of its own, as a shell's foreground job would be.
pub struct OnTerminal {
    pub child: Background,
    pub master: File,
}

pub fn on_terminal(command: Command) -> OnTerminal {
    start_on_terminal(command, false)
}

/// The same, with standard error there too.
pub fn on_terminal_with_errors(command: Command) -> OnTerminal {
    start_on_terminal(command, true)
}

fn start_on_terminal(mut command: Command, with_errors: bool) -> OnTerminal {
    let size = nix::pty::Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let slave = File::from(pty.slave);
    // Or the command would hold its own terminal open.
    let close = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
    nix::fcntl::fcntl(&pty.master, close).unwrap();
    if with_errors {
        command.stderr(slave.try_clone().unwrap());
    }
    command.stdin(slave.try_clone().unwrap()).stdout(slave);
    // SAFETY: both are single system calls.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    OnTerminal { child: Background(command.spawn().unwrap()), master: pty.master.into() }
}

/// A directory that goes with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("imtcp-test-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn support(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

/// The client in C, linked statically; `None` without a compiler.
pub fn static_client() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(built) = std::env::var_os("IMTCP_TEST_CLIENT") {
                return Some(built.into());
            }
            let out = built().join("client-static");
            let done = Command::new("cc")
                .args(["-static", "-O1", "-o"])
                .arg(&out)
                .arg(support("client.c"))
                .status();
            match done {
                Ok(status) if status.success() => Some(out),
                other => {
                    skip(format_args!("cc -static: {other:?}"));
                    None
                }
            }
        })
        .clone()
}

/// The client in Go; `None` without Go.
pub fn go_client() -> Option<PathBuf> {
    let out = built().join("client-go");
    let done = Command::new("go")
        .args(["build", "-o"])
        .arg(&out)
        .arg(support("client.go"))
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", built().join("go-cache"))
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off")
        .status();
    match done {
        Ok(status) if status.success() => Some(out),
        other => {
            skip(format_args!("go build: {other:?}"));
            None
        }
    }
}

/// The connections that `watch` shows, of those that match; their rates are of an instant.
pub fn connections(filter: &str) -> Vec<serde_json::Value> {
    connections_over("0.01", filter)
}

/// The same, with their rates over so many seconds.
pub fn connections_over(interval_s: &str, filter: &str) -> Vec<serde_json::Value> {
    let watch = ["watch", "--once", "--json", "--interval", interval_s, "--filter", filter];
    imtcp_ok(&watch).lines().map(json).collect()
}

pub fn control_of(stream: &impl AsFd) -> String {
    imtcp::socket::control(stream.as_fd()).unwrap()
}

pub fn set_control(stream: &impl AsFd, name: &str) {
    imtcp::socket::set_control(stream.as_fd(), name).unwrap();
}

/// Can bytes still be sent? (The other side swallows them.)
pub fn still_sends(stream: &mut TcpStream) {
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(&[7; 200_000]).expect("the connection still sends");
}

/// A cgroup as that of a unit, which goes with the test.
pub struct Unit(pub PathBuf);

impl Unit {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("imtcp-test-{}-{n}", std::process::id());
        let dir = imtcp::cgroup::mount().unwrap().join(name);
        fs::create_dir(&dir).unwrap();
        Unit(dir)
    }

    pub fn write(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    /// As a unit does that restarts: empty for a moment, removed and made again.
    pub fn make_anew(&self) {
        eventually("the cgroup is empty", || fs::remove_dir(&self.0).is_ok());
        fs::create_dir(&self.0).unwrap();
    }

    /// A shell's line in it.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let line = format!("echo $$ > {}/cgroup.procs && {line}", self.0.display());
        command.args(["-c", &line, IMTCP.as_str()]).stdin(Stdio::null());
        command
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = imtcp::cgroup::remove(&self.0, &imtcp::cgroup::mount().unwrap());
    }
}

/// Where what tests build stays.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("test-programs");
    fs::create_dir_all(&built).unwrap();
    built
}

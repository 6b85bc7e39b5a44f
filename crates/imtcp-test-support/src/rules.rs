// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A directory of rules, and who applies them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use crate::*;

/// A directory of rules, and who applies them.
pub struct Rules(pub Scratch);

impl Rules {
    pub fn new() -> Self {
        Rules(Scratch::new())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path(&format!("{name}.toml"))
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    pub fn dir(&self) -> String {
        self.0.path("").to_str().unwrap().into()
    }

    pub fn watch(&self) -> Watch {
        let mut command = Command::new(&*IMTCP);
        command.args(["rules", "watch", "--dir", &self.dir()]);
        self.watch_by(command)
    }

    /// By a command that becomes `imtcp rules watch`.
    pub fn watch_by(&self, mut command: Command) -> Watch {
        command.stderr(Stdio::piped());
        let mut child = Background(command.spawn().unwrap());
        let lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
        let (to, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|l| to.send(l)));
        Watch { child, said }
    }

    /// `imtcp rules ARGS` with this directory.
    pub fn run(&self, args: &[&str]) -> Output {
        imtcp(&[&["rules"], args, &["--dir", &self.dir()]].concat())
    }

    pub fn list(&self) -> serde_json::Value {
        json(&text(&imtcp(&["rules", "list", "--json", "--dir", &self.dir()]).stdout))
    }
}

pub struct Watch {
    pub child: Background,
    said: Receiver<String>,
}

impl Watch {
    /// The next line that has this.
    #[track_caller]
    pub fn says(&self, part: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut before = Vec::new();
        while let Ok(line) =
            self.said.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if line.contains(part) {
                return line;
            }
            before.push(line);
        }
        panic!("it does not say {part:?} but {before:?}");
    }

    #[track_caller]
    pub fn end(self) {
        self.child.signal(libc::SIGTERM);
        let output = self.child.finish();
        assert_eq!(output.status.code(), Some(0));
        let status = json(&imtcp_ok(&["status", "--json"]));
        assert_eq!(status["attachments"], serde_json::json!([]));
        assert_eq!(cgroups_left(), [] as [&Path; 0]);
    }
}

pub fn unit_rule(unit: &Unit, more: &str) -> String {
    let name = unit.0.file_name().unwrap().to_str().unwrap();
    format!("cgroup = \"{name}\"\n{more}\n")
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Rules that name containers, by files as docker and podman write them (podman 4.3.1 wrote those copied here).

use std::fs;
use std::process::Command;

use imtcp_test_support::rules::Rules;
use imtcp_test_support::*;

const FIRST: &str = "0d633103cb71b8adb950d15a636d359ee2adbaafe12b882aaa1e33c151042735";
const SECOND: &str = "5fa75799f7b5e230af4cf3a90f6721943f441a217124fa364d6220e8bed446c7";

/// A directory that `imtcp rules watch` has in the place of /var/lib.
struct VarLib(Scratch);

impl VarLib {
    fn docker(&self, id: &str, name: &str) {
        let dir = self.0.path(&format!("docker/containers/{id}"));
        fs::create_dir_all(&dir).unwrap();
        let config = format!(
            "{{\"StreamConfig\":{{}},\"State\":{{\"Running\":true}},\"ID\":\"{id}\",\"Name\":\"/{name}\"}}"
        );
        fs::write(dir.join("config.v2.json"), config).unwrap();
    }

    fn podman(&self, id: &str, name: &str) {
        let dir = self.0.path("containers/storage/overlay-containers");
        fs::create_dir_all(&dir).unwrap();
        let containers = format!(
            "[{{\"id\":\"{id}\",\"names\":[\"{name}\"],\"image\":\"\",\"layer\":\"945b2c47\",\
             \"metadata\":\"{{\\\"name\\\":\\\"first\\\"}}\",\"created\":\"2026-11-28T21:21:05Z\",\
             \"flags\":{{\"MountLabel\":\"\"}}}}]"
        );
        fs::write(dir.join("containers.json"), containers).unwrap();
    }

    fn command(&self, args: &str) -> Command {
        let line =
            format!("mount --bind {} /var/lib && exec \"$0\" {args}", self.0.path("").display());
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &line, &IMTCP]);
        command
    }
}

/// A cgroup below the mount, and the one around it, which go with the test.
struct Cgroup(std::path::PathBuf);

impl Cgroup {
    fn new(unit: &Unit, name: &str) -> Self {
        let dir = unit.0.join(name);
        fs::create_dir(&dir).unwrap();
        Cgroup(dir)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_container_is_followed_by_its_name_when_it_is_made_anew() {
    let Some(_alone) = alone() else { return };
    let (unit, var_lib, rules) = (Unit::new(), VarLib(Scratch::new()), Rules::new());
    var_lib.docker(FIRST, "backup-1");
    rules.write("a", "container = \"backup-*\"\nmax-rate = \"20M\"");
    let first = Cgroup::new(&unit, &format!("docker-{FIRST}.scope"));
    let watch = rules.watch_by(var_lib.command(&format!("rules watch --dir {}", rules.dir())));
    let attached = |id: &str| format!("{id}.scope is attached: bg, at most 20.0 Mbit/s");
    watch.says(&attached(FIRST));

    // Another id has the name.
    drop(first);
    var_lib.docker(SECOND, "backup-1");
    let second = Cgroup::new(&unit, &format!("docker-{SECOND}.scope"));
    watch.says(&attached(SECOND));

    // A name that is given to another.
    var_lib.docker(SECOND, "web");
    watch.says(&format!("{SECOND}.scope is detached"));
    drop(second);
    watch.end();
}

#[test]
fn a_container_of_podman_is_covered_and_what_watches_it_is_not() {
    let Some(_alone) = alone() else { return };
    let (unit, var_lib, rules) = (Unit::new(), VarLib(Scratch::new()), Rules::new());
    var_lib.podman(FIRST, "renamed");
    let _its = Cgroup::new(&unit, &format!("libpod-{FIRST}"));
    let _monitor = Cgroup::new(&unit, &format!("libpod-conmon-{FIRST}.scope"));
    rules.run(&["add", "a", "--container", "renamed"]);
    let output = var_lib.command(&format!("rules test --dir {}", rules.dir())).output().unwrap();
    let said = text(&output.stdout);
    let wanted = format!(
        "a: container renamed: bg, no limits\n    cgroup {}/libpod-{FIRST} (0 processes)\n",
        unit.path()
    );
    assert_eq!(said, wanted, "{}", text(&output.stderr));
}

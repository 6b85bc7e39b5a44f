// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What rules name on the machine as it is at a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use imtcp_bpf::Obstacle;
use imtcp_common::{format, procfs};

use super::{containers, Names, Rule};
use crate::attachment::{Attachment, Target};
use crate::cgroup::{self, Cgroup};
use crate::made::Made;
use crate::user;

/// The kernel keeps so much of a process's name.
const NAME_BYTES: usize = 15;

/// The cgroups and processes that are there.
pub struct Machine {
    mount: PathBuf,
    /// Relative to the mount; none that imtcp made.
    cgroups: Vec<PathBuf>,
    /// The names of containers by their ids. Read where a rule asks for them, as processes are.
    containers: BTreeMap<String, Vec<String>>,
    processes: BTreeMap<i32, Process>,
    made: Made,
    /// The first cgroup that no rule reaches.
    unreachable: Option<PathBuf>,
}

struct Process {
    parent: i32,
    user: u32,
    /// Its path; of a program that was replaced meanwhile, too. Of kernel threads none is known.
    program: Option<PathBuf>,
    command: String,
    cgroup: String,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok().map(|path| {
            let text = path.to_string_lossy();
            text.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from)
        });
        Some(Process {
            parent: procfs::parent(pid)?,
            user: fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
            program,
            command: procfs::command(pid)?,
            // Not told of one that is too deep: whoever attaches it says so.
            cgroup: procfs::cgroup(pid).unwrap_or_default(),
        })
    }
}

impl Machine {
    /// As it is now, as far as these rules ask.
    pub fn look<'r>(rules: impl Iterator<Item = &'r Rule> + Clone) -> Result<Self, Obstacle> {
        let mount = cgroup::mount()?;
        let made = Made::now();
        let (cgroups, unreachable) = below(&mount, &made);
        let asks = |rule: &Rule| !rule.names.users.is_empty() || !rule.names.commands.is_empty();
        let containers = match rules.clone().any(|rule| !rule.names.containers.is_empty()) {
            true => containers::names(cgroups.iter().filter_map(|dir| containers::id(name(dir)))),
            false => BTreeMap::new(),
        };
        let processes = match { rules }.any(asks) {
            true => procfs::pids().filter_map(|pid| Some((pid, Process::of(pid)?))).collect(),
            false => BTreeMap::new(),
        };
        Ok(Machine { mount, cgroups, containers, processes, made, unreachable })
    }

    /// What no rule reaches, in a sentence.
    pub fn fault(&self) -> Option<String> {
        let first = format::others_text(&self.unreachable.as_ref()?.to_string_lossy());
        Some(format!(
            "no rule reaches some cgroups, as {first}: the name is no text (UTF-8), or the path is too long for the \
             kernel"
        ))
    }

    /// What a rule is to have: cgroups, none of them in another, and processes without those that descend from
    /// them. `attached` is what is attached already.
    pub fn named(&self, names: &Names, attached: &[Attachment]) -> Vec<Target> {
        if names.is_empty() {
            return vec![Target::Cgroup(self.mount.clone())];
        }
        let users: BTreeSet<u32> = names
            .users
            .iter()
            .filter_map(|name| Some(user::find(name).ok()?.uid.as_raw()))
            .collect();
        let is_named = |dir: &&PathBuf| {
            let name = name(dir);
            names.units.iter().any(|unit| unit.matches(name))
                || self.is_container(name, &names.containers)
                || names.cgroups.iter().any(|pattern| is_path(pattern, dir))
                || users.iter().any(|uid| name == format!("user-{uid}.slice"))
        };
        let all: BTreeSet<&PathBuf> = self.cgroups.iter().filter(is_named).collect();
        let outermost =
            |dir: &&&PathBuf| !dir.ancestors().skip(1).any(|d| all.contains(&d.to_path_buf()));
        let dirs: Vec<PathBuf> =
            all.iter().filter(outermost).map(|dir| self.mount.join(dir)).collect();
        let processes = self.processes(names, &users, &dirs, attached);
        dirs.into_iter().map(Target::Cgroup).chain(processes.map(Target::Pid)).collect()
    }

    fn is_container(&self, cgroup: &str, patterns: &[Pattern]) -> bool {
        let names = containers::id(cgroup).and_then(|id| self.containers.get(id));
        names.into_iter().flatten().any(|name| patterns.iter().any(|p| p.matches(name)))
    }

    fn processes<'m>(
        &'m self,
        names: &Names,
        users: &BTreeSet<u32>,
        dirs: &[PathBuf],
        attached: &[Attachment],
    ) -> impl Iterator<Item = i32> + use<'m> {
        let own: BTreeSet<i32> =
            procfs::ancestors().chain([std::process::id() as i32, 1]).collect();
        let path = |process: &Process| self.mount.join(process.cgroup.trim_start_matches('/'));
        let is_in = |process: &Process, dir: &Path| path(process).starts_with(dir);
        // An attachment's own process stays named. Others that are in some run or attachment have what they have.
        let is_taken = |pid: i32, process: &Process| {
            let is_its_own = |a: &Attachment| {
                a.target == Target::Pid(pid) && a.moved.iter().any(|m| is_in(process, &m.dir))
            };
            self.made.holds(&path(process)) && !attached.iter().any(is_its_own)
                || dirs.iter().any(|dir| is_in(process, dir))
        };
        let is_named = |process: &Process| {
            users.contains(&process.user) && process.program.is_some()
                || names.commands.iter().any(|name| is_program(process, name))
        };
        let named: BTreeSet<i32> = self
            .processes
            .iter()
            .filter(|(pid, process)| {
                !own.contains(pid) && is_named(process) && !is_taken(**pid, process)
            })
            .map(|(pid, _)| *pid)
            .collect();
        let descends = move |pid: i32, of: &BTreeSet<i32>| {
            let parent = |pid: &i32| self.processes.get(pid).map(|process| process.parent);
            std::iter::successors(parent(&pid), parent).take(1000).any(|pid| of.contains(&pid))
        };
        named.clone().into_iter().filter(move |pid| !descends(*pid, &named))
    }
}

fn name(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_path(pattern: &Pattern, dir: &Path) -> bool {
    let parts = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    pattern.matches_path_with(dir, parts)
}

fn is_program(process: &Process, name: &str) -> bool {
    let Some(program) = &process.program else { return false };
    if name.contains('/') {
        return program == Path::new(name)
            || fs::canonicalize(name).is_ok_and(|path| path == *program);
    }
    let shown = name.get(..NAME_BYTES).unwrap_or(name);
    process.command == shown || program.file_name().is_some_and(|file| file == name)
}

/// All that are not ours, relative to the mount, and the first that has no name for us.
fn below(mount: &Path, made: &Made) -> (Vec<PathBuf>, Option<PathBuf>) {
    let (mut found, mut unreachable) = (Vec::new(), None);
    let is_named = |cgroup: &Cgroup| {
        let named = cgroup.path.to_str().is_some_and(|path| path.len() < libc::PATH_MAX as usize);
        if !named {
            unreachable.get_or_insert_with(|| cgroup.path.to_path_buf());
        }
        named && !made.has(cgroup.path)
    };
    let visited = cgroup::visit(mount, is_named, |cgroup| {
        found.extend(cgroup.path.strip_prefix(mount).ok().map(Path::to_path_buf));
    });
    if visited.is_err() {
        unreachable.get_or_insert_with(|| mount.to_path_buf());
    }
    found.retain(|dir| !dir.as_os_str().is_empty());
    (found, unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::parse;

    const CONTAINER: &str = "0d633103cb71b8adb950d15a636d359ee2adbaafe12b882aaa1e33c151042735";

    fn machine() -> Machine {
        let process = |parent, user, program: &str, command: &str, cgroup: &str| Process {
            parent,
            user,
            program: (!program.is_empty()).then(|| program.into()),
            command: command.into(),
            cgroup: cgroup.into(),
        };
        Machine {
            mount: "/cg".into(),
            cgroups: [
                "a.slice",
                "a.slice/restic.service",
                "a.slice/restic@b.service",
                "user-7.slice",
                &format!("docker/{CONTAINER}"),
                &format!("machine.slice/libpod-conmon-{CONTAINER}.scope"),
            ]
            .map(PathBuf::from)
            .into(),
            containers: BTreeMap::from([(CONTAINER.into(), vec!["backup-1".into()])]),
            processes: BTreeMap::from([
                (100_010, process(1, 7, "/usr/bin/rclone", "rclone", "/a.slice")),
                (100_011, process(100_010, 7, "/usr/bin/rclone", "rclone", "/a.slice")),
                (100_012, process(1, 8, "/usr/bin/python3", "borg", "/imtcp-run-1/x")),
                (100_009, process(1, 8, "/usr/bin/python3", "borgmatic", "/imtcp-run-evil")),
                (100_013, process(1, 8, "/usr/bin/python3", "borg", "/a.slice")),
                (100_014, process(2, 8, "", "borg", "/")),
                (100_015, process(1, 7, "/usr/bin/rclone", "rclone", "/user-7.slice/s")),
            ]),
            made: Made::of(&["/cg/imtcp-run-1"]),
            unreachable: None,
        }
    }

    fn named(rule: &str) -> Vec<String> {
        let rule = parse("x", rule).unwrap();
        machine().named(&rule.names, &[]).iter().map(Target::to_string).collect()
    }

    #[test]
    fn units_are_cgroups_of_that_name_wherever_they_are() {
        let both = ["cgroup /cg/a.slice/restic.service", "cgroup /cg/a.slice/restic@b.service"];
        assert_eq!(named("unit = \"restic*\""), both);
        assert_eq!(named("unit = \"restic\""), both[..1]);
        assert_eq!(named("unit = \"restic.scope\""), [""; 0]);
    }

    #[test]
    fn a_star_is_a_part_of_one_name_and_what_is_within_another_is_not_named_twice() {
        assert_eq!(named("cgroup = \"*/restic.service\""), ["cgroup /cg/a.slice/restic.service"]);
        assert_eq!(named("cgroup = \"res*\""), [""; 0]);
        assert_eq!(named("cgroup = \"a.slice\"\nunit = \"restic*\""), ["cgroup /cg/a.slice"]);
    }

    #[test]
    fn a_program_is_named_by_path_or_name_and_its_children_go_with_it() {
        assert_eq!(named("command = \"rclone\""), ["process 100010", "process 100015"]);
        assert_eq!(named("command = \"/usr/bin/rclone\"").len(), 2);
        // Not one within a run, and no kernel thread.
        assert_eq!(named("command = \"borg\""), ["process 100013"]);
        assert_eq!(named("command = \"borgmatic\""), ["process 100009"]);
        assert_eq!(named("command = \"rclon\""), [""; 0]);
    }

    #[test]
    fn a_container_is_the_cgroup_with_the_id_of_that_name() {
        let its = format!("cgroup /cg/docker/{CONTAINER}");
        assert_eq!(named("container = \"backup-*\""), [its]);
        assert_eq!(named("container = \"backup\""), [""; 0]);
    }

    #[test]
    fn a_destination_alone_is_of_all_processes() {
        assert_eq!(named("to = \"192.0.2.0/24\""), ["cgroup /cg"]);
    }

    #[test]
    fn a_user_has_the_slice_of_that_number_and_the_processes_elsewhere() {
        assert_eq!(named("user = \"7\""), ["cgroup /cg/user-7.slice", "process 100010"]);
    }
}

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

/// Cgroups that rules name, each with its path: users make as many as they like.
const MOST_CGROUPS: usize = 4096;

/// The cgroups and processes that are there.
pub struct Machine {
    mount: PathBuf,
    /// Relative to the mount, those that a rule may name; none that imtcp made.
    cgroups: BTreeSet<PathBuf>,
    /// The names of containers by their ids. Read where a rule asks for them, as processes are.
    containers: BTreeMap<String, Vec<String>>,
    processes: BTreeMap<i32, Process>,
    made: Made,
    /// Why a cgroup is not among them, of the first such.
    left_out: Option<String>,
}

struct Process {
    parent: i32,
    user: u32,
    /// Its path; of a program that was replaced meanwhile, too. Kernel threads have none.
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
        let (cgroups, left_out) =
            below(&mount, &made, |dir| rules.clone().any(|rule| may_name(&rule.names, dir)));
        let asks = |rule: &Rule| !rule.names.users.is_empty() || !rule.names.commands.is_empty();
        let containers = match rules.clone().any(|rule| !rule.names.containers.is_empty()) {
            true => containers::names(cgroups.iter().filter_map(|dir| containers::id(name(dir)))),
            false => BTreeMap::new(),
        };
        let processes = match { rules }.any(asks) {
            true => procfs::pids().filter_map(|pid| Some((pid, Process::of(pid)?))).collect(),
            false => BTreeMap::new(),
        };
        Ok(Machine { mount, cgroups, containers, processes, made, left_out })
    }

    /// One sentence about targets that rules name and do not reach.
    pub fn fault(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Has the process of a rule's attachment, or one that it started, left the cgroups of imtcp and those that are
    /// attached? Of the processes seen.
    pub fn has_left(&self, a: &Attachment, attached: &[Attachment]) -> bool {
        let Target::Pid(root) = a.target else { return false };
        if a.rule.is_none() {
            return false;
        }
        let is_of_it = |pid: i32| pid == root || self.ancestors(pid).any(|pid| pid == root);
        let is_attached = |dir: &Path| {
            let whole = attached.iter().filter(|a| a.filter.is_none());
            { whole }.any(|a| matches!(&a.target, Target::Cgroup(own) if dir.starts_with(own)))
        };
        let is_outside = |process: &Process| {
            let dir = self.dir_of(process);
            process.program.is_some() && !self.made.holds(&dir) && !is_attached(&dir)
        };
        self.processes.iter().any(|(pid, process)| is_outside(process) && is_of_it(*pid))
    }

    fn ancestors(&self, pid: i32) -> impl Iterator<Item = i32> + use<'_> {
        let parent = |pid: &i32| self.processes.get(pid).map(|process| process.parent);
        std::iter::successors(parent(&pid), parent).take(1000)
    }

    fn dir_of(&self, process: &Process) -> PathBuf {
        cgroup::shown_at(&self.mount, &process.cgroup)
    }

    /// The targets of a rule: cgroups, none of them in another, and processes without those that descend from them.
    /// `attached` are the attachments that exist already.
    pub fn named(&self, names: &Names, attached: &[Attachment]) -> Vec<Target> {
        if names.is_empty() {
            return vec![Target::Cgroup(self.mount.clone())];
        }
        let users: BTreeSet<u32> = names
            .users
            .iter()
            .filter_map(|name| Some(user::find(name).ok()?.uid.as_raw()))
            .collect();
        let is_container = |name: &str| self.is_container(name, &names.containers);
        let is_user = |name: &str| users.iter().any(|uid| name == format!("user-{uid}.slice"));
        let is_named = |dir: &&PathBuf| is_cgroup_named(names, dir, is_container, is_user);
        // A cgroup comes before those in it.
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in self.cgroups.iter().filter(is_named).map(|dir| self.mount.join(dir)) {
            if !dirs.last().is_some_and(|around| dir.starts_with(around)) {
                dirs.push(dir);
            }
        }
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
        let is_in = |process: &Process, dir: &Path| self.dir_of(process).starts_with(dir);
        // An attachment's own process stays named. Others that are in some run or attachment have what they have.
        let is_taken = |pid: i32, process: &Process| {
            let is_its_own = |a: &Attachment| {
                a.target == Target::Pid(pid) && a.moved.iter().any(|m| is_in(process, &m.dir))
            };
            self.made.holds(&self.dir_of(process)) && !attached.iter().any(is_its_own)
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
        let descends =
            move |pid: i32, of: &BTreeSet<i32>| self.ancestors(pid).any(|pid| of.contains(&pid));
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

/// Those of which this says yes and that are not ours, relative to the mount; and why the first that is left out is.
fn below(
    mount: &Path,
    made: &Made,
    may_be_named: impl Fn(&Path) -> bool,
) -> (BTreeSet<PathBuf>, Option<String>) {
    let (mut found, mut left_out) = (BTreeSet::new(), None);
    let goes_into = |cgroup: &Cgroup| !made.has(cgroup.path);
    let take = |cgroup: &Cgroup| {
        let Ok(dir) = cgroup.path.strip_prefix(mount) else { return };
        if dir.as_os_str().is_empty() || !may_be_named(dir) {
            return;
        }
        let why = if cgroup.path.to_str().is_none() {
            "its name is no text (UTF-8)"
        } else if cgroup.path.as_os_str().len() > cgroup::LONGEST_PATH {
            "its path is too long for the kernel"
        } else if found.len() == MOST_CGROUPS {
            "rules name too many"
        } else {
            found.insert(dir.to_path_buf());
            return;
        };
        left_out.get_or_insert_with(|| {
            let name = format::others_text(&cgroup.path.to_string_lossy());
            format!("no rule reaches the cgroup {name}, and there may be more: {why}")
        });
    };
    if let Err(e) = cgroup::visit(mount, goes_into, take) {
        left_out.get_or_insert_with(|| format!("cannot look at all cgroups: {e}"));
    }
    (found, left_out)
}

/// Is this one of what a rule names? A name that is no text is read as far as it is.
fn is_cgroup_named(
    names: &Names,
    dir: &Path,
    is_container: impl Fn(&str) -> bool,
    is_user: impl Fn(&str) -> bool,
) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    names.units.iter().any(|unit| unit.matches(&name))
        || is_container(&name)
        || names.cgroups.iter().any(|pattern| is_path(pattern, Path::new(&*dir.to_string_lossy())))
        || is_user(&name)
}

/// The same before the user database or a container's engine is asked.
fn may_name(names: &Names, dir: &Path) -> bool {
    let may_be_container = |name: &str| containers::id(name).is_some();
    let may_be_user = |name: &str| name.starts_with("user-");
    is_cgroup_named(
        names,
        dir,
        |name| !names.containers.is_empty() && may_be_container(name),
        |name| !names.users.is_empty() && may_be_user(name),
    )
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
            left_out: None,
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

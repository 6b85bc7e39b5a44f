// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Cgroups of version 2: made for a run, left without a trace.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use imtcp_bpf::Obstacle;
use imtcp_common::procfs::{self, Cgroup2};
use imtcp_common::shell;

pub fn mount() -> Result<PathBuf, Obstacle> {
    procfs::cgroup2_mount().ok_or_else(|| {
        // Version 1 has a directory for each controller; there version 2 is one of them.
        let beside_version_1 = procfs::has_cgroup1();
        let remedy = if beside_version_1 {
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
        } else {
            "mount -t cgroup2 none /sys/fs/cgroup"
        };
        Obstacle::new("cgroup version 2 is not mounted", format!("mount it: `{remedy}`"))
    })
}

/// The directory of a process's cgroup.
pub fn of_pid(pid: i32) -> Result<PathBuf> {
    mount()?;
    let path = procfs::cgroup(pid).ok_or_else(|| anyhow!("there is no process {pid}"))?;
    require_text(Path::new(&path))?;
    let mounted = procfs::cgroup2().and_then(|mounted| dir_of(&mounted, &path));
    mounted.filter(|dir| dir.join("cgroup.procs").exists()).ok_or_else(|| {
        anyhow!(
            "the cgroup {path} of process {pid} cannot be seen from here (a container, or a cgroup \
             namespace): call imtcp where /sys/fs/cgroup shows it, on the host"
        )
    })
}

/// Records name a cgroup by its path, as text.
fn require_text(path: &Path) -> Result<()> {
    match path.to_str() {
        Some(text) if !text.contains(char::REPLACEMENT_CHARACTER) => Ok(()),
        _ => bail!(
            "the name of the cgroup {} is no text (UTF-8), and imtcp could not find it again: take \
             one around it",
            path.display()
        ),
    }
}

/// Where a mount shows a cgroup. Outside of a cgroup namespace paths begin with /../, and the names
/// above are not told.
fn dir_of(mounted: &Cgroup2, path: &str) -> Option<PathBuf> {
    let within = Path::new(path).strip_prefix(&mounted.root).ok()?;
    let is_known = |path: &str| path.split('/').all(|part| part != "..");
    let known = is_known(path) && is_known(&mounted.root);
    known.then(|| mounted.dir.join(within).components().collect())
}

/// The kernel's number of a cgroup, which one that is made anew under the same name does not have.
pub fn id(dir: &Path) -> Option<u64> {
    Some(fs::metadata(dir).ok()?.ino())
}

/// Makes a cgroup within another, or says why it cannot: anywhere else the limits of the other would not
/// hold.
pub fn create(parent: &Path, name: &str) -> Result<PathBuf> {
    let dir = parent.join(name);
    let is_root = mount().is_ok_and(|mount| mount == parent);
    make(&dir).with_context(|| {
        let limits = if is_root { "" } else { ", whose limits hold nowhere else" };
        format!("cannot make a cgroup within {}{limits}", parent.display())
    })?;
    Ok(dir)
}

fn make(dir: &Path) -> Result<()> {
    // Whatever the umask: others could make cgroups in it that keep it there.
    match fs::DirBuilder::new().mode(0o755).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => return Err(no_more_within(dir).into()),
        other => other.map_err(|e| Obstacle::unwritable(dir, &e))?,
    }
    // Where some cgroups are of threads, each new one must be.
    let kind = dir.join("cgroup.type");
    if fs::read_to_string(&kind).is_ok_and(|k| k.trim() == "domain invalid") {
        if let Err(e) = fs::write(&kind, "threaded") {
            let _ = fs::remove_dir(dir);
            bail!("it takes only cgroups of threads, and this kernel makes none there: {e}");
        }
    }
    Ok(())
}

/// Names the bound that keeps a cgroup from being made: that of one around it.
fn no_more_within(dir: &Path) -> Obstacle {
    let number = |dir: &Path, file| -> Option<u64> {
        fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
    };
    let descendants = |dir: &Path| -> Option<u64> {
        let stat = fs::read_to_string(dir.join("cgroup.stat")).ok()?;
        stat.lines().find_map(|l| l.strip_prefix("nr_descendants "))?.parse().ok()
    };
    let full = (1..).zip(dir.ancestors().skip(1)).find_map(|(depth, around)| {
        let many = number(around, "cgroup.max.descendants").zip(descendants(around));
        if many.is_some_and(|(most, now)| now >= most) {
            return Some(around.join("cgroup.max.descendants"));
        }
        let deep = number(around, "cgroup.max.depth").is_some_and(|most| depth > most);
        deep.then(|| around.join("cgroup.max.depth"))
    });
    match full {
        Some(file) => Obstacle::new(
            format!("{} allows no more", file.display()),
            format!("`echo max >{}` does", file.display()),
        ),
        None => Obstacle::new(
            "cgroup.max.descendants or cgroup.max.depth, there or above, allows no more",
            "raise it",
        ),
    }
}

/// The processes of a cgroup and of those in it.
pub fn procs(dir: &Path) -> BTreeSet<i32> {
    let mut found = own_procs(dir);
    for child in children(dir) {
        found.extend(procs(&child));
    }
    found
}

fn own_procs(dir: &Path) -> BTreeSet<i32> {
    let numbers = |file| -> BTreeSet<i32> {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        // 0: of another pid namespace. Written back, it would mean ourselves.
        text.lines().filter_map(|l| l.parse().ok()).filter(|pid| *pid != 0).collect()
    };
    let mut found = numbers("cgroup.procs");
    // The kernel lists only threads for a cgroup of threads, and for a process whose first thread ended.
    let threads = numbers("cgroup.threads");
    found.extend(threads.difference(&found.clone()).copied().filter_map(procfs::process_of));
    found
}

pub fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

pub fn is_populated(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.events")).is_ok_and(|t| t.contains("populated 1"))
}

pub fn move_pid(pid: i32, to: &Path) -> io::Result<()> {
    fs::write(to.join("cgroup.procs"), pid.to_string())
}

/// Removes a cgroup and those in it. Processes that still run there move to `refuge`, or to its parent if it is
/// gone. Inner cgroups with limits that somebody else made are told. A process that cannot be moved keeps no
/// other.
pub fn remove(dir: &Path, refuge: &Path) -> Result<()> {
    remove_telling(dir, refuge, |_| ())
}

/// The same, and tells of each process just before it is moved. Later it may have ended, and what it has started
/// meanwhile is in `refuge`.
pub fn remove_telling(dir: &Path, refuge: &Path, tell: impl FnMut(i32)) -> Result<()> {
    let refuge = refuge.ancestors().find(|d| d.join("cgroup.procs").exists()).unwrap_or(refuge);
    let mut removal = Removal { refuge, limited: BTreeSet::new(), tell };
    let removed = removal.when_empty(dir);
    for child in removal.limited {
        eprintln!(
            "imtcp: the processes of {} are moved to {}: limits of the former end",
            child.display(),
            refuge.display()
        );
    }
    removed
}

struct Removal<'a, T> {
    refuge: &'a Path,
    limited: BTreeSet<PathBuf>,
    tell: T,
}

/// How often the processes of a cgroup that is held still are read: nobody in it forks, and a few were born while
/// the first were read.
const LOOKS: usize = 16;

impl<T: FnMut(i32)> Removal<'_, T> {
    fn when_empty(&mut self, dir: &Path) -> Result<()> {
        for round in 0..100 {
            if round > 0 {
                self.empty_held_still(dir);
            }
            if self.once(dir)? {
                return Ok(());
            }
            // Dying processes hold it for an instant.
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the cgroup {} does not become empty", dir.display())
    }

    /// Only where it takes a second look: a process that is held still may find its system call interrupted. Nobody
    /// sleeps here: if this command were killed meanwhile, they would stand still until the next one.
    fn empty_held_still(&mut self, dir: &Path) {
        let Some(_frozen) = Frozen::new(dir, self.refuge) else { return };
        for _ in 0..LOOKS {
            if procs(dir).is_empty() || self.move_all(dir).is_err() {
                return;
            }
        }
    }

    /// Moves the processes that are there now.
    fn move_all(&mut self, dir: &Path) -> Result<()> {
        let mut refused = None;
        for child in children(dir) {
            if is_populated(&child) && !is_ours(&child) {
                self.limited.insert(child.clone());
            }
            refused = self.move_all(&child).err().or(refused);
        }
        for pid in own_procs(dir) {
            (self.tell)(pid);
            match move_pid(pid, self.refuge) {
                Err(e) if e.raw_os_error() != Some(libc::ESRCH) => {
                    refused = Some(cannot_move(pid, self.refuge, &e).into());
                }
                _ => {}
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Moves what is there now. Says whether nothing is left.
    fn once(&mut self, dir: &Path) -> Result<bool> {
        let refused = self.move_all(dir).err();
        match (remove_tree(dir), refused) {
            (Ok(()), _) => Ok(true),
            (Err(_), Some(refused)) => Err(refused),
            (Err(e), None) if e.raw_os_error() == Some(libc::EBUSY) => Ok(false),
            (Err(e), None) => Err(e).with_context(|| format!("cannot remove {}", dir.display())),
        }
    }
}

/// Removes empty cgroups, those within first.
fn remove_tree(dir: &Path) -> io::Result<()> {
    let mut refused = None;
    for child in children(dir) {
        refused = remove_tree(&child).err().or(refused);
    }
    match fs::remove_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(refused.unwrap_or(e)),
        Ok(()) => Ok(()),
    }
}

fn cannot_move(pid: i32, to: &Path, error: &io::Error) -> Obstacle {
    let name = procfs::command(pid).unwrap_or_default();
    let found =
        format!("cannot move process {pid} ({name}) back to the cgroup {}: {error}", to.display());
    let control = to.join("cgroup.subtree_control");
    let controllers = fs::read_to_string(&control).unwrap_or_default();
    if error.raw_os_error() != Some(libc::EBUSY) || controllers.trim().is_empty() {
        return Obstacle::new(found, "end it, or move it to another cgroup; then call imtcp again");
    }
    let off: Vec<_> = controllers.split_whitespace().map(|name| format!("-{name}")).collect();
    let take_them = match shell::quoted_path(&control) {
        Some(control) => format!("`echo {} >{control}`", off.join(" ")),
        None => format!("write {} to its cgroup.subtree_control", off.join(" ")),
    };
    Obstacle::new(
        format!("{found}, for it gives controllers to the cgroups in it"),
        format!("end the process, or {take_them}; then call imtcp again"),
    )
}

/// A cgroup whose processes are held still, so that none forks while the others are moved. Those that are
/// moved go on; the end of this lets go on what is left.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn new(dir: &'a Path, refuge: &Path) -> Option<Self> {
        let own = std::process::id() as i32;
        if procs(dir).contains(&own) {
            // Held still itself, this command would let nobody go on.
            move_pid(own, refuge).ok()?;
        }
        fs::write(dir.join(FREEZE), "1").ok()?;
        Some(Frozen(dir))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        thaw(self.0);
    }
}

const FREEZE: &str = "cgroup.freeze";

/// Lets the processes of a cgroup go on, which a killed command may have held still.
pub fn thaw(dir: &Path) {
    let file = dir.join(FREEZE);
    if fs::read_to_string(&file).is_ok_and(|text| text.trim() == "1") {
        let _ = fs::write(file, "0");
    }
}

/// The beginning of our cgroups' names; the policy's number follows.
pub const RUN: &str = "imtcp-run-";
pub const ATTACHMENT: &str = "imtcp-attach-";

/// Has a run or an attachment made it?
pub fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(RUN) || name.starts_with(ATTACHMENT)
}

/// How old what nobody registered is before it counts as abandoned: somebody may be about to use it.
const ABANDONED: Duration = Duration::from_secs(60);

/// Is this file or cgroup old enough?
pub fn is_abandoned(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|m| m.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// Removes cgroups of ours, there and below, that nobody has registered: empty ones that are not new.
pub fn remove_abandoned(dir: &Path, registered: &BTreeSet<PathBuf>) {
    for child in children(dir) {
        remove_abandoned(&child, registered);
        let is_used = is_populated(&child) || registered.contains(&child);
        if is_ours(&child) && !is_used && is_abandoned(&child) {
            // Fails where somebody came to it meanwhile, which is right.
            let _ = fs::remove_dir(&child);
        }
    }
}

/// The paths that a user may mean: a full one, or one relative to the mount.
pub fn meant_by(given: &Path) -> Result<Vec<PathBuf>> {
    let relative = mount()?.join(given.strip_prefix("/").unwrap_or(given));
    Ok(given.is_absolute().then(|| given.to_path_buf()).into_iter().chain([relative]).collect())
}

/// The cgroup that a user means.
pub fn resolve(given: &Path) -> Result<PathBuf> {
    let mount = mount()?;
    for dir in meant_by(given)? {
        if let Ok(dir) = dir.canonicalize() {
            if dir.starts_with(&mount) && dir.join("cgroup.procs").exists() {
                require_text(&dir)?;
                return Ok(dir);
            }
        }
    }
    bail!(
        "there is no cgroup {} under {}: /proc/PID/cgroup names that of a process",
        given.display(),
        mount.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_shows_what_is_below_its_root_and_nothing_is_taken_for_the_root() {
        let shown = |root: &str, path: &str| {
            dir_of(&Cgroup2 { dir: "/cg".into(), root: root.into() }, path)
        };
        assert_eq!(shown("/", "/a.slice/b"), Some("/cg/a.slice/b".into()));
        assert_eq!(shown("/docker/a", "/docker/a/b"), Some("/cg/b".into()));
        assert_eq!(shown("/docker/a", "/docker/a"), Some("/cg/".into()));
        assert_eq!(shown("/docker/a", "/user.slice"), None);
        assert_eq!(shown("/", "/../other"), None);
        assert_eq!(shown("/", "/a/..x"), Some("/cg/a/..x".into()));
        assert_eq!(shown("/../..", "/"), None);
    }
}

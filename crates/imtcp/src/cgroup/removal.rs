// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Removes cgroups, and moves the processes in them elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use imtcp_bpf::Obstacle;
use imtcp_common::{format, procfs, shell};

use super::tree::{self, procs};
use super::{has_our_name, move_pid, Own};

/// Removes a cgroup of ours and those in it. Processes that still run there move to `refuge`, or to its parent if it is
/// gone. It says so where inner cgroups of somebody else end, with their limits. A process that cannot be moved keeps
/// no other.
pub fn remove(dir: &Path, refuge: &Path) -> Result<()> {
    remove_telling(dir, refuge, |_| ())
}

/// The same, and tells of each process just before it is moved. Later it may have ended, and what it has started
/// meanwhile is in `refuge`.
pub fn remove_telling(dir: &Path, refuge: &Path, tell: impl FnMut(i32)) -> Result<()> {
    if !Own::is_at(dir) {
        return Ok(());
    }
    let refuge = refuge.ancestors().find(|d| d.join("cgroup.procs").exists()).unwrap_or(refuge);
    let mut removal = Removal { refuge, limited: BTreeSet::new(), tell };
    let removed = removal.when_empty(dir);
    if let Some(first) = removal.limited.first() {
        let more = match removal.limited.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", format::count(more as u64, "more cgroup")),
        };
        eprintln!(
            "imtcp: the processes of {}{more} are moved to {}: limits of the former end",
            format::short_name(&first.to_string_lossy()),
            refuge.display()
        );
    }
    removed
}

struct Removal<'a, T> {
    refuge: &'a Path,
    /// Inner cgroups of others, with their processes' limits: the outermost alone.
    limited: BTreeSet<PathBuf>,
    tell: T,
}

/// Whoever makes cgroups in it all the time keeps others from no command. ours: longer than processes take to end.
const LONGEST: Duration = Duration::from_secs(2);

/// How often the processes of a cgroup that is held still are read: nobody in it forks, and a few were born while
/// the first were read.
const LOOKS: usize = 16;

impl<T: FnMut(i32)> Removal<'_, T> {
    fn when_empty(&mut self, dir: &Path) -> Result<()> {
        let begun = Instant::now();
        loop {
            if self.once(dir)? {
                return Ok(());
            }
            if begun.elapsed() > LONGEST {
                break;
            }
            // Dying processes hold it for an instant.
            std::thread::sleep(Duration::from_millis(10));
            self.empty_held_still(dir);
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
        tree::visit_populated(dir, |cgroup| {
            let is_ours = |dir: &Path| has_our_name(dir) && Own::is_at(dir);
            if cgroup.path.parent() == Some(dir) && !is_ours(cgroup.path) {
                self.limited.insert(cgroup.path.to_path_buf());
            }
            for pid in cgroup.procs() {
                (self.tell)(pid);
                match move_pid(pid, self.refuge) {
                    Err(e) if e.raw_os_error() != Some(libc::ESRCH) => {
                        refused = Some(cannot_move(pid, self.refuge, &e).into());
                    }
                    _ => {}
                }
            }
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Moves what is there now. Says whether nothing is left.
    fn once(&mut self, dir: &Path) -> Result<bool> {
        let refused = self.move_all(dir).err();
        match (tree::remove(dir), refused) {
            (Ok(()), _) => Ok(true),
            (Err(_), Some(refused)) => Err(refused),
            (Err(e), None) if e.raw_os_error() == Some(libc::EBUSY) => Ok(false),
            (Err(e), None) => Err(e).with_context(|| format!("cannot remove {}", dir.display())),
        }
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
    if Own::is_at(dir) && fs::read_to_string(&file).is_ok_and(|text| text.trim() == "1") {
        let _ = fs::write(file, "0");
    }
}

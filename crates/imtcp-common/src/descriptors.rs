// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How many files a process may have open. What fails for want of one does not always say so: some calls only
//! find nothing, and the kernel's verifier calls the program wrong.

use nix::errno::Errno;
use nix::sys::resource::{getrlimit, Resource};

/// No command needs more, but for the advice service.
const ENOUGH: u64 = 128;

/// The end of a message about a failure: what to do where a limit was the cause, or may have been.
pub fn hint(failure: &str) -> String {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(most, _)| most);
    told(failure, most)
}

fn told(failure: &str, most: u64) -> String {
    if most >= ENOUGH && !failure.contains(Errno::EMFILE.desc()) {
        return String::new();
    }
    format!(" (a process may have {most} files open here, which is too few: `ulimit -n 1024` raises it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_for_want_of_descriptors_is_told_with_the_remedy_and_another_is_not() {
        assert!(
            told("cannot open /x: Too many open files (os error 24)", 1024).contains("1024 files")
        );
        assert!(told("the kernel does not accept it", 8).contains("`ulimit -n 1024`"));
        assert_eq!(told("the kernel does not accept it", 1024), "");
    }
}

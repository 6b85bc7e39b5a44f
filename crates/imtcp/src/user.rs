// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `--user`: whom the command runs as.

use std::ffi::CString;

use anyhow::{Context, Result};
use imtcp_common::exit;
use nix::unistd::{getgrouplist, Gid, Uid, User};

pub struct Target {
    pub uid: Uid,
    pub gid: Gid,
    pub groups: Vec<Gid>,
    pub name: String,
    pub home: std::path::PathBuf,
}

/// Finds a user by name or number.
pub fn find(name: &str) -> Result<Target> {
    let user = match User::from_name(name)? {
        Some(user) => Some(user),
        None => name.parse().ok().map(Uid::from_raw).map(User::from_uid).transpose()?.flatten(),
    };
    let Some(user) = user else {
        return Err(exit::usage(format!("there is no user '{name}' on this machine")));
    };
    let c_name = CString::new(user.name.as_str())?;
    let groups = getgrouplist(&c_name, user.gid).context("cannot read the user's groups")?;
    Ok(Target { uid: user.uid, gid: user.gid, groups, name: user.name, home: user.dir })
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The names of containers, as docker and podman keep them on disk. Asking the engines would need their
//! sockets, and docker's is as good as root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The cgroup of a container has its id: `docker-ID.scope` and `libpod-ID.scope` from systemd, `docker/ID` and
/// `libpod-ID` without. Podman's `libpod-conmon-ID.scope` is of the process that watches the container.
pub fn id(cgroup: &str) -> Option<&str> {
    let name = cgroup.strip_suffix(".scope").unwrap_or(cgroup);
    let id = ["docker-", "libpod-"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

/// The names of those of these containers that an engine knows.
pub fn names<'i>(ids: impl Iterator<Item = &'i str>) -> BTreeMap<String, Vec<String>> {
    let mut found = of_podman();
    let docker = docker_roots();
    for id in ids {
        let name = docker.iter().find_map(|root| docker_name(&root.join("containers").join(id)));
        found.entry(id.into()).or_default().extend(name);
    }
    found
}

fn read_json<T: for<'d> Deserialize<'d>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The usual directory, the configured one, and the one of docker as a snap.
fn docker_roots() -> Vec<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Daemon {
        data_root: Option<PathBuf>,
    }
    let daemon: Option<Daemon> = read_json(Path::new("/etc/docker/daemon.json"));
    let usual = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"].map(PathBuf::from);
    daemon.and_then(|daemon| daemon.data_root).into_iter().chain(usual).collect()
}

fn docker_name(dir: &Path) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        name: String,
    }
    let config: Config = read_json(&dir.join("config.v2.json"))?;
    Some(config.name.trim_start_matches('/').into())
}

fn of_podman() -> BTreeMap<String, Vec<String>> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let files = podman_roots().into_iter().flat_map(|root| {
        // A directory for each storage driver; those of `podman run --rm` may have a file of their own.
        let pattern = format!("{root}/*-containers/*containers.json");
        glob::glob(&pattern).into_iter().flatten().flatten()
    });
    let all = files.filter_map(|file| read_json::<Vec<Container>>(&file)).flatten();
    all.map(|container| (container.id, container.names)).collect()
}

/// Those of the configuration, or the usual ones.
fn podman_roots() -> [String; 2] {
    #[derive(Default, Deserialize)]
    struct Storage {
        graphroot: Option<String>,
        runroot: Option<String>,
    }
    #[derive(Default, Deserialize)]
    struct Conf {
        #[serde(default)]
        storage: Storage,
    }
    let text = fs::read_to_string("/etc/containers/storage.conf").unwrap_or_default();
    let Conf { storage } = toml::from_str(&text).unwrap_or_default();
    [
        storage.graphroot.unwrap_or_else(|| "/var/lib/containers/storage".into()),
        storage.runroot.unwrap_or_else(|| "/run/containers/storage".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_cgroup_has_its_id_and_no_others_has() {
        let full = "0d633103cb71b8adb950d15a636d359ee2adbaafe12b882aaa1e33c151042735";
        for name in ["docker-ID.scope", "libpod-ID.scope", "libpod-ID", "ID"] {
            assert_eq!(id(&name.replace("ID", full)), Some(full), "{name}");
        }
        for name in ["libpod-conmon-ID.scope", "cri-containerd-ID.scope", "docker-0d63.scope", "a"]
        {
            assert_eq!(id(&name.replace("ID", full)), None, "{name}");
        }
    }
}

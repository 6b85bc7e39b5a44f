// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A fingerprint of the maps' layouts. An upgrade keeps the maps (and with them the records
//! of open connections) only where old and new programs mean the same by every byte.

use anyhow::{anyhow, Result};
use libbpf_rs::btf::types::{Array, Composite, Int, MemberAttr};
use libbpf_rs::btf::{Btf, BtfType, HasSize};
use libbpf_rs::{AsRawLibbpf, OpenObject};

use crate::objects::{self, Fnv};
use crate::paths::SHARED_MAPS;

/// The structures that are values of the shared maps.
const VALUES: [&str; 8] = [
    "imtcp_conn",
    "imtcp_receiver",
    "imtcp_tag",
    "imtcp_policy",
    "imtcp_event",
    "imtcp_totals",
    "imtcp_host",
    "imtcp_neighbours",
];

/// The fingerprint of this build.
pub fn own() -> Result<u64> {
    of(&objects::open_imtcp()?)
}

pub fn of(object: &OpenObject) -> Result<u64> {
    let mut hash = Fnv::new();
    hash.write_u64(u64::from(crate::shared::IMTCP_ABI_VERSION));
    for name in SHARED_MAPS {
        let map = object
            .maps()
            .find(|m| m.name() == name)
            .ok_or_else(|| anyhow!("the BPF object has no map {name}"))?;
        hash.write(name.as_bytes());
        for v in [map.map_type() as u32, map.key_size(), map.value_size(), map.max_entries()] {
            hash.write_u64(u64::from(v));
        }
        hash.write_u64(u64::from(map.map_flags()));
    }
    // SAFETY: the object outlives the BTF that borrows from it here.
    let btf = Btf::from_bpf_object(unsafe { object.as_libbpf_object().as_ref() })?
        .ok_or_else(|| anyhow!("the BPF object has no type information"))?;
    for name in VALUES {
        // A structure that no program mentions has no type information, and no meaning.
        if let Some(ty) = btf.type_by_name::<BtfType>(name) {
            describe(&btf, ty, &mut hash, 0);
        }
    }
    Ok(hash.0)
}

fn describe(btf: &Btf, ty: BtfType, hash: &mut Fnv, depth: u32) {
    let ty = ty.skip_mods_and_typedefs();
    hash.write_u64(ty.kind() as u64);
    if let Ok(array) = Array::try_from(ty) {
        hash.write_u64(array.capacity() as u64);
        describe(btf, array.contained_type(), hash, depth + 1);
    } else if let Ok(composite) = Composite::try_from(ty) {
        hash.write_u64(composite.size() as u64);
        if depth > 16 {
            return;
        }
        for member in composite.iter() {
            hash.write(member.name.unwrap_or_default().as_encoded_bytes());
            let (offset, width) = match member.attr {
                MemberAttr::Normal { offset } => (offset, 0),
                MemberAttr::BitField { size, offset } => (offset, size),
            };
            hash.write_u64(u64::from(offset));
            hash.write_u64(u64::from(width));
            if let Some(inner) = btf.type_by_id::<BtfType>(member.ty) {
                describe(btf, inner, hash, depth + 1);
            }
        }
    } else if let Ok(int) = Int::try_from(ty) {
        hash.write_u64(int.size() as u64);
    }
}

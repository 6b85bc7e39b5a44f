// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use crate::cli::DoctorArgs;
use anyhow::Result;
pub fn main(_args: DoctorArgs) -> Result<u8> {
    todo!()
}

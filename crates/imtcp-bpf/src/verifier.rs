// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the running kernel's verifier has to do for each program, and how much stack it found.

use std::sync::Mutex;

use anyhow::{anyhow, Context, Result};
use libbpf_rs::{OpenObject, PrintLevel};

use crate::raw::Plain;
use crate::shared::{
    imtcp_ctl_cfg, imtcp_filter, imtcp_filter_network, imtcp_filter_ports, IMTCP_FILTER_NETWORKS,
    IMTCP_FILTER_PORTS,
};
use crate::{objects, probe};

/// BPF_LOG_STATS of the kernel's include/linux/bpf_verifier.h: no trace, only what it adds up to.
const LOG_STATS: u32 = 4;

/// One program, verified once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    pub object: &'static str,
    pub program: String,
    /// Instructions that the verifier went through, on all paths; it gives up at a million.
    pub instructions: u32,
    /// The stack of all its functions together, bytes. The kernel allows a chain of calls 512.
    pub stack_bytes: u32,
}

/// Has the verifier go through every program. Registers, attaches and leaves nothing.
///
/// # Errors
/// Without privileges, on a kernel that is too old, and where a program is refused for which there is no
/// other.
pub fn costs() -> Result<Vec<Cost>> {
    probe::require_kernel()?;
    let mut found = Vec::new();
    let controls = [
        ("imtcp", objects::open_imtcp()?),
        ("imtcp_modes", objects::open_modes()?),
        ("imtcp_paper", objects::open_paper()?),
        ("imtcp_nocc", objects::open_nocc()?),
    ];
    for (name, object) in controls {
        found.extend(costs_of(name, object)?);
    }
    // Loaded one at a time, as the command does.
    for program in objects::ctl_programs()? {
        let mut object = objects::open_ctl(&program)?;
        if program == objects::SOCKOPS || program == objects::SWITCH {
            let worst =
                imtcp_ctl_cfg { filter: full_filter(), tags_have_dscp: 1, ..Default::default() };
            objects::open_map(&mut object, ".rodata.cfg")?.set_initial_value(worst.bytes())?;
        }
        match costs_of("imtcp_ctl", object) {
            Ok(costs) => found.extend(costs),
            // Where it is refused the command does without it, with one that is counted, too.
            Err(_) if [objects::CONNECTIONS, objects::TAGGED].contains(&&*program) => {}
            // A kernel without multipath TCP.
            Err(_) if program == objects::TAG_SUBFLOWS => {}
            Err(e) => return Err(e),
        }
    }
    // The command does without each of these that is refused.
    for program in objects::uncovered_programs()? {
        let costs = costs_of("imtcp_uncovered", objects::open_uncovered(&program)?);
        found.extend(costs.unwrap_or_default());
    }
    Ok(found)
}

/// The verifier goes through each entry that there is, and knows its numbers: with others it would see at once
/// that all or none pass.
fn full_filter() -> imtcp_filter {
    imtcp_filter {
        networks_len: IMTCP_FILTER_NETWORKS,
        ports_len: IMTCP_FILTER_PORTS,
        networks: [imtcp_filter_network { address: [7; 4], mask: [u32::MAX; 4] };
            IMTCP_FILTER_NETWORKS as usize],
        ports: [imtcp_filter_ports { first: 7, last: 9 }; IMTCP_FILTER_PORTS as usize],
    }
}

fn costs_of(name: &'static str, mut object: OpenObject) -> Result<Vec<Cost>> {
    for mut program in object.progs_mut() {
        program.set_log_level(LOG_STATS);
    }
    SAID.lock().expect("no thread panics with it").clear();
    let before = libbpf_rs::set_print(Some((PrintLevel::Debug, keep)));
    let loaded = objects::load(object, name);
    libbpf_rs::set_print(before);
    loaded?;
    let said = SAID.lock().expect("no thread panics with it");
    let costs = read(name, &said)?;
    if costs.is_empty() {
        return Err(anyhow!("the kernel says nothing of what {name} cost its verifier"));
    }
    Ok(costs)
}

/// libbpf's messages since this was last emptied: its callback is a bare function.
static SAID: Mutex<String> = Mutex::new(String::new());

fn keep(_level: PrintLevel, text: String) {
    SAID.lock().expect("no thread panics with it").push_str(&text);
}

/// The totals of each program in libbpf's messages.
fn read(object: &'static str, messages: &str) -> Result<Vec<Cost>> {
    let begin = "': -- BEGIN PROG LOAD LOG --\n";
    messages
        .split("prog '")
        .filter_map(|part| part.split_once(begin))
        .map(|(program, log)| {
            cost(object, program, log)
                .with_context(|| format!("the verifier's account of {program} is not understood"))
        })
        .collect()
}

fn cost(object: &'static str, program: &str, log: &str) -> Result<Cost> {
    let after = |label: &str| {
        let line = log.lines().find_map(|l| l.strip_prefix(label));
        line.and_then(|l| l.split_whitespace().next()).ok_or_else(|| anyhow!("no {label:?}"))
    };
    let frames = after("stack depth ")?.split('+').map(str::parse::<u32>);
    Ok(Cost {
        object,
        program: program.into(),
        instructions: after("processed ")?.parse()?,
        stack_bytes: frames.sum::<Result<u32, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "libbpf: loading object\nlibbpf: prog 'a_send': -- BEGIN PROG LOAD LOG --\n\
        verification time 12 usec\nstack depth 72+32\nprocessed 4438 insns (limit 1000000) \
        max_states_per_insn 4\n-- END PROG LOAD LOG --\nlibbpf: prog 'b': -- BEGIN PROG LOAD LOG \
        --\nstack depth 0\nprocessed 14 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";

    #[test]
    fn each_programs_instructions_and_the_sum_of_its_frames_are_read() {
        let costs = read("x", SAID).unwrap();
        let of = |program: &str, instructions, stack_bytes| Cost {
            object: "x",
            program: program.into(),
            instructions,
            stack_bytes,
        };
        assert_eq!(costs, [of("a_send", 4438, 104), of("b", 14, 0)]);
    }

    #[test]
    fn an_account_in_other_words_is_an_error_that_names_the_program() {
        let error = read("x", &SAID.replace("processed 14 insns", "went through 14")).unwrap_err();
        assert!(format!("{error:#}").contains("account of b "), "{error:#}");
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What needs neither root nor the kernel.

use imtcp_test_support::*;

#[test]
fn the_version_is_told_in_words_and_in_json() {
    assert!(imtcp_ok(&["version"]).starts_with("imtcp 0."));
    let version = json(&imtcp_ok(&["version", "--json"]));
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let programs = version["programs"].as_str().unwrap();
    assert!(imtcp_ok(&["version"]).contains(programs), "{programs}");
}

#[test]
fn wrong_usage_has_code_2_and_help_0() {
    assert_eq!(imtcp(&["fly"]).status.code(), Some(2));
    assert_eq!(imtcp(&[]).status.code(), Some(2));
    for command in ["up", "down", "run", "attach", "detach", "watch", "status", "doctor"] {
        assert!(imtcp_ok(&[command, "--help"]).contains("Example"), "{command}");
    }
}

#[test]
fn a_standard_output_that_cannot_be_written_is_an_error_in_one_line() {
    let all: [&[&str]; 8] = [
        &["version"],
        &["version", "--json"],
        &["completions", "bash"],
        &["--help"],
        &["help"],
        &["help", "run"],
        &["run", "-h"],
        &["--version"],
    ];
    for args in all {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = std::process::Command::new(&*IMTCP).args(args).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let wanted = "imtcp: cannot write to standard output: No space left on device";
        assert!(said.starts_with(wanted) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn without_room_for_open_files_the_remedy_is_told() {
    let Some(_alone) = alone() else { return };
    for most in [12, 16, 20, 24, 28, 32] {
        let script = format!("ulimit -n {most}; exec \"$0\" run -q -- true");
        let output =
            std::process::Command::new("sh").args(["-c", &script, &IMTCP]).output().unwrap();
        let said = text(&output.stderr);
        // How many are enough depends on what this test itself has open.
        let is_told = output.status.code() == Some(125) && said.contains("`ulimit -n 1024` raises");
        assert!(is_told || most > 12 && output.status.success(), "{most}: {output:?}");
    }
}

#[test]
fn help_says_what_run_does_not_do() {
    let help = imtcp_ok(&["run", "--help"]);
    assert!(help.contains("Uploads and downloads by TCP yield; UDP and QUIC do not."), "{help}");
}

#[test]
fn completions_and_man_pages_come_from_the_same_source() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(imtcp_ok(&["completions", shell]).contains("imtcp"), "{shell}");
    }
    let scratch = Scratch::new();
    imtcp_ok(&["man", scratch.path("man").to_str().unwrap()]);
    let page = std::fs::read_to_string(scratch.path("man/imtcp-run.1")).unwrap();
    assert!(page.contains("max\\-rate"), "{page}");
    assert!(page.contains("imtcp run [OPTIONS] <CMD>..."), "{page}");
    let status = std::fs::read_to_string(scratch.path("man/imtcp-status.1")).unwrap();
    assert!(status.contains("3 it is not"), "{status}");
    assert!(imtcp_ok(&["status", "--help"]).contains("3 while it is not"));
    assert!(page.contains("innermost run decides"), "{page}");
    assert!(!imtcp_ok(&["run", "--help"]).contains("innermost run decides"));
    for section in ["EXAMPLES", "\"EXIT STATUS\"", "FILES"] {
        assert!(page.contains(&format!(".SH {section}\n")), "{section}: {page}");
    }
    let page = std::fs::read_to_string(scratch.path("man/imtcp-version.1")).unwrap();
    assert!(!page.contains("/run/imtcp"), "{page}");
}

#[test]
fn what_follows_run_is_completed_as_a_command() {
    let zsh = imtcp_ok(&["completions", "zsh"]);
    assert!(zsh.contains("The command and its arguments:_cmdambivalent"), "{zsh}");
    let scratch = Scratch::new();
    let script = scratch.path("imtcp.bash");
    std::fs::write(&script, imtcp_ok(&["completions", "bash"])).unwrap();
    let complete = |words: &str| {
        let line = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             $(complete -p imtcp | sed 's/.*-F \\([^ ]*\\).*/\\1/') \
             imtcp \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
        text(&output.stdout)
    };
    let has = |words: &str, wanted: &str| complete(words).split_whitespace().any(|w| w == wanted);
    assert!(has("imtcp run -q -- tru", "true"), "{}", complete("imtcp run -q -- tru"));
    assert!(has("imtcp run --max", "--max-rate"), "{}", complete("imtcp run --max"));
    assert!(has("imtcp sta", "status"));
    assert!(has("imtcp run --param d", "delta="), "{}", complete("imtcp run --param d"));
    assert!(has("imtcp attach --param g", "gamma="));
    // A parameter of several modes, with another meaning in each.
    assert_eq!(complete("imtcp run --param target").trim(), "target=");
}

/// Before anything is loaded or needs root.
#[test]
fn a_rate_or_parameter_that_cannot_be_is_wrong_usage_and_the_range_is_told() {
    let scratch = Scratch::new();
    let config = scratch.path("imtcp.conf");
    std::fs::write(&config, "[bg]\ng = 2\n").unwrap();
    let config = config.to_str().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["--max-rate", "-5M"], "'-5M' is not a rate; write it in bits per second: 500k"),
        (&["--param", "delta=0.5"], "imtcp: delta must be a number between 1.05 and 4, not 0.5\n"),
        (
            &["--mode", "fs", "--param", "g=0.9"],
            "imtcp: mode fs has no parameter g: it has gamma, N, m, T, h\n",
        ),
        (&["--param", "delta"], "'delta' is not NAME=VALUE"),
        (
            &["--param", "N=8", "--param", "g=1", "--param", "N=9"],
            "imtcp: --param N is given more than once: write it once\n",
        ),
        (&["--max-rate", "10MB"], "'10MB' may mean bits or bytes: write 10Mbit/s or 10MB/s"),
        (&["--config", config], "imtcp.conf: [bg]: g must be a number between 0.05 and 1, not 2\n"),
        (&["--config", "/nowhere/imtcp.conf"], "cannot read /nowhere/imtcp.conf: "),
    ];
    for (args, said) in cases {
        for command in [&["run"][..], &["attach", "--pid", "1"]] {
            let rest: &[&str] = if command[0] == "run" { &["--", "true"] } else { &[] };
            let output = imtcp(&[command, args, rest].concat());
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            let stderr = text(&output.stderr);
            assert!(stderr.contains(said), "{args:?}: {stderr}");
        }
    }
}

#[test]
fn a_name_that_is_almost_one_is_asked_about() {
    let cases: [(&[&str], &str); 5] = [
        (&["staus"], "'status'"),
        (&["up", "--forc"], "'--force'"),
        (&["run", "--mode", "ledbatp", "--", "true"], "'ledbatpp'"),
        (&["watch", "--sort", "rat"], "'rate'"),
        (&["run", "--param", "gama=1", "--", "true"], "did you mean gamma? it has gamma, N,"),
    ];
    for (args, meant) in cases {
        let output = imtcp(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(meant), "{args:?}: {said}");
    }
    let scratch = Scratch::new();
    let config = scratch.path("imtcp.conf");
    std::fs::write(&config, "[ledbatp]\ntarget = 60\n").unwrap();
    let output = imtcp(&["run", "--config", config.to_str().unwrap(), "--", "true"]);
    let said = text(&output.stderr);
    assert!(said.contains("there is no mode ledbatp: did you mean ledbat"), "{said}");
}

#[test]
fn a_process_that_is_no_number_is_said_to_be_none() {
    for (command, given) in [("attach", "abc"), ("attach", "0"), ("detach", "-3")] {
        let output = imtcp(&[command, &format!("--pid={given}")]);
        assert_eq!(output.status.code(), Some(2));
        let said = "a process's number is wanted, as pgrep prints it";
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
}

#[test]
fn the_manual_page_names_each_parameter_and_mode_and_help_names_the_page() {
    let scratch = Scratch::new();
    imtcp_ok(&["man", scratch.path("man").to_str().unwrap()]);
    let page = std::fs::read_to_string(scratch.path("man/imtcp-run.1")).unwrap();
    let line = page.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "");
    assert!(line.contains("that is congestion, between 1.05 and 4 (1.2); bg"), "{page}");
    assert!(line.contains("--param g=0.7"), "{page}");
    assert!(line.contains("Share as usual (Reno) and measure"), "{page}");
    let help = imtcp_ok(&["run", "--help"]);
    assert!(help.contains("man imtcp-run\n"), "{help}");
    assert!(help.contains("--advise-token-file") && help.contains("--advise-ca"), "{help}");
}

#[test]
fn help_by_each_name_shows_the_same_screen() {
    let help = imtcp_ok(&["run", "--help"]);
    assert_eq!(imtcp_ok(&["run", "-h"]), help);
    assert_eq!(imtcp_ok(&["help", "run"]), help);
}

#[test]
fn the_first_help_has_fewer_than_150_words_beside_the_commands() {
    let help = imtcp_ok(&["--help"]);
    let (before, rest) = help.split_once("Commands:").unwrap();
    let (_, after) = rest.split_once("Options:").unwrap();
    let words = before.split_whitespace().chain(after.split_whitespace()).count();
    assert!(words < 150, "{words}: {help}");
    assert!(before.contains("sudo imtcp run -- rsync"), "{help}");
}

#[test]
fn doctor_gives_advice_with_whatever_it_finds_wanting() {
    let output = imtcp(&["doctor", "--json"]);
    let findings = json(&text(&output.stdout));
    let findings = findings.as_array().unwrap();
    assert!(findings.iter().any(|f| f["check"] == "BTF"));
    for f in findings {
        assert_eq!(f["verdict"] == "ok", f["advice"].is_null(), "{f}");
    }
    let failed = findings.iter().any(|f| f["verdict"] == "fail");
    assert_eq!(output.status.code(), Some(failed.into()));
}

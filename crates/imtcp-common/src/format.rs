// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Numbers as people read them.

/// `48.2 Mbit/s`
pub fn rate(bps: u64) -> String {
    let (value, unit) = scaled(bps as f64, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
    format!("{} {unit}", three(value))
}

/// Short, for columns: `48.2M`
pub fn rate_short(bps: u64) -> String {
    let (value, unit) = scaled(bps as f64, &["", "k", "M", "G", "T"]);
    format!("{}{unit}", three(value))
}

/// `1.42 GB`, decimal.
pub fn bytes(n: u64) -> String {
    let (value, unit) = scaled(n as f64, &["bytes", "kB", "MB", "GB", "TB", "PB"]);
    if n < 1000 {
        return count(n, "byte");
    }
    format!("{} {unit}", three(value))
}

/// `870 µs`, `31.4 ms`, `2.1 s`
pub fn micros(us: u64) -> String {
    match us {
        0..=999 => format!("{us} µs"),
        1000..=999_999 => format!("{} ms", three(us as f64 / 1e3)),
        _ => format!("{} s", three(us as f64 / 1e6)),
    }
}

/// `3d 4h`, `2h 5m`, `1m 3s`, `8s`
pub fn duration(seconds: u64) -> String {
    let (d, h, m, s) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s}s"),
        (0, 0, _) => format!("{m}m {s}s"),
        (0, _, _) => format!("{h}h {m}m"),
        _ => format!("{d}d {h}h"),
    }
}

/// Unix time as `2025-11-20 09:45:03 UTC`.
pub fn unix_time(seconds: u64) -> String {
    let (y, m, d) = civil(seconds / 86_400);
    let (hour, min, sec) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{y:04}-{m:02}-{d:02} {hour:02}:{min:02}:{sec:02} UTC")
}

/// The Gregorian date of a day after 1970-01-01 (the era algorithm of H. Hinnant).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + z / 146_097 * 400 + u64::from(month <= 2);
    (year, month, doy - (153 * mp + 2) / 5 + 1)
}

fn scaled<'u>(value: f64, units: &[&'u str]) -> (f64, &'u str) {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or("");
    // 999.95 would round to 1000.0: already the next unit.
    for next in units {
        if value < 999.95 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    (value, unit)
}

/// Three digits or more: `1.42`, `48.2`, `482`.
fn three(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// `1 connection`, `2 connections`, `2 processes`
pub fn count<N: PartialEq + From<u8> + std::fmt::Display>(n: N, what: &str) -> String {
    let plural = if what.ends_with('s') { "es" } else { "s" };
    format!("{n} {what}{}", if n == 1.into() { "" } else { plural })
}

/// Does a character command a terminal, or change how the text around it is read? Controls do, and so do those of
/// Unicode that end a line, set the direction of writing, or are not seen.
fn is_command(c: char) -> bool {
    let is_unseen = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_unseen
}

/// Is a character of a text of others shown as its number?
pub fn is_escaped(text: &str) -> bool {
    text.chars().any(is_command)
}

/// JSON on one line, in which no character commands a terminal. Texts in it say the same.
pub fn json_for_terminal(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Between texts: within them JSON has these escaped.
            '\n' | '\r' | '\t' => shown.push(' '),
            c if is_command(c) => {
                let units = &mut [0; 2];
                shown.extend(c.encode_utf16(units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Characters of a line, with words of ours.
const MOST_LINE_CHARS: usize = 1000;
/// Characters of what others wrote: a host's name and a sentence.
const MOST_OTHERS_CHARS: usize = 400;

/// A line of which others chose a part.
pub fn short_line(text: &str) -> String {
    on_one_line(text, MOST_LINE_CHARS)
}

/// A text that others chose, as a command's name or a service's reason.
pub fn others_text(text: &str) -> String {
    on_one_line(text, MOST_OTHERS_CHARS)
}

/// Characters of a name within a line of ours, which must not hide the rest of it.
const MOST_NAME_CHARS: usize = 300;

/// Both ends of a long name: paths differ from their neighbours there.
pub fn short_name(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= MOST_NAME_CHARS {
        return name.into();
    }
    let half = MOST_NAME_CHARS / 2;
    let ends = [&chars[..half], &['…'], &chars[chars.len() - half..]];
    ends.concat().into_iter().collect()
}

/// Whatever it holds, no character of it ends a line or commands a terminal, and it has an end.
fn on_one_line(text: &str, most_chars: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == most_chars {
            line.push('…');
            break;
        }
        push_shown(&mut line, c);
    }
    line
}

/// A character that commands a terminal is shown as its number.
fn push_shown(shown: &mut String, c: char) {
    match is_command(c) {
        true => shown.extend(c.escape_default()),
        false => shown.push(c),
    }
}

/// Lines of ours with names of others in them: no character of them commands a terminal.
pub fn lines_for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c => push_shown(&mut shown, c),
        }
    }
    shown
}

/// Columns of text, each cell as [`others_text`], the last one not padded.
pub fn table(rows: &[Vec<String>]) -> String {
    laid_out(rows, others_text)
}

/// The same with sentences of ours, in which names are short already.
pub fn table_of_sentences(rows: &[Vec<String>]) -> String {
    laid_out(rows, |cell| on_one_line(cell, usize::MAX))
}

fn laid_out(rows: &[Vec<String>], shown: impl Fn(&str) -> String) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let pad = width - cell.chars().count() + 2;
            line.extend(std::iter::repeat_n(' ', pad));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of each kind that [`is_command`] names, at the kind's ends.
    const COMMANDS: [char; 14] = [
        '\u{7f}',
        '\u{9b}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0041}',
    ];

    #[test]
    fn text_has_one_line_and_no_commands_whatever_it_holds() {
        assert_eq!(
            others_text("run 7 (sh -c a\nimtcp: b\u{1b}[2K)"),
            "run 7 (sh -c a\\nimtcp: b\\u{1b}[2K)"
        );
        assert_eq!(others_text("no change: ä שלום"), "no change: ä שלום");
        assert_eq!(short_line("a\u{9b}2J"), "a\\u{9b}2J");
        for c in COMMANDS {
            let shown = others_text(&format!("a{c}b"));
            assert_eq!(shown, format!("a\\u{{{:x}}}b", u32::from(c)));
        }
    }

    #[test]
    fn a_text_of_others_has_an_end() {
        let chars = |text: String| text.chars().count();
        assert_eq!(chars(short_line(&"ä".repeat(5000))), MOST_LINE_CHARS + 1);
        assert_eq!(chars(others_text(&"ä".repeat(5000))), MOST_OTHERS_CHARS + 1);
        assert_eq!(chars(others_text(&"ä".repeat(MOST_OTHERS_CHARS))), MOST_OTHERS_CHARS);
        let cell = "x".repeat(100_000);
        assert!(table(&[vec!["because".into(), cell]]).len() < 500);
    }

    #[test]
    fn of_a_long_name_both_ends_are_shown() {
        assert_eq!(short_name("cgroup /a"), "cgroup /a");
        let name = short_name(&format!("cgroup /{}/end", "ä".repeat(5000)));
        assert_eq!(name.chars().count(), MOST_NAME_CHARS + 1);
        assert!(name.starts_with("cgroup /ä") && name.ends_with("ä/end"), "{name}");
        assert!(name.contains("ä…ä"), "{name}");
    }

    #[test]
    fn json_commands_no_terminal_and_says_the_same() {
        let all = COMMANDS.iter().collect::<String>() + "\u{1b}[2J \n ä";
        let text = format!("{{\r\n\t\"a\": {}\n}}\n", serde_json::to_string(&all).unwrap());
        let shown = json_for_terminal(&text);
        assert!(!shown.chars().any(is_command), "{shown}");
        let told: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(told["a"], all);
    }

    #[test]
    fn a_table_shows_a_hostile_name_and_keeps_its_columns() {
        let cells = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
        assert_eq!(
            table(&[cells("COMMAND", "MODE"), cells("\u{1b}c", "bg")]),
            "COMMAND  MODE\n\\u{1b}c  bg\n"
        );
    }

    #[test]
    fn rates_have_three_digits_and_a_unit() {
        assert_eq!(rate(48_230_000), "48.2 Mbit/s");
        assert_eq!(rate(999_999), "1.00 Mbit/s");
        assert_eq!(rate(0), "0 bit/s");
        assert_eq!(rate_short(1_500_000_000), "1.50G");
        assert_eq!(rate_short(812_000), "812k");
    }

    #[test]
    fn bytes_and_times_read_well() {
        assert_eq!(bytes(1_420_000_000), "1.42 GB");
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(micros(870), "870 µs");
        assert_eq!(micros(31_400), "31.4 ms");
        assert_eq!(duration(63), "1m 3s");
        assert_eq!(duration(3 * 86_400 + 4 * 3600), "3d 4h");
        assert_eq!(unix_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(unix_time(1_709_210_096), "2024-02-29 12:34:56 UTC");
    }

    #[test]
    fn one_has_no_plural() {
        assert_eq!(count(1u64, "connection"), "1 connection");
        assert_eq!(count(0usize, "connection"), "0 connections");
        assert_eq!(count(2u32, "process"), "2 processes");
    }

    #[test]
    fn tables_align() {
        let rows = [vec!["a".into(), "bb".into()], vec!["ccc".into(), "d".into()]];
        assert_eq!(table(&rows), "a    bb\nccc  d\n");
    }
}

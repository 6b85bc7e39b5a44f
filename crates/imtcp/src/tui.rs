// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The live view: a line per connection, and the chosen one's history as a chart.

mod history;
mod screen;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use imtcp_bpf::loaded::Loaded;
use imtcp_bpf::records::Records;
use imtcp_bpf::Record;
use imtcp_common::format;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState};
use ratatui::Frame;

use self::history::{History, Moment, HISTORY, SPARK_WIDTH};
use self::screen::Screen;
use crate::cli::SortKey;
use crate::view::{self, Connection, Looks};

const CHART_HEIGHT: u16 = 12;

struct App {
    sort: SortKey,
    filter: String,
    typing: bool,
    paused: bool,
    /// Those that the filter lets by, of so many.
    connections: Vec<Connection>,
    all: usize,
    /// Why there was nothing to look at, last time.
    trouble: Option<String>,
    histories: HashMap<u64, History>,
    looks: Looks,
    table: TableState,
}

impl App {
    fn new(sort: SortKey, filter: String) -> Self {
        App {
            sort,
            filter,
            typing: false,
            paused: false,
            connections: Vec::new(),
            all: 0,
            trouble: None,
            histories: HashMap::new(),
            looks: Looks::default(),
            table: TableState::default().with_selected(0),
        }
    }

    fn look(&mut self, records: Result<Vec<Record>>) {
        let chosen = self.chosen().and_then(|c| c.cookie);
        self.trouble = records.as_ref().err().map(|e| format!("{e:#}"));
        let all = self.looks.look(&records.unwrap_or_default());
        self.histories.retain(|cookie, _| all.iter().any(|c| c.cookie == Some(*cookie)));
        for c in &all {
            self.histories.entry(c.cookie.unwrap_or(0)).or_default().note(c);
        }
        self.all = all.len();
        self.connections = all;
        self.connections.retain(|c| c.matches(&self.filter));
        view::sort(&mut self.connections, self.sort);
        // The mark stays on its connection when lines move.
        let at = self.connections.iter().position(|c| c.cookie == chosen && chosen.is_some());
        self.table.select(Some(at.unwrap_or(0)));
    }

    fn history(&self, c: &Connection) -> Option<&History> {
        self.histories.get(&c.cookie.unwrap_or(0))
    }

    fn chosen(&self) -> Option<&Connection> {
        self.connections.get(self.table.selected()?)
    }

    /// False to end.
    fn key(&mut self, key: KeyEvent) -> bool {
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            return true;
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if ctrl => return false,
            KeyCode::Char('z') if ctrl => screen::stop_job(),
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => {
                self.sort = next(self.sort);
                view::sort(&mut self.connections, self.sort);
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p') | KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            _ => {}
        }
        true
    }

    fn draw(&mut self, frame: &mut Frame) {
        let chart = if frame.area().height > 2 * CHART_HEIGHT { CHART_HEIGHT } else { 0 };
        let [head, body, foot, help] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(chart),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        self.draw_table(frame, body);
        if chart > 0 {
            self.draw_chart(frame, foot);
        }
        frame.render_widget(
            Paragraph::new(self.help()).style(Style::new().add_modifier(Modifier::DIM)),
            help,
        );
    }

    fn head(&self) -> Line<'static> {
        let sum: u64 = self.connections.iter().filter_map(Connection::main_bps).sum();
        let filter = if self.filter.is_empty() {
            String::new()
        } else {
            format!("  filter: {}", self.filter)
        };
        let paused = if self.paused { "  PAUSED" } else { "" };
        let text = format!(
            "imtcp  {}, together {}{filter}{paused}",
            format::count(self.connections.len(), "connection"),
            format::rate(sum)
        );
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    fn help(&self) -> String {
        if self.typing {
            return format!("filter: {}_   Enter keeps it, Esc clears it", self.filter);
        }
        let sort = self.sort.to_possible_value().map(|v| v.get_name().to_string());
        format!(
            "q quit   s sort (by {})   / filter   up/down choose   p pause",
            sort.unwrap_or_default()
        )
    }

    fn draw_table(&mut self, frame: &mut Frame, area: Rect) {
        let dash = || "-".to_string();
        let row = |c: &Connection| {
            let history = self.history(c);
            [
                c.pid.map_or_else(dash, |p| p.to_string()),
                c.command.as_deref().map_or_else(dash, format::others_text),
                c.dst.to_string(),
                c.mode.to_string(),
                c.rate_shown(format::rate_short),
                c.avail_smoothed_bps.or(c.avail_last_bps).map_or_else(dash, format::rate_short),
                history.map(History::spark).unwrap_or_default(),
                c.srtt_us.map_or_else(dash, |us| format::micros(us.into())),
                c.cwnd_segs.to_string(),
                c.bytes_shown(),
            ]
        };
        let shown = columns_within(area.width);
        let rows: Vec<Row> = self
            .connections
            .iter()
            .map(|c| {
                let cells = row(c);
                Row::new(shown.iter().map(|i| cells[*i].clone()))
            })
            .collect();
        let widths = shown.iter().map(|i| match COLUMNS[*i] {
            ("PEER", width) => Constraint::Min(width),
            (_, width) => Constraint::Length(width),
        });
        let head = shown.iter().map(|i| COLUMNS[*i].0);
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(Style::new().fg(Color::Cyan)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
        if self.connections.is_empty() {
            let none = || view::none_shown(self.all, &self.filter);
            let text = Paragraph::new(self.trouble.clone().unwrap_or_else(none)).centered();
            let at = Rect { y: area.y + area.height / 2, height: 1, ..area };
            frame.render_widget(text, at);
        }
    }

    fn draw_chart(&self, frame: &mut Frame, area: Rect) {
        let Some((c, history)) = self.chosen().and_then(|c| Some((c, self.history(c)?))) else {
            return;
        };
        let mbps = |bps: u64| bps as f64 / 1e6;
        let points = |value: &dyn Fn(&Moment) -> Option<u64>| -> Vec<(f64, f64)> {
            let start = HISTORY - history.moments.len();
            let all = history.moments.iter().enumerate();
            all.filter_map(|(i, m)| Some(((start + i) as f64, mbps(value(m)?)))).collect()
        };
        let own = points(&|m| Some(m.rate_bps));
        let avail = points(&|m| m.avail_bps);
        let line = |name, data, color| {
            Dataset::default()
                .name(name)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(color))
                .data(data)
        };
        let top = mbps(history.top()) * 1.1;
        let command = format::others_text(c.command.as_deref().unwrap_or("connection"));
        let title = format!(" {command} to {} ", c.dst);
        let chart = Chart::new(vec![
            line("available", &avail, Color::Green),
            line("own rate", &own, Color::Yellow),
        ])
        .block(Block::bordered().title(title))
        .x_axis(Axis::default().bounds([0.0, HISTORY as f64]))
        .y_axis(
            Axis::default().bounds([0.0, top]).labels(["0".into(), format!("{top:.1} Mbit/s")]),
        );
        frame.render_widget(chart, area);
    }
}

/// Heads and widths; PEER takes what the others leave.
const COLUMNS: [(&str, u16); 10] = [
    ("PID", 7),
    ("COMMAND", 15),
    ("PEER", 15),
    ("MODE", 7),
    ("RATE", 6),
    ("AVAIL", 6),
    ("RATE OF AVAILABLE", SPARK_WIDTH as u16),
    ("RTT", 8),
    ("CWND", 5),
    ("BYTES", 9),
];

/// Columns that a narrow terminal goes without, the first first.
const DISPENSABLE: [&str; 7] =
    ["RATE OF AVAILABLE", "CWND", "BYTES", "PID", "RTT", "MODE", "COMMAND"];

/// The columns that fit side by side, a blank between them; rather fewer than cut ones.
fn columns_within(width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
    for head in DISPENSABLE {
        let needed: u16 = shown.iter().map(|i| COLUMNS[*i].1 + 1).sum();
        if needed <= width + 1 {
            break;
        }
        shown.retain(|i| COLUMNS[*i].0 != head);
    }
    shown
}

fn next(sort: SortKey) -> SortKey {
    let all = SortKey::value_variants();
    let at = all.iter().position(|s| *s == sort).unwrap_or(0);
    all[(at + 1) % all.len()]
}

pub fn run(
    mut loaded: Loaded<Records>,
    interval: Duration,
    sort: SortKey,
    filter: String,
) -> Result<()> {
    let mut app = App::new(sort, filter);
    app.look(loaded.look(drop).and_then(|records| records.read()));
    let mut screen = Screen::take()?;
    let mut last = Instant::now();
    loop {
        screen.draw(|frame| app.draw(frame))?;
        if screen.has_event(interval.saturating_sub(last.elapsed()))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press && !app.key(key) => {
                    return Ok(())
                }
                _ => {}
            }
        }
        if last.elapsed() >= interval {
            last = Instant::now();
            if !app.paused {
                app.look(loaded.look(drop).and_then(|records| records.read()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    fn record(cookie: u64, second: u64, bytes_acked: u64) -> Record {
        Record {
            cookie,
            family: libc::AF_INET as u16,
            daddr: [192, 0, 2, cookie as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            dport: 443,
            now_ns: second * 1_000_000_000,
            bytes_acked,
            avail_smoothed_bps: 20_000_000,
            ..Default::default()
        }
    }

    fn screen(app: &mut App) -> String {
        screen_of(app, 140)
    }

    fn screen_of(app: &mut App, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 40)).unwrap();
        terminal.draw(|f| app.draw(f)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn own_rate_and_available_bandwidth_are_shown() {
        let mut app = App::new(SortKey::Rate, String::new());
        app.look(Ok(vec![record(1, 1, 0), record(2, 1, 0)]));
        app.look(Ok(vec![record(1, 2, 1_250_000), record(2, 2, 2_500_000)]));
        let text = screen(&mut app);
        assert!(text.contains("2 connections, together 30.0 Mbit/s"), "{text}");
        assert!(text.find("192.0.2.2:443") < text.find("192.0.2.1:443"), "the faster is first");
        assert!(text.contains("10.0M") && text.contains("20.0M"), "{text}");
        assert!(text.contains("q quit"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_none_is_cut() {
        let mut app = App::new(SortKey::Rate, String::new());
        app.look(Ok(vec![record(1, 1, 0)]));
        app.look(Ok(vec![record(1, 2, 1_250_000)]));
        for (width, there, gone) in [
            (140, &["RATE OF AVAILABLE", "CWND", "BYTES"][..], &[][..]),
            (80, &["PID", "RTT", "AVAIL", "20.0M"], &["RATE OF", "CWND"]),
            (40, &["192.0.2.1:443", "10.0M", "20.0M"], &["COMMAND", "PID"]),
        ] {
            let text = screen_of(&mut app, width);
            assert!(there.iter().all(|s| text.contains(s)), "{width}: {text}");
            assert!(!gone.iter().any(|s| text.contains(s)), "{width}: {text}");
        }
    }

    #[test]
    fn a_filter_hides_the_others_and_keys_work() {
        let mut app = App::new(SortKey::Rate, "192.0.2.2".into());
        app.look(Ok(vec![record(1, 1, 0), record(2, 1, 0)]));
        assert!(!screen(&mut app).contains("192.0.2.1:443"));
        for c in ['/', 'x'] {
            assert!(app.key(KeyEvent::from(KeyCode::Char(c))));
        }
        assert_eq!(app.filter, "192.0.2.2x");
        assert!(app.key(KeyEvent::from(KeyCode::Esc)), "leaves the filter only");
        assert!(app.key(KeyEvent::from(KeyCode::Char('s'))));
        assert_eq!(app.sort, SortKey::Avail);
        assert!(!app.key(KeyEvent::from(KeyCode::Char('q'))));
    }

    #[test]
    fn an_empty_list_says_so() {
        let mut app = App::new(SortKey::Rate, String::new());
        app.look(Ok(vec![]));
        assert!(screen(&mut app).contains("no connection uses imtcp"));
        app.filter = "no such".into();
        app.look(Ok(vec![record(1, 1, 0), record(2, 1, 0)]));
        let text = "none of the 2 connections that use imtcp matches 'no such'";
        assert!(screen(&mut app).contains(text));
    }

    #[test]
    fn nothing_to_look_at_is_said_with_the_way_out_until_there_is_something() {
        let mut app = App::new(SortKey::Rate, String::new());
        app.look(Ok(vec![record(1, 1, 0)]));
        app.look(Err(anyhow::anyhow!("imtcp is not up: `sudo imtcp up` loads it")));
        let text = screen(&mut app);
        assert!(text.contains("imtcp is not up: `sudo imtcp up` loads it"), "{text}");
        assert!(!text.contains("192.0.2.1"), "{text}");
        app.look(Ok(vec![record(2, 1, 0)]));
        assert!(screen(&mut app).contains("192.0.2.2"));
    }
}

//! What is shown, and in which order; drawn by ratatui, or as plain text.

use crate::sample::{Grant, Sample};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use std::time::Duration;
use vfun_admin::counters::Rates;
use vfun_cli::cmd::top::Key;
use vfun_cli::out;

/// A column; its name begins with `>` if it holds numbers.
pub struct Column {
    /// What stands above the column.
    pub name: &'static str,
    /// Least width; of names, what is always shown of them.
    width: u16,
    /// From 0, what goes last when the terminal is narrow.
    rank: u8,
}

const fn column(name: &'static str, width: u16, rank: u8) -> Column {
    Column { name, width, rank }
}

/// How many columns there are.
const COUNT: usize = 19;
/// A name gets so much room before columns that matter less go.
const NAME_WIDTH: u16 = 32;

/// Columns, from left to right.
pub const COLUMNS: [Column; COUNT] = [
    column("GRANT", 7, 1),
    column("CLIENT", 8, 0),
    column("APP", 10, 0),
    column("FUNCTION", 10, 0),
    column("WHERE", 8, 6),
    column("VIA", 16, 5),
    column("WAIT", 6, 4),
    column(">CALLS/S", 10, 0),
    column(">ERR/S", 6, 2),
    column(">IN-FLIGHT", 9, 4),
    column(">P50", 8, 1),
    column(">P99", 8, 1),
    column(">IN/S", 10, 3),
    column(">OUT/S", 10, 3),
    column(">BUSY", 5, 2),
    column(">SPIN", 5, 3),
    column(">SLEEP", 5, 3),
    column(">BUFFERS", 8, 7),
    column(">RESTARTS", 8, 7),
];

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| out::duration(Duration::from_nanos(ns)))
}

fn volume(per_second: f64) -> String {
    out::bytes(per_second.round() as u64)
}

/// A grant's cells, one a column.
pub fn cells(g: &Grant) -> [String; COUNT] {
    let (row, r) = (&g.row, &g.rates);
    let plain = |text: &str| text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    [
        plain(&row.grant),
        plain(&row.owner()),
        plain(&row.app),
        plain(&row.function),
        plain(&row.location),
        plain(&row.transport),
        plain(&row.wait),
        out::rate(r.calls_per_s),
        out::rate(r.errors_per_s),
        row.in_flight.to_string(),
        time(r.p50_ns),
        time(r.p99_ns),
        volume(r.bytes_in_per_s),
        volume(r.bytes_out_per_s),
        out::percent(r.busy),
        out::percent(r.spin),
        out::percent(r.asleep),
        vfun_cli::cmd::ps::buffers(row),
        row.restarts.to_string(),
    ]
}

/// The manager and all grants together, in two lines.
pub fn headline(s: &Sample) -> String {
    let m = &s.manager;
    let t: &Rates = &s.total;
    let state = if m.draining { ", draining" } else { "" };
    format!(
        "vfund {}, up {}{state}: {} windows, {} apps, {} grants, {} services, {} given out, {} buffers\n\
         total: {} calls/s, {} errors/s, p50 {}, p99 {}, in {}/s, out {}/s, busy {}, spin {}, sleep {}\n",
        m.version,
        out::age(m.uptime_s),
        m.windows,
        m.sessions,
        m.grants,
        m.services,
        out::bytes(m.window_bytes_used),
        m.buffers,
        out::rate(t.calls_per_s),
        out::rate(t.errors_per_s),
        time(t.p50_ns),
        time(t.p99_ns),
        volume(t.bytes_in_per_s),
        volume(t.bytes_out_per_s),
        out::percent(t.busy),
        out::percent(t.spin),
        out::percent(t.asleep),
    )
}

/// What the person wants to see.
pub struct View {
    /// The column that rows are sorted by.
    pub sort: Key,
    /// The other way round.
    pub turned: bool,
    /// Only what has this in it.
    pub filter: String,
    /// Whether the filter is being typed.
    pub typing: bool,
    /// Whether the view stands still.
    pub paused: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// How many rows are scrolled away above.
    pub scroll: usize,
    /// Time between two samples.
    pub interval: Duration,
    /// What went wrong at the last look.
    pub trouble: Option<String>,
}

impl View {
    /// As the command line says.
    pub fn new(sort: Key, filter: &str, interval: Duration) -> Self {
        View {
            sort,
            turned: false,
            filter: filter.to_owned(),
            typing: false,
            paused: false,
            help: false,
            scroll: 0,
            interval,
            trouble: None,
        }
    }

    fn fits(&self, g: &Grant) -> bool {
        let wanted = self.filter.to_lowercase();
        let r = &g.row;
        [&r.owner(), &r.app, &r.function, &r.transport]
            .iter()
            .any(|t| t.to_lowercase().contains(&wanted))
    }

    /// The grants to show, in order.
    pub fn rows<'a>(&self, s: &'a Sample) -> Vec<&'a Grant> {
        let mut rows: Vec<&Grant> = s.grants.iter().filter(|g| self.fits(g)).collect();
        let name = |g: &Grant| {
            let r = &g.row;
            (r.owner(), r.app.clone(), r.function.clone(), r.grant.clone())
        };
        let amount = |g: &Grant| {
            let r = &g.rates;
            match self.sort {
                Key::Calls => r.calls_per_s,
                Key::Errors => r.errors_per_s,
                Key::P99 => r.p99_ns.map_or(-1.0, |ns| ns as f64),
                Key::Bytes => r.bytes_in_per_s + r.bytes_out_per_s,
                Key::Busy => r.busy.unwrap_or(-1.0),
                Key::Name => 0.0,
            }
        };
        // The most first; what is equal by name, so that rows do not jump.
        rows.sort_by(|a, b| amount(b).total_cmp(&amount(a)).then_with(|| name(a).cmp(&name(b))));
        if self.turned {
            rows.reverse();
        }
        rows
    }

    /// Draws all of it.
    pub fn draw(&self, frame: &mut Frame, sample: Option<&Sample>) {
        let lent = sample.and_then(|s| s.network_vfs.as_ref());
        let lent = lent.map(|vfs| vfs.table(&self.filter)).unwrap_or_default();
        let [head, body, vfs, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(room(&lent, frame.area().height)),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(lines(&lent, vfs.height)), vfs);
        match sample {
            Some(s) => {
                frame.render_widget(Paragraph::new(headline(s)), head);
                self.draw_table(frame, body, s);
            }
            None => frame.render_widget(Paragraph::new("looking ..."), head),
        }
        frame.render_widget(Paragraph::new(self.foot()), foot);
        if self.help {
            draw_help(frame);
        }
    }

    fn draw_table(&self, frame: &mut Frame, area: Rect, s: &Sample) {
        let rows = self.rows(s);
        if rows.is_empty() {
            let text = match self.filter.is_empty() {
                true => "No app has a grant: `vfun call echo hello` would show up here.",
                false => "Nothing fits the filter.",
            };
            frame.render_widget(Paragraph::new(text), area);
            return;
        }
        let cells: Vec<_> = rows.iter().map(|g| cells(g)).collect();
        let widths = widths(&cells);
        let shown = columns(&widths, area.width);
        let line = |texts: Vec<String>| {
            Row::new(
                shown
                    .iter()
                    .map(move |i| {
                        let right = COLUMNS[*i].name.starts_with('>');
                        let text = Line::raw(texts[*i].clone());
                        Cell::from(if right { text.right_aligned() } else { text })
                    })
                    .collect::<Vec<_>>(),
            )
        };
        let heads = COLUMNS.map(|c| c.name.trim_start_matches('>').to_owned()).to_vec();
        let head =
            line(heads).style(Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED));
        let from = self.scroll.min(rows.len().saturating_sub(1));
        let body = rows[from..].iter().zip(&cells[from..]).map(|(g, cells)| {
            let row = line(cells.to_vec());
            match g.rates.errors_per_s > 0.0 {
                true => row.style(Style::new().fg(Color::Red)),
                false => row,
            }
        });
        let widths = shown.iter().map(|i| match COLUMNS[*i].name {
            // Names take what is left.
            "CLIENT" | "APP" | "FUNCTION" => Constraint::Min(widths[*i]),
            _ => Constraint::Length(widths[*i]),
        });
        frame.render_widget(Table::new(body, widths).header(head).column_spacing(1), area);
    }

    fn foot(&self) -> Line<'static> {
        if let Some(trouble) = &self.trouble {
            return Line::styled(trouble.clone(), Style::new().fg(Color::Red));
        }
        if self.typing {
            return Line::raw(format!(
                "filter: {}_   (Enter keeps it, Esc clears it)",
                self.filter
            ));
        }
        let bold =
            |text: &'static str| Span::styled(text, Style::new().add_modifier(Modifier::BOLD));
        let order = format!("{:?}{}", self.sort, if self.turned { ", turned" } else { "" });
        let mut spans = vec![
            bold("q"),
            " end  ".into(),
            bold("h"),
            " help  ".into(),
            bold("f"),
            " filter  ".into(),
            bold("space"),
            " pause  ".into(),
            format!("| by {}, every {} s", order.to_lowercase(), self.interval.as_secs_f64())
                .into(),
        ];
        if !self.filter.is_empty() {
            spans.push(format!(", only '{}'", self.filter).into());
        }
        if self.paused {
            spans.push(Span::styled("  PAUSED", Style::new().fg(Color::Yellow)));
        }
        Line::from(spans)
    }
}

/// Lines for the table of network VFs: a third of the screen at most.
fn room(table: &str, height: u16) -> u16 {
    u16::try_from(table.lines().count()).unwrap_or(u16::MAX).min(height / 3)
}

/// So many lines of a table; the last one says how many there are besides.
fn lines(table: &str, room: u16) -> Vec<Line<'_>> {
    let (all, room) = (table.lines().count(), usize::from(room));
    let shown = if all > room { room.saturating_sub(1) } else { all };
    let mut lines: Vec<Line> = table.lines().take(shown).map(Line::raw).collect();
    if let Some(head) = lines.first_mut().filter(|_| all > 1) {
        *head = head.clone().style(Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED));
    }
    if all > room {
        lines.push(Line::raw(format!("{} more: vfun nics list", all - shown)));
    }
    lines
}

/// What each column needs: rather none than half of one.
fn widths(cells: &[[String; COUNT]]) -> [u16; COUNT] {
    std::array::from_fn(|i| {
        let longest = cells.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let longest = u16::try_from(longest).unwrap_or(u16::MAX).min(NAME_WIDTH);
        COLUMNS[i].width.max(longest)
    })
}

/// The columns that fit into a width: the least wanted go first.
fn columns(widths: &[u16; COUNT], width: u16) -> Vec<usize> {
    let fits = |rank: u8| {
        let shown: Vec<usize> = (0..COLUMNS.len()).filter(|i| COLUMNS[*i].rank <= rank).collect();
        let needed: u16 = shown.iter().map(|i| widths[*i] + 1).sum();
        (needed <= width + 1).then_some(shown)
    };
    let most = COLUMNS.iter().map(|c| c.rank).max().unwrap_or(0);
    (0..=most)
        .rev()
        .find_map(fits)
        .unwrap_or_else(|| (0..COLUMNS.len()).filter(|i| COLUMNS[*i].rank == 0).collect())
}

const HELP: &str = "\
c  sort by calls a second          f /  filter (client, app, function, transport)
e  by errors a second              space P  pause, go on
p  by p99 of the service time      + -  look less, more often
i  by bytes a second               up down  scroll
b  by how busy the service is      h ?  this help
n  by name                         q Esc  end
r  turn the order round

IN-FLIGHT: calls posted and not answered, just now.
BUFFERS: the grant's own + those of its app's session, and their bytes.
P50, P99: of the calls sampled since the last look, in the service.
BUSY, SPIN, SLEEP: shares of the service's time. - : not measured.";

fn draw_help(frame: &mut Frame) {
    let area = frame.area();
    let (width, height) = (area.width.min(84), area.height.min(15));
    let at = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" vfun top ")), at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn view() -> View {
        View::new(Key::Calls, "", Duration::from_secs(1))
    }

    fn drawn(view: &View, sample: Option<&Sample>, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|f| view.draw(f, sample)).unwrap();
        let buffer = terminal.backend().buffer();
        let mut text = String::new();
        for y in 0..height {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        let mut s = sample();
        let row = &mut s.grants[0].row;
        (row.buffers, row.buffer_bytes) = (1, 1 << 20);
        (row.session_buffers, row.session_buffer_bytes) = (2, 2 << 20);
        let shown = drawn(&view(), Some(&s), 185, 8);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("vfund 0.1.0, up 1 min 5 s: 2 windows, 2 apps"), "{shown}");
        assert!(lines[1].starts_with("total: 200 010 calls/s"), "{shown}");
        let heads: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(heads, COLUMNS.map(|c| c.name.trim_start_matches('>')), "{shown}");
        assert!(lines[0].ends_with(" given out, 0 buffers"), "{shown}");
        assert!(lines[3].contains("1+2, 3 MiB"), "{shown}");
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        let grant = ["0.1", "vm1", "demo", "echo", "software", "ivshmem-doorbell", "hybrid"];
        assert_eq!(cells[..7], grant);
        assert!(lines[3].contains("200 000") && lines[3].contains("20%"), "{shown}");
        assert!(lines[4].contains("new") && lines[4].contains("sleep"), "{shown}");
        assert!(lines[7].starts_with("q end"), "{shown}");
    }

    #[test]
    fn calls_in_flight_stand_under_their_head() {
        let mut s = sample();
        s.grants[0].row.in_flight = 4321;
        let shown = drawn(&view(), Some(&s), 180, 8);
        let lines: Vec<&str> = shown.lines().collect();
        let end = lines[2].find("IN-FLIGHT").unwrap() + "IN-FLIGHT".len();
        let upto = |line: &str| line.chars().take(end).collect::<String>();
        assert!(upto(lines[3]).ends_with(" 4321"), "{shown}");
        assert!(upto(lines[4]).ends_with(" 0"), "{shown}");
    }

    #[test]
    fn a_narrow_terminal_keeps_what_matters() {
        let shown = drawn(&view(), Some(&sample()), 80, 8);
        let heads = shown.lines().nth(2).unwrap();
        assert!(heads.contains("CALLS/S") && heads.contains("P99") && !heads.contains("WHERE"));
        for width in [1, 20, 40, 200] {
            drawn(&view(), Some(&sample()), width, 5);
            drawn(&View { help: true, ..view() }, None, width, 2);
        }
    }

    /// Where not all fits, columns go: what is shown is shown whole.
    #[test]
    fn no_cell_is_cut_where_others_have_room() {
        let mut s = sample();
        s.grants[0].row.location = "model (simulated)".into();
        s.grants[0].row.app = "a-program-with-a-long-name".into();
        for width in [140, 160, 200] {
            let shown = drawn(&view(), Some(&s), width, 8);
            let heads = shown.lines().nth(2).unwrap();
            assert!(heads.contains("GRANT"), "{shown}");
            assert!(shown.contains("a-program-with-a-long-name"), "{width}: {shown}");
            assert_eq!(heads.contains("WHERE"), shown.contains("model (simulated)"), "{shown}");
        }
        assert!(drawn(&view(), Some(&s), 200, 8).contains("model (simulated)"));
    }

    #[test]
    fn rows_are_sorted_filtered_and_turned() {
        let s = sample();
        let apps = |v: &View| v.rows(&s).iter().map(|g| g.row.app.clone()).collect::<Vec<_>>();
        assert_eq!(apps(&view()), ["demo", "new"]);
        assert_eq!(apps(&View { turned: true, ..view() }), ["new", "demo"]);
        assert_eq!(apps(&View { filter: "NEW".into(), ..view() }), ["new"]);
        assert!(apps(&View { filter: "nothing".into(), ..view() }).is_empty());
        for key in [Key::Errors, Key::P99, Key::Bytes, Key::Busy, Key::Name] {
            assert_eq!(apps(&View { sort: key, ..view() }), ["demo", "new"], "{key:?}");
        }
    }

    #[test]
    fn network_vfs_stand_below_and_leave_room_for_grants() {
        let mut s = sample();
        s.network_vfs = Some(crate::lent::tests::lent());
        let shown = drawn(&view(), Some(&s), 100, 12);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[8].starts_with("POOL"), "{shown}");
        assert!(lines[9].contains("held") && lines[9].contains("web"), "{shown}");
        assert!(lines[10].contains("free") && lines[11].starts_with("q end"), "{shown}");
        let low = drawn(&view(), Some(&s), 100, 8);
        assert!(low.contains("demo") && low.contains("2 more: vfun nics list"), "{low}");
        let other = View { filter: "demo".into(), ..view() };
        assert!(!drawn(&other, Some(&s), 100, 12).contains("POOL"));
    }

    #[test]
    fn states_are_shown() {
        let s = sample();
        assert!(drawn(&View { paused: true, ..view() }, Some(&s), 100, 6).contains("PAUSED"));
        let typing = View { typing: true, filter: "ab".into(), ..view() };
        assert!(drawn(&typing, Some(&s), 100, 6).contains("filter: ab_"));
        assert!(drawn(&View { help: true, ..view() }, Some(&s), 100, 20).contains("sort by calls"));
        let trouble = View { trouble: Some("no manager".into()), ..view() };
        assert!(drawn(&trouble, None, 100, 6).contains("no manager"));
        let none = Sample { grants: vec![], ..s };
        assert!(drawn(&view(), Some(&none), 100, 6).contains("No app has a grant"));
    }
}

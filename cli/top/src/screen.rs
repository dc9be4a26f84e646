//! The live screen: keys, and a look at every interval.

use crate::sample::{Sample, Sampler};
use crate::view::View;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use vfun_cli::cmd::top::Key;
use vfun_cli::fail::{Exit, Failure, Result};

/// Shortest and longest time between two looks, that + and - lead to.
const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Shows it until the person has seen enough.
pub fn run(sampler: &mut Sampler, view: &mut View) -> Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("the live view needs a terminal")
            .advise("use --once, --count N or --json in scripts"));
    }
    // What is wrong from the start is said as any command says it.
    let first = sampler.look()?;
    let failed = |e: std::io::Error| Failure::new(Exit::Failed, format!("the terminal: {e}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = live(&mut terminal, sampler, view, first).map_err(failed);
    ratatui::restore();
    ended
}

fn live(
    terminal: &mut ratatui::DefaultTerminal,
    sampler: &mut Sampler,
    view: &mut View,
    first: Sample,
) -> std::io::Result<()> {
    let mut sample = first;
    // The first look has no rates: the second comes soon.
    let mut due = Instant::now() + view.interval.min(Duration::from_millis(500));
    loop {
        terminal.draw(|f| view.draw(f, Some(&sample)))?;
        let patience = due.saturating_duration_since(Instant::now());
        // While nothing changes only keys are waited for.
        let patience = if view.paused { Duration::from_secs(3600) } else { patience };
        if event::poll(patience)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !take(view, key, sample.grants.len())
            {
                return Ok(());
            }
            due = due.min(Instant::now() + view.interval);
            continue;
        }
        if !view.paused {
            match sampler.look() {
                Ok(now) => {
                    sample = now;
                    view.trouble = None;
                }
                Err(e) => view.trouble = Some(e.text().replace('\n', " ")),
            }
        }
        due = Instant::now() + view.interval;
    }
}

/// Does what a key says; false: end.
fn take(view: &mut View, key: KeyEvent, rows: usize) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
        return false;
    }
    if view.typing {
        match key.code {
            KeyCode::Enter => view.typing = false,
            KeyCode::Esc => {
                view.typing = false;
                view.filter.clear();
            }
            KeyCode::Backspace => drop(view.filter.pop()),
            KeyCode::Char(c) if view.filter.len() < 64 => view.filter.push(c),
            _ => {}
        }
        view.scroll = 0;
        return true;
    }
    let last = rows.saturating_sub(1);
    match key.code {
        KeyCode::Esc if view.help => view.help = false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') => view.sort = Key::Calls,
        KeyCode::Char('e') => view.sort = Key::Errors,
        KeyCode::Char('p') => view.sort = Key::P99,
        KeyCode::Char('i') => view.sort = Key::Bytes,
        KeyCode::Char('b') => view.sort = Key::Busy,
        KeyCode::Char('n') => view.sort = Key::Name,
        KeyCode::Char('r') => view.turned = !view.turned,
        KeyCode::Char('f' | '/') => view.typing = true,
        KeyCode::Char(' ' | 'P') => view.paused = !view.paused,
        KeyCode::Char('h' | '?') => view.help = !view.help,
        KeyCode::Char('+') => view.interval = (view.interval * 2).min(INTERVALS[1]),
        KeyCode::Char('-') => view.interval = (view.interval / 2).max(INTERVALS[0]),
        KeyCode::Down => view.scroll = (view.scroll + 1).min(last),
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::PageDown => view.scroll = (view.scroll + 10).min(last),
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(10),
        KeyCode::Home => view.scroll = 0,
        KeyCode::End => view.scroll = last,
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let mut v = View::new(Key::Calls, "", Duration::from_secs(1));
        let mut press = |code| take(&mut v, KeyEvent::new(code, KeyModifiers::NONE), 30);
        for c in "epbrn f".chars() {
            assert!(press(KeyCode::Char(c)));
        }
        for c in "q/ok".chars() {
            assert!(press(KeyCode::Char(c)), "typed, not done");
        }
        press(KeyCode::Backspace);
        press(KeyCode::Enter);
        for code in [KeyCode::PageDown, KeyCode::Down, KeyCode::Up, KeyCode::Char('+')] {
            assert!(press(code));
        }
        assert!(press(KeyCode::Char('h')) && press(KeyCode::Esc), "out of the help");
        assert!(!press(KeyCode::Char('q')));
        assert_eq!((v.sort, v.turned, v.paused, v.help), (Key::Name, true, true, false));
        assert_eq!((v.filter.as_str(), v.scroll, v.interval), ("q/o", 10, Duration::from_secs(2)));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!take(&mut v, interrupt, 0));
        for _ in 0..20 {
            take(&mut v, KeyEvent::new(KeyCode::Char('-'), KeyModifiers::NONE), 0);
        }
        assert_eq!(v.interval, INTERVALS[0]);
    }
}

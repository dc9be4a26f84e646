//! What stands around every chart: title, machine, settings, legend, axes, colours.

use super::axis::Axis;
use super::canvas::{BLACK, Canvas, Drawn, GREY, Look, PALE, width};
use crate::report::{Domain, Machine, Settings};
use plotters::prelude::{DrawingBackend, RGBColor};

/// Where the plot may begin, below all that [`head`] and [`legend`] draw.
pub const TOP: f64 = 170.0;
pub const LEFT: f64 = 96.0;

const LEGEND: f64 = 136.0;
const WHITE: RGBColor = RGBColor(255, 255, 255);

/// A domain's colour; further transports of it are paler.
pub fn color(domain: Domain, transport: usize) -> RGBColor {
    let RGBColor(r, g, b) = match domain {
        Domain::InProcess => RGBColor(0x99, 0x99, 0x99),
        Domain::HostHost => RGBColor(0x00, 0x72, 0xb2),
        Domain::KvmBare => RGBColor(0x00, 0x9e, 0x73),
        Domain::GuestHost => RGBColor(0xe6, 0x9f, 0x00),
        Domain::GuestNet => RGBColor(0xcc, 0x79, 0xa7),
    };
    let paler =
        |c: u8| (f64::from(c) + (255.0 - f64::from(c)) * 0.4 * transport.min(2) as f64 / 1.2) as u8;
    RGBColor(paler(r), paler(g), paler(b))
}

/// The colours of a chart's series, in order.
pub fn colors<T>(series: &[(Domain, T)]) -> Vec<RGBColor> {
    let before = |i: usize| series[..i].iter().filter(|s| s.0 == series[i].0).count();
    (0..series.len()).map(|i| color(series[i].0, before(i))).collect()
}

/// A series's name in legends.
pub fn name(domain: Domain, transport: &str) -> String {
    if domain == Domain::InProcess { domain.to_string() } else { format!("{domain} ({transport})") }
}

/// White ground, the title, and where, when and how it was measured.
pub fn head<B: DrawingBackend>(
    canvas: &Canvas<B>,
    title: &str,
    machine: &Machine,
    settings: &Settings,
) -> Drawn {
    head_lines(canvas, title, &[machine.line(), settings.line()])
}

/// White ground, the title, and these lines below it.
pub fn head_lines<B: DrawingBackend>(canvas: &Canvas<B>, title: &str, lines: &[String]) -> Drawn {
    canvas.fill(WHITE)?;
    canvas.text((28.0, 36.0), title, Look::left(34.0, BLACK).bold())?;
    for (n, line) in lines.iter().enumerate() {
        let room = canvas.size().0 - 56.0;
        let size = (room / width(line, 1.0)).min(20.0);
        canvas.text((28.0, 74.0 + 26.0 * n as f64), line, Look::left(size, GREY))?;
    }
    Ok(())
}

/// Names and colours in one line between head and plot, where they cover nothing.
pub fn legend<B: DrawingBackend>(canvas: &Canvas<B>, entries: &[(String, RGBColor)]) -> Drawn {
    let mut x = LEFT;
    for (name, color) in entries {
        canvas.rect((x, LEGEND - 8.0), (x + 16.0, LEGEND + 8.0), *color)?;
        canvas.text((x + 24.0, LEGEND), name, Look::left(19.0, BLACK))?;
        x += 64.0 + width(name, 19.0);
    }
    Ok(())
}

/// Horizontal grid lines with their values to the left of `x.0`.
pub fn grid_y<B: DrawingBackend>(
    canvas: &Canvas<B>,
    axis: &Axis,
    x: (f64, f64),
    label: impl Fn(f64) -> String,
) -> Drawn {
    for tick in axis.ticks() {
        let y = axis.at(tick);
        canvas.line(&[(x.0, y), (x.1, y)], PALE, 1)?;
        canvas.text((x.0 - 10.0, y), &label(tick), Look::right(17.0, GREY))?;
    }
    canvas.line(&[(x.0, axis.from), (x.1, axis.from)], GREY, 1)
}

/// Vertical grid lines with their values below `y.0`, the plot's lower edge.
pub fn grid_x<B: DrawingBackend>(
    canvas: &Canvas<B>,
    axis: &Axis,
    y: (f64, f64),
    label: impl Fn(f64) -> String,
) -> Drawn {
    for tick in axis.ticks() {
        let x = axis.at(tick);
        canvas.line(&[(x, y.0), (x, y.1)], PALE, 1)?;
        canvas.text((x, y.0 + 18.0), &label(tick), Look::middle(17.0, GREY))?;
    }
    canvas.line(&[(axis.from, y.0), (axis.from, y.1)], GREY, 1)
}

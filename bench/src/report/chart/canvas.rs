//! The few shapes that charts are made of, in pixels, on any of the library's back ends.

use super::font::FAMILY;
use plotters::coord::Shift;
use plotters::prelude::{
    Circle, Color, DrawingArea, DrawingBackend, PathElement, Polygon, RGBColor, Rectangle, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, ShapeStyle, TextStyle};

/// What drawing comes to: done, or the library's reason.
pub type Drawn = Result<(), String>;

pub const BLACK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub const GREY: RGBColor = RGBColor(0x66, 0x66, 0x66);
pub const PALE: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// How a piece of text looks and which of its points is given.
#[derive(Clone, Copy)]
pub struct Look {
    pub size: f64,
    pub color: RGBColor,
    pub bold: bool,
    pub h: HPos,
    pub v: VPos,
}

impl Look {
    /// Text whose left end is given, at half its height.
    pub const fn left(size: f64, color: RGBColor) -> Self {
        Self { size, color, bold: false, h: HPos::Left, v: VPos::Center }
    }

    /// Text whose right end is given, at half its height.
    pub const fn right(size: f64, color: RGBColor) -> Self {
        Self { h: HPos::Right, ..Self::left(size, color) }
    }

    /// Text whose middle is given.
    pub const fn middle(size: f64, color: RGBColor) -> Self {
        Self { h: HPos::Center, ..Self::left(size, color) }
    }

    /// The same in bold.
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// A guess at a text's width in pixels. The library's own needs a font, which an SVG
/// must do without.
pub fn width(text: &str, size: f64) -> f64 {
    0.53 * size * text.chars().count() as f64
}

/// A surface to draw on.
pub struct Canvas<'a, B: DrawingBackend>(&'a DrawingArea<B, Shift>);

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    pub fn new(area: &'a DrawingArea<B, Shift>) -> Self {
        Self(area)
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (f64, f64) {
        let (width, height) = self.0.dim_in_pixel();
        (f64::from(width), f64::from(height))
    }

    pub fn fill(&self, color: RGBColor) -> Drawn {
        self.0.fill(&color).map_err(|e| e.to_string())
    }

    /// A filled rectangle between two corners.
    pub fn rect(&self, a: (f64, f64), b: (f64, f64), color: RGBColor) -> Drawn {
        let (a, b) = (pixel(a), pixel(b));
        let corners = [(a.0.min(b.0), a.1.min(b.1)), (a.0.max(b.0), a.1.max(b.1))];
        self.0.draw(&Rectangle::new(corners, color.filled())).map_err(|e| e.to_string())
    }

    /// A line through all points.
    pub fn line(&self, points: &[(f64, f64)], color: RGBColor, width: u32) -> Drawn {
        let points: Vec<_> = points.iter().copied().map(pixel).collect();
        let style: ShapeStyle = color.stroke_width(width);
        self.0.draw(&PathElement::new(points, style)).map_err(|e| e.to_string())
    }

    /// A dashed line from `a` to `b`.
    pub fn dashes(&self, a: (f64, f64), b: (f64, f64), color: RGBColor, width: u32) -> Drawn {
        const DASH: f64 = 8.0;
        let length = (b.0 - a.0).hypot(b.1 - a.1).max(1.0);
        let at = |d: f64| (a.0 + (b.0 - a.0) * d / length, a.1 + (b.1 - a.1) * d / length);
        let mut from = 0.0;
        while from < length {
            self.line(&[at(from), at((from + DASH).min(length))], color, width)?;
            from += 1.7 * DASH;
        }
        Ok(())
    }

    /// A filled shape with its corners around a point: the more corners, the rounder.
    pub fn marker(&self, at: (f64, f64), corners: usize, color: RGBColor) -> Drawn {
        if !(3..=4).contains(&corners) {
            return self
                .0
                .draw(&Circle::new(pixel(at), 6, color.filled()))
                .map_err(|e| e.to_string());
        }
        let turn = std::f64::consts::TAU / corners as f64;
        let start = if corners == 4 { turn / 2.0 } else { 0.0 };
        let corner = |i: usize| {
            let angle = start + turn * i as f64;
            pixel((at.0 + 8.0 * angle.sin(), at.1 - 8.0 * angle.cos()))
        };
        let corners: Vec<_> = (0..corners).map(corner).collect();
        self.0.draw(&Polygon::new(corners, color.filled())).map_err(|e| e.to_string())
    }

    pub fn text(&self, at: (f64, f64), text: &str, look: Look) -> Drawn {
        let style = if look.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = (FAMILY, look.size, style).into_font();
        let style = TextStyle::from(font).color(&look.color).pos(Pos::new(look.h, look.v));
        self.0.draw(&Text::new(text.to_owned(), pixel(at), style)).map_err(|e| e.to_string())
    }
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

//! A folder that carries a window.

/// The window's file in it.
pub const WINDOW: &str = "window";

//! From a model to files.

mod guest;
mod host;
mod host_structs;
mod pack;
mod shapes;
mod shared;
mod table;

pub use guest::guest;
pub use host::host;
pub use shapes::shapes;
pub use table::table;

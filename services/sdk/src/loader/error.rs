//! Why a driver cannot be loaded.

/// Why a driver cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Nothing there, or no right to look.
    #[error("the driver {path} cannot be opened: {why}; is it built and installed?")]
    Missing {
        /// Where it should be.
        path: String,
        /// What the system says of it.
        why: String,
    },
    /// A directory or a device.
    #[error("the driver {path} is not a file")]
    NotAFile {
        /// Where it should be.
        path: String,
    },
    /// The system's loader refused it.
    #[error("{path} is not a shared library that this machine can load: {why}")]
    NotALibrary {
        /// Path of the library.
        path: String,
        /// What the system's loader of libraries says.
        why: String,
    },
    /// A shared library, but no driver.
    #[error("{path} lacks the symbol {symbol}, so it is not a VirtFun driver (see vfun_driver.h)")]
    MissingSymbol {
        /// Path of the library.
        path: String,
        /// The symbol that it lacks.
        symbol: &'static str,
    },
    /// A driver for another version of the interface.
    #[error(
        "{path} is built for driver interface {found}; this service speaks 1 to {}: build it against this version's vfun_driver.h",
        crate::abi::ABI
    )]
    WrongAbi {
        /// Path of the library.
        path: String,
        /// The interface's version that it says.
        found: u32,
    },
    /// `vfun_driver_info` makes no sense.
    #[error("{path} has a wrong vfun_driver_info: {what}")]
    BadInfo {
        /// Path of the library.
        path: String,
        /// What is wrong with it, as the end of a sentence.
        what: &'static str,
    },
    /// The library is the driver of another function.
    #[error(
        "the manifest says function {wanted}, but the driver is that of {found}: correct name or library"
    )]
    WrongName {
        /// What the manifest says.
        wanted: String,
        /// What the driver says of itself.
        found: String,
    },
    /// The library is the driver of another version of this function.
    #[error("the manifest says {name} {}.{}, but the driver is version {}.{}: correct version or library", .wanted.0, .wanted.1, .found.0, .found.1)]
    WrongVersion {
        name: String,
        /// What the manifest says.
        wanted: (u16, u16),
        /// What the driver says of itself.
        found: (u16, u16),
    },
}

/// The loader's own words, which libloading keeps one level down.
pub(super) fn words(e: &libloading::Error) -> String {
    std::error::Error::source(e).map_or_else(|| e.to_string(), |inner| inner.to_string())
}

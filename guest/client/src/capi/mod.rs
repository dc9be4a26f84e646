//! The C ABI. Being written.

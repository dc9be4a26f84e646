//! Every limit of a kind, with its reason.

/// Linear memory of a WebAssembly instance where the manifest names none: a
/// stack, some data and the arguments; each channel has one.
pub const WASM_MEMORY_DEFAULT: u64 = 64 << 20;
/// Least: one page of it.
pub const WASM_MEMORY_MIN: u64 = 64 << 10;
/// Most: what a service may have in all by default.
pub const WASM_MEMORY_MAX: u64 = 1 << 30;

/// Bytes of the file system in memory in which an OpenCL kernel is compiled: PoCL
/// keeps three files a kernel there, together some hundred KiB, until the service
/// has loaded them. They count as its memory.
pub const OPENCL_SCRATCH_BYTES: u64 = 32 << 20;

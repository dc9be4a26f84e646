//! The macros that give a crate the four symbols of a driver.

/// Exports a [`Driver`](crate::Driver) from a `cdylib` crate.
///
/// ```
/// use vfun_sdk::{Args, Config, Driver, DriverError, Out};
///
/// struct Counter(u64);
///
/// impl Driver for Counter {
///     fn init(config: &Config) -> Result<Self, DriverError> {
///         Ok(Counter(config.setting("start", 0)?))
///     }
///     fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
///         self.0 += args.u64_at(0)?;
///         out.put_u64(self.0)
///     }
///     fn rst(&mut self) -> Result<(), DriverError> {
///         self.0 = 0;
///         Ok(())
///     }
/// }
///
/// vfun_sdk::export_driver!(Counter, name = "counter", version = (1, 0), max_args = 8, max_result = 8);
/// # fn main() {}
/// ```
///
/// One crate exports one driver, and a program links one such crate at most:
/// the symbols have fixed names. Programs load drivers
/// (`loader`, behind the feature of that name) instead of linking them.
#[macro_export]
macro_rules! export_driver {
    (
        $driver:ty, name = $name:expr, version = ($major:expr, $minor:expr),
        max_args = $args:expr, max_result = $result:expr $(,)?
    ) => {
        #[allow(unsafe_code, non_upper_case_globals)]
        const _: () = {
            /// What this driver is.
            #[unsafe(no_mangle)]
            pub static vfun_driver_info: $crate::abi::DriverInfo =
                $crate::abi::DriverInfo::new($name, ($major, $minor), $args, $result);

            /// # Safety
            /// See `vfun_driver.h`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn vfun_driver_init(
                config: *const $crate::abi::DriverConfig,
                state: *mut *mut ::std::ffi::c_void,
            ) -> ::std::ffi::c_int {
                // SAFETY: the service keeps what the header promises.
                unsafe { $crate::edge::init::<$driver>(config, state) }
            }

            /// # Safety
            /// See `vfun_driver.h`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn vfun_driver_function(
                state: *mut ::std::ffi::c_void,
                call: *mut $crate::abi::Call,
            ) -> ::std::ffi::c_int {
                // SAFETY: the service keeps what the header promises.
                unsafe { $crate::edge::function::<$driver>(state, call) }
            }

            /// # Safety
            /// See `vfun_driver.h`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn vfun_driver_exit(state: *mut ::std::ffi::c_void) {
                // SAFETY: the service keeps what the header promises.
                unsafe { $crate::edge::exit::<$driver>(state) }
            }
        };
    };
}

/// Exports a function that keeps nothing between calls.
///
/// ```
/// use vfun_sdk::{Args, DriverError, Out};
///
/// fn double(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
///     out.put_u64(args.u64_at(0)?.wrapping_mul(2))
/// }
///
/// vfun_sdk::export_function!(double, name = "double", version = (1, 0), max_args = 8, max_result = 8);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_function {
    ($function:path, $($rest:tt)*) => {
        const _: () = {
            struct Stateless;
            impl $crate::Driver for Stateless {
                fn init(_: &$crate::Config) -> Result<Self, $crate::DriverError> {
                    Ok(Stateless)
                }
                #[inline]
                fn call(
                    &mut self,
                    args: &$crate::Args<'_>,
                    out: &mut $crate::Out<'_>,
                ) -> Result<(), $crate::DriverError> {
                    $function(args, out)
                }
            }
            $crate::export_driver!(Stateless, $($rest)*);
        };
    };
}

/// Puts a manifest's text (an array of bytes) into the library, where `vfun
/// function add` and `vfun submit` look for one: the ELF section
/// `.vfun.manifest`, in WebAssembly the custom section of that name.
/// `#[vfunction]` of vfun-function does this by itself.
#[macro_export]
macro_rules! export_manifest {
    ($bytes:expr) => {
        #[allow(unsafe_code)]
        const _: () = {
            #[used]
            #[unsafe(link_section = ".vfun.manifest")]
            static MANIFEST: [u8; $bytes.len()] = $bytes;
        };
    };
}

//! A driver that this program has in itself, as if it had been loaded.

use super::{Info, Library, Loaded};
use crate::abi::{ABI, Call, DriverConfig};
use crate::{Driver, edge};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

impl Library {
    /// The driver `D` of this program, as [`export_driver!`](crate::export_driver) would export
    /// it. `max_bytes`: longest arguments and longest results.
    pub fn of_driver<D: Driver>(name: &str, version: (u16, u16), max_bytes: (u32, u32)) -> Self {
        let info = Info {
            name: name.to_owned(),
            version,
            max_args: max_bytes.0,
            max_result: max_bytes.1,
            abi: ABI,
        };
        let loaded = Loaded { info, init: init::<D>, function: function::<D>, exit: exit::<D> };
        Library(Arc::new(loaded))
    }
}

unsafe extern "C" fn init<D: Driver>(
    config: *const DriverConfig,
    state: *mut *mut c_void,
) -> c_int {
    // SAFETY: an instance keeps what the header promises.
    unsafe { edge::init::<D>(config, state) }
}

unsafe extern "C" fn function<D: Driver>(state: *mut c_void, call: *mut Call) -> c_int {
    // SAFETY: an instance keeps what the header promises.
    unsafe { edge::function::<D>(state, call) }
}

unsafe extern "C" fn exit<D: Driver>(state: *mut c_void) {
    // SAFETY: an instance keeps what the header promises.
    unsafe { edge::exit::<D>(state) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Config, DriverError, Out};

    struct Sum(u64);

    impl Driver for Sum {
        fn init(config: &Config) -> Result<Self, DriverError> {
            Ok(Sum(config.setting("start", 0)?))
        }
        fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
            self.0 += args.u64_at(0)?;
            assert!(self.0 < 100, "too much");
            out.put_u64(self.0)
        }
    }

    #[test]
    fn a_driver_of_this_program_is_one_as_any_other() {
        let library = Library::of_driver::<Sum>("sum", (1, 0), (8, 8));
        library.expect("sum", (1, 0)).unwrap();
        let config =
            Config { settings: [("start".to_owned(), "5".to_owned())].into(), ..Config::default() };
        let mut instance = library.init(&config).unwrap();
        let mut room = [0; 8];
        assert_eq!(instance.call(&7u64.to_le_bytes(), &mut room), Ok(8));
        assert_eq!(u64::from_le_bytes(room), 12);
        let error = instance.call(&99u64.to_le_bytes(), &mut room).unwrap_err();
        assert!(error.sentence.contains("too much"), "{error}");
        assert_eq!(instance.call(&1u64.to_le_bytes(), &mut room), Ok(8));
        assert_eq!(u64::from_le_bytes(room), 6, "it began anew");
    }
}

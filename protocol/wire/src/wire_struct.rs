//! Structs of the wire: fixed size, no padding.

/// Declares a wire struct with its size.
macro_rules! wire_struct {
    ($(#[$meta:meta])* $name:ident = $bytes:literal { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}
pub(crate) use wire_struct;

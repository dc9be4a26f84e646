//! Numbers that a peer sends become Rust enums only after a check.

/// Declares an enum with a fixed representation, `from_wire` (None for a
/// number this version does not know) and `to_wire`.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident : $repr:ty {
        $($(#[$vmeta:meta])* $variant:ident = $value:literal => $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($repr)]
        $vis enum $name { $($(#[$vmeta])* $variant = $value,)* }

        impl $name {
            /// Every value this version knows.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The value behind a peer's number, if this version knows it.
            pub const fn from_wire(n: $repr) -> Option<Self> {
                match n { $($value => Some($name::$variant),)* _ => None }
            }

            /// The number as it stands on the wire.
            pub const fn to_wire(self) -> $repr { self as $repr }

            /// A short name or sentence for people.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
pub(crate) use wire_enum;

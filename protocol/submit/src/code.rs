//! Why something was refused, as a number for programs.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $n:literal => $text:literal,)*) => {
        /// Why `submit` refused: the code of its driver's error. The sentence
        /// beside it says what is wrong and what to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $name = $n,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];
            /// The code behind a number.
            pub const fn from_number(n: u32) -> Option<Self> {
                match n { $($n => Some(Code::$name),)* _ => None }
            }
            pub const fn number(self) -> u32 { self as u32 }
            pub const fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The request makes no sense.
    Malformed = 1 => "malformed",
    /// The module is not one that is served; the sentence is the compiler's or
    /// the validator's.
    BadModule = 2 => "bad module",
    /// Policy does not let this client or app submit.
    Denied = 3 => "denied",
    /// The client has as many modules as it may, or its bytes are full.
    OverQuota = 4 => "over quota",
    /// The module, its memory or its deadline is beyond a limit.
    BeyondLimit = 5 => "beyond a limit",
    /// Too many submissions within a minute.
    TooFast = 6 => "too fast",
    /// Another module has this name, and the request does not say `replace`.
    NameTaken = 7 => "name taken",
    /// Nothing of this name was submitted.
    Unknown = 8 => "unknown",
    /// The host could not keep it: its disk, or its manager.
    HostTrouble = 9 => "host trouble",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        assert!(Code::ALL.iter().all(|c| Code::from_number(c.number()) == Some(*c)));
        assert_eq!(Code::from_number(0), None);
    }
}

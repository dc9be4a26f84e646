//! Why a call was not made.

/// Why one side does not take what the other side wrote. The function behind the call did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The bytes make no sense: too few, too many, or a value that its type does not have.
    Malformed,
    /// No function has this number.
    Unknown,
    /// A name stands for no object of this connection, or for one of another kind.
    Object,
    /// An argument that the host checks is not allowed.
    Argument,
    /// Beyond a limit of objects, bytes or calls.
    Limit,
    /// The host's library does not have this function, or policy does not allow it.
    Unsupported,
    /// The service is new and knows nothing of this connection: what the earlier one knew is lost.
    Fresh,
    /// The two halves were made of different descriptions.
    Different,
    /// Beyond what all programs of the client may have together.
    Budget,
}

impl Refusal {
    const ALL: [Refusal; 9] = [
        Refusal::Malformed,
        Refusal::Unknown,
        Refusal::Object,
        Refusal::Argument,
        Refusal::Limit,
        Refusal::Unsupported,
        Refusal::Fresh,
        Refusal::Different,
        Refusal::Budget,
    ];

    /// Its number on the wire, from 1.
    pub fn number(self) -> u16 {
        self as u16 + 1
    }

    /// The refusal of a number; one that a newer side invented counts as [`Refusal::Unsupported`].
    pub fn of(number: u16) -> Refusal {
        let at = usize::from(number).wrapping_sub(1);
        Refusal::ALL.get(at).copied().unwrap_or(Refusal::Unsupported)
    }

    /// In words, without a final stop.
    pub fn words(self) -> &'static str {
        match self {
            Refusal::Malformed => "the bytes of the call make no sense",
            Refusal::Unknown => "the host does not know this function",
            Refusal::Object => "there is no such object, or it is of another kind",
            Refusal::Argument => "an argument is not allowed",
            Refusal::Limit => "beyond a limit of objects, bytes or calls",
            Refusal::Unsupported => "the host does not offer this function",
            Refusal::Fresh => "the service was started again, and all objects are lost",
            Refusal::Different => {
                "guest and host have different versions of this API: install the same VirtFun on both"
            }
            Refusal::Budget => {
                "the programs of this client have as much as they may have together: end some of them, or make them give some back"
            }
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}
impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::of(refusal.number()), refusal);
        }
        assert_eq!(Refusal::of(999), Refusal::Unsupported);
    }
}

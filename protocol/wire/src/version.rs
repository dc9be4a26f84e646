//! Protocol versions and features: both are negotiated down.

/// The version this code speaks best.
pub const VERSION: u16 = 2;
/// The oldest version this code still speaks: 1 knew no ranges.
pub const VERSION_MIN: u16 = 2;

/// What a side can do beyond the base protocol, one bit each. What both
/// sides offer is in force; a bit one of them does not know is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features(pub u64);

impl Features {
    /// Doorbells work in both directions of this window.
    pub const DOORBELL: Features = Features(1 << 0);
    /// Raw channels, which measure the floor under a call (`ChannelKind::Floor`).
    pub const FLOOR: Features = Features(1 << 1);
    /// Buffers that both sides write ([`crate::message::BufferGet`]).
    pub const BUFFERS: Features = Features(1 << 2);
    /// More windows than one, plugged and unplugged live. In `hello`: the app can map ranges
    /// of them.
    pub const WINDOWS: Features = Features(1 << 3);
    /// Channels of packets ([`crate::packets`]): a VM's ports.
    pub const PACKETS: Features = Features(1 << 4);
    /// The session is one of the guest's kernel module: it ends with
    /// [`crate::message::Kind::Reset`], when that module starts anew.
    pub const MODULE: Features = Features(1 << 5);
    /// Functions may have typed signatures ([`crate::message::Describe`]).
    pub const SIGNATURES: Features = Features(1 << 6);
    /// The app may administer the network of its VM. Through the kernel module it is the
    /// module's word (R-NEG-12): programs cannot claim it. Programs on the host never have it.
    pub const NET_ADMIN: Features = Features(1 << 7);
    /// Channels of queues ([`crate::queues`]).
    pub const QUEUES: Features = Features(1 << 8);
    /// Buffers that are tables of pages of the VM's own memory ([`crate::pages`]). The kernel
    /// module alone writes them; its word (R-NEG-12), which programs cannot give.
    pub const PAGES: Features = Features(1 << 9);

    /// What this version of the code implements.
    pub const OFFERED: Features = Features(
        Self::DOORBELL.0
            | Self::FLOOR.0
            | Self::BUFFERS.0
            | Self::WINDOWS.0
            | Self::PACKETS.0
            | Self::MODULE.0
            | Self::SIGNATURES.0
            | Self::NET_ADMIN.0
            | Self::QUEUES.0
            | Self::PAGES.0,
    );

    /// What both sides have.
    pub const fn both(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
    /// Whether all bits of `f` are there.
    pub const fn has(self, f: Features) -> bool {
        self.0 & f.0 == f.0
    }
    /// The features of both.
    pub const fn with(self, f: Features) -> Features {
        Features(self.0 | f.0)
    }
}

/// What an app is told whose range of versions has none in common with this host's.
pub fn no_common(theirs: (u16, u16)) -> String {
    let (min, max) = theirs;
    let update = match () {
        () if min > max => "no version is in the app's range: update the app's VirtFun",
        () if max < VERSION_MIN => "update the app's VirtFun",
        () => "update VirtFun on the host",
    };
    format!(
        "the app speaks protocol {min} to {max}, this host {VERSION_MIN} to {VERSION}: {update}"
    )
}

/// The highest version that both ranges hold, or `None` (R-NEG-1).
pub const fn agree(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let low = if ours.0 > theirs.0 { ours.0 } else { theirs.0 };
    let high = if ours.1 < theirs.1 { ours.1 } else { theirs.1 };
    if low > high { None } else { Some(high) }
}

/// A function's version: `major << 16 | minor`. The same major with at least
/// the asked minor serves a caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct FunctionVersion(pub u32);

impl FunctionVersion {
    /// From its two halves.
    pub const fn new(major: u16, minor: u16) -> Self {
        FunctionVersion((major as u32) << 16 | minor as u32)
    }
    /// The half that must match.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }
    /// The half that must be at least what was asked.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
    /// Whether a function of this version serves a caller that asks for `wanted`
    /// (0.0 asks for any).
    pub const fn serves(self, wanted: FunctionVersion) -> bool {
        wanted.0 == 0 || (self.major() == wanted.major() && self.minor() >= wanted.minor())
    }
}

impl core::fmt::Display for FunctionVersion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

impl core::str::FromStr for FunctionVersion {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || format!("'{s}' is not a version: write MAJOR.MINOR, such as 1.0");
        let (major, minor) = s.split_once('.').ok_or_else(bad)?;
        Ok(Self::new(major.parse().map_err(|_| bad())?, minor.parse().map_err(|_| bad())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_negotiated_down() {
        assert_eq!(agree((1, 3), (2, 9)), Some(3));
        assert_eq!(agree((1, 3), (1, 1)), Some(1));
        assert_eq!(agree((2, 3), (4, 5)), None);
        assert_eq!(agree((2, 3), (3, 2)), None, "an inverted range agrees with nothing");
    }

    #[test]
    fn who_is_older_is_told_to_update() {
        assert_eq!(
            no_common((1, 1)),
            "the app speaks protocol 1 to 1, this host 2 to 2: update the app's VirtFun"
        );
        assert!(no_common((3, 9)).ends_with("update VirtFun on the host"));
        let inverted = "no version is in the app's range: update the app's VirtFun";
        assert!(no_common((9, 3)).ends_with(inverted), "the host's may be the newest");
    }

    #[test]
    fn a_function_serves_its_major_and_older_minors() {
        let v = FunctionVersion::new(1, 2);
        assert!(v.serves(FunctionVersion(0)));
        assert!(v.serves(FunctionVersion::new(1, 2)));
        assert!(v.serves(FunctionVersion::new(1, 0)));
        assert!(!v.serves(FunctionVersion::new(1, 3)));
        assert!(!v.serves(FunctionVersion::new(2, 0)));
        assert_eq!("1.2".parse(), Ok(v));
        assert!("1".parse::<FunctionVersion>().unwrap_err().contains("MAJOR.MINOR"));
        assert!("1.70000".parse::<FunctionVersion>().is_err());
    }
}

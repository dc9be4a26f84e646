// Made by `vfun bindgen`; make it again after a function's signature has changed.

/// The function `factorial`.
#[allow(dead_code, unused_mut, clippy::all)]
pub mod factorial {
    /// Fingerprint of `(n: u64, repetitions: u64 = 1) -> u64`.
    pub const SIGNATURE: u64 = 0xa4543068e952b882;

    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
        let mut to = [0; N];
        to.copy_from_slice(&from[at..at + N]);
        to
    }

    /// `factorial`, open.
    pub struct Factorial {
        /// The function underneath.
        pub function: vfun::Function,
    }

    impl Factorial {
        /// Opens it; refused if the host's has another signature.
        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {
            Self::open_as(session, |request| request)
        }

        /// The same, with more wanted of it.
        pub fn open_as(
            session: &vfun::Session,
            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,
        ) -> vfun::Result<Self> {
            let request = wanted(vfun::FunctionRequest::new("factorial")).signature(SIGNATURE);
            Ok(Factorial { function: session.negotiate(&request)?.activate()? })
        }

        /// Calls it: `(n: u64, repetitions: u64 = 1) -> u64`.
        #[allow(clippy::too_many_arguments)]
        pub fn call(&self, n: u64, repetitions: u64) -> vfun::Result<u64> {
            let mut to = [0u8; 16];
            to[0..][..8].copy_from_slice(&n.to_le_bytes());
            to[8..][..8].copy_from_slice(&repetitions.to_le_bytes());
            let mut room = [0u8; 8];
            let len = self.function.call_into(&to, &mut room)?;
            let from = &room[..len];
            if from.len() != 8 {
                return Err(vfun::Error::HostNonsense(format!("{} bytes of results", from.len())));
            }
            Ok(u64::from_le_bytes(bytes(from, 0)))
        }
    }
}

/// The function `sum_f64`.
#[allow(dead_code, unused_mut, clippy::all)]
pub mod sum_f64 {
    /// Fingerprint of `(data: [f64]) -> f64`.
    pub const SIGNATURE: u64 = 0xf35445b48fbcf27d;

    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
        let mut to = [0; N];
        to.copy_from_slice(&from[at..at + N]);
        to
    }

    /// `sum_f64`, open.
    pub struct SumF64 {
        /// The function underneath.
        pub function: vfun::Function,
    }

    impl SumF64 {
        /// Opens it; refused if the host's has another signature.
        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {
            Self::open_as(session, |request| request)
        }

        /// The same, with more wanted of it.
        pub fn open_as(
            session: &vfun::Session,
            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,
        ) -> vfun::Result<Self> {
            let request = wanted(vfun::FunctionRequest::new("sum_f64")).signature(SIGNATURE);
            Ok(SumF64 { function: session.negotiate(&request)?.activate()? })
        }

        /// Calls it: `(data: [f64]) -> f64`.
        #[allow(clippy::too_many_arguments)]
        pub fn call(&self, data: &[f64]) -> vfun::Result<f64> {
            let mut to = vec![0u8; 0 + data.len() * 8];
            for (i, x) in data.iter().enumerate() { to[0 + i * 8..][..8].copy_from_slice(&x.to_le_bytes()); }
            let mut room = [0u8; 8];
            let len = self.function.call_into(&to, &mut room)?;
            let from = &room[..len];
            if from.len() != 8 {
                return Err(vfun::Error::HostNonsense(format!("{} bytes of results", from.len())));
            }
            Ok(f64::from_le_bytes(bytes(from, 0)))
        }
    }
}

/// The function `sha256`.
#[allow(dead_code, unused_mut, clippy::all)]
pub mod sha256 {
    /// Fingerprint of `(data: [u8]) -> [u8; 32]`.
    pub const SIGNATURE: u64 = 0x832c16cecdb756f1;

    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
        let mut to = [0; N];
        to.copy_from_slice(&from[at..at + N]);
        to
    }

    /// `sha256`, open.
    pub struct Sha256 {
        /// The function underneath.
        pub function: vfun::Function,
    }

    impl Sha256 {
        /// Opens it; refused if the host's has another signature.
        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {
            Self::open_as(session, |request| request)
        }

        /// The same, with more wanted of it.
        pub fn open_as(
            session: &vfun::Session,
            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,
        ) -> vfun::Result<Self> {
            let request = wanted(vfun::FunctionRequest::new("sha256")).signature(SIGNATURE);
            Ok(Sha256 { function: session.negotiate(&request)?.activate()? })
        }

        /// Calls it: `(data: [u8]) -> [u8; 32]`.
        #[allow(clippy::too_many_arguments)]
        pub fn call(&self, data: &[u8]) -> vfun::Result<[u8; 32]> {
            let mut room = [0u8; 32];
            let len = self.function.call_into(data, &mut room)?;
            let from = &room[..len];
            if from.len() != 32 {
                return Err(vfun::Error::HostNonsense(format!("{} bytes of results", from.len())));
            }
            Ok(std::array::from_fn(|i0| u8::from_le_bytes(bytes(from, 0 + i0 * 1))))
        }
    }
}

/// The function `null`.
#[allow(dead_code, unused_mut, clippy::all)]
pub mod null {
    /// Fingerprint of `(data: [u8]) -> ()`.
    pub const SIGNATURE: u64 = 0x24795b88d93d3f7e;

    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
        let mut to = [0; N];
        to.copy_from_slice(&from[at..at + N]);
        to
    }

    /// `null`, open.
    pub struct Null {
        /// The function underneath.
        pub function: vfun::Function,
    }

    impl Null {
        /// Opens it; refused if the host's has another signature.
        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {
            Self::open_as(session, |request| request)
        }

        /// The same, with more wanted of it.
        pub fn open_as(
            session: &vfun::Session,
            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,
        ) -> vfun::Result<Self> {
            let request = wanted(vfun::FunctionRequest::new("null")).signature(SIGNATURE);
            Ok(Null { function: session.negotiate(&request)?.activate()? })
        }

        /// Calls it: `(data: [u8]) -> ()`.
        #[allow(clippy::too_many_arguments)]
        pub fn call(&self, data: &[u8]) -> vfun::Result<()> {
            let mut room = [0u8; 0];
            let len = self.function.call_into(data, &mut room)?;
            let from = &room[..len];
            if from.len() != 0 {
                return Err(vfun::Error::HostNonsense(format!("{} bytes of results", from.len())));
            }
            Ok(())
        }
    }
}

/// The function `echo`.
#[allow(dead_code, unused_mut, clippy::all)]
pub mod echo {
    /// Fingerprint of `struct point { x: f64, y: f64, class: u8 } struct pair { first: point, rest: [point; 2], on: bool } (p: pair, flag: bool, three: [i16; 3], to: i8, data: [u32]) -> (p: pair, flag: bool, three: [i16; 3], to: i8, data: [u32])`.
    pub const SIGNATURE: u64 = 0xf6c76651a5f1599b;

    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
        let mut to = [0; N];
        to.copy_from_slice(&from[at..at + N]);
        to
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Point {
        pub x: f64,
        pub y: f64,
        pub class: u8,
    }

    impl Point {
        fn put(&self, to: &mut [u8]) {
            to[0..][..8].copy_from_slice(&self.x.to_le_bytes());
            to[8..][..8].copy_from_slice(&self.y.to_le_bytes());
            to[16..][..1].copy_from_slice(&self.class.to_le_bytes());
        }
        fn get(from: &[u8]) -> Self {
            Point {
                x: f64::from_le_bytes(bytes(from, 0)),
                y: f64::from_le_bytes(bytes(from, 8)),
                class: u8::from_le_bytes(bytes(from, 16)),
            }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Pair {
        pub first: Point,
        pub rest: [Point; 2],
        pub on: bool,
    }

    impl Pair {
        fn put(&self, to: &mut [u8]) {
            self.first.put(&mut to[0..]);
            for (i0, x0) in self.rest.iter().enumerate() { x0.put(&mut to[24 + i0 * 24..]); }
            to[72] = u8::from(self.on);
        }
        fn get(from: &[u8]) -> Self {
            Pair {
                first: Point::get(&from[0..]),
                rest: std::array::from_fn(|i0| Point::get(&from[24 + i0 * 24..])),
                on: from[72] != 0,
            }
        }
    }

    /// What a call gives.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Results {
        pub p: Pair,
        pub flag: bool,
        pub three: [i16; 3],
        pub to: i8,
        pub data: Vec<u32>,
    }

    /// `echo`, open.
    pub struct Echo {
        /// The function underneath.
        pub function: vfun::Function,
    }

    impl Echo {
        /// Opens it; refused if the host's has another signature.
        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {
            Self::open_as(session, |request| request)
        }

        /// The same, with more wanted of it.
        pub fn open_as(
            session: &vfun::Session,
            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,
        ) -> vfun::Result<Self> {
            let request = wanted(vfun::FunctionRequest::new("echo")).signature(SIGNATURE);
            Ok(Echo { function: session.negotiate(&request)?.activate()? })
        }

        /// Calls it: `struct point { x: f64, y: f64, class: u8 } struct pair { first: point, rest: [point; 2], on: bool } (p: pair, flag: bool, three: [i16; 3], to: i8, data: [u32]) -> (p: pair, flag: bool, three: [i16; 3], to: i8, data: [u32])`.
        #[allow(clippy::too_many_arguments)]
        pub fn call(&self, p: Pair, flag: bool, three: [i16; 3], to_: i8, data: &[u32]) -> vfun::Result<Results> {
            let mut to = vec![0u8; 92 + data.len() * 4];
            p.put(&mut to[0..]);
            to[80] = u8::from(flag);
            for (i0, x0) in three.iter().enumerate() { to[82 + i0 * 2..][..2].copy_from_slice(&x0.to_le_bytes()); }
            to[88..][..1].copy_from_slice(&to_.to_le_bytes());
            for (i, x) in data.iter().enumerate() { to[92 + i * 4..][..4].copy_from_slice(&x.to_le_bytes()); }
            let from = &self.function.call(&to)?[..];
            if from.len() < 92 || !(from.len() - 92).is_multiple_of(4) {
                return Err(vfun::Error::HostNonsense(format!("{} bytes of results", from.len())));
            }
            Ok(Results { p: Pair::get(&from[0..]), flag: from[80] != 0, three: std::array::from_fn(|i0| i16::from_le_bytes(bytes(from, 82 + i0 * 2))), to: i8::from_le_bytes(bytes(from, 88)), data: (0..(from.len() - 92) / 4).map(|i| u32::from_le_bytes(bytes(from, 92 + i * 4))).collect() })
        }
    }
}

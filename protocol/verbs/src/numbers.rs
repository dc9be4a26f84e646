//! Enumerations, with the numbers of `infiniband/verbs.h`.

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident: $of:ty { $($variant:ident = $number:literal $text:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($of)]
        pub enum $name { $(#[doc = $text] $variant = $number,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The one that a number means, if it is known.
            #[inline]
            pub const fn from_wire(n: $of) -> Option<Self> {
                match n { $($number => Some($name::$variant),)* _ => None }
            }

            /// Its number.
            #[inline]
            pub const fn to_wire(self) -> $of {
                self as $of
            }

            /// A short name for people.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.text())
            }
        }
    )*};
}

numbers! {
    /// What a send entry asks for (`ibv_wr_opcode`).
    SendOpcode: u8 {
        Write = 0 "write",
        WriteImm = 1 "write with immediate",
        Send = 2 "send",
        SendImm = 3 "send with immediate",
        Read = 4 "read",
        CompareSwap = 5 "compare and swap",
        FetchAdd = 6 "fetch and add",
    }

    /// How an entry ended (`ibv_wc_status`).
    Status: u8 {
        Success = 0 "success",
        LocalLength = 1 "local length error",
        LocalOperation = 2 "local QP operation error",
        LocalProtection = 4 "local protection error",
        Flushed = 5 "work request flushed error",
        RemoteInvalid = 9 "remote invalid request error",
        RemoteAccess = 10 "remote access error",
        RemoteOperation = 11 "remote operation error",
        RetryExceeded = 12 "transport retry counter exceeded",
        RnrExceeded = 13 "RNR retry counter exceeded",
        General = 21 "general error",
    }

    /// What a completed entry was (`ibv_wc_opcode`).
    CompletionOpcode: u8 {
        Send = 0 "send",
        Write = 1 "write",
        Read = 2 "read",
        CompareSwap = 3 "compare and swap",
        FetchAdd = 4 "fetch and add",
        Receive = 128 "receive",
        ReceiveWrite = 129 "receive of a write with immediate",
    }

    /// `ibv_qp_type`.
    QpType: u8 {
        Rc = 2 "RC",
        Uc = 3 "UC",
        Ud = 4 "UD",
    }

    /// `ibv_qp_state`.
    QpState: u8 {
        Reset = 0 "RESET",
        Init = 1 "INIT",
        Rtr = 2 "RTR",
        Rts = 3 "RTS",
        Sqd = 4 "SQD",
        Sqe = 5 "SQE",
        Error = 6 "ERR",
    }

    /// `ibv_event_type`, as far as the NIC reports it.
    AsyncKind: u32 {
        CqError = 0 "completion queue error",
        QpFatal = 1 "fatal error of a queue pair",
        QpRequest = 2 "invalid request at a queue pair",
        QpAccess = 3 "access violation at a queue pair",
        Established = 4 "communication established",
        Drained = 5 "send queue drained",
        DeviceFatal = 8 "fatal error of the device",
        SrqError = 14 "shared receive queue error",
        SrqLimit = 15 "shared receive queue below its limit",
        LastReceive = 16 "last receive of a queue pair was used",
    }
}

impl SendOpcode {
    /// What its completion calls it.
    #[inline]
    pub const fn completes_as(self) -> CompletionOpcode {
        match self {
            SendOpcode::Write | SendOpcode::WriteImm => CompletionOpcode::Write,
            SendOpcode::Send | SendOpcode::SendImm => CompletionOpcode::Send,
            SendOpcode::Read => CompletionOpcode::Read,
            SendOpcode::CompareSwap => CompletionOpcode::CompareSwap,
            SendOpcode::FetchAdd => CompletionOpcode::FetchAdd,
        }
    }

    /// Whether queue pairs of this type offer it (InfiniBand 9.2, table 38).
    #[inline]
    pub const fn offered_by(self, of: QpType) -> bool {
        match of {
            QpType::Rc => true,
            QpType::Uc => (self as u8) < SendOpcode::Read as u8,
            QpType::Ud => matches!(self, SendOpcode::Send | SendOpcode::SendImm),
        }
    }

    /// Whether it needs a receive of the peer.
    #[inline]
    pub const fn takes_receive(self) -> bool {
        matches!(self, SendOpcode::Send | SendOpcode::SendImm | SendOpcode::WriteImm)
    }

    /// Whether it carries an immediate value.
    #[inline]
    pub const fn has_imm(self) -> bool {
        matches!(self, SendOpcode::SendImm | SendOpcode::WriteImm)
    }

    /// Whether it is done to eight bytes at once.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, SendOpcode::CompareSwap | SendOpcode::FetchAdd)
    }
}

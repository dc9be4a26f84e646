//! The control messages, and the one table of them.
//!
//! Bodies are fixed structs, little-endian, without padding; reserved bytes
//! are zero and checked. A request's body must have exactly its struct's
//! size (R-CTL-4).

use crate::channel::Geometry;
use crate::limits::*;
use crate::open_enum::wire_enum;
use crate::version::Features;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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

/// Room for a name.
pub type Name = [u8; NAME_BYTES];

wire_struct! {
    /// Opens a session: versions and features both sides have, and who the app is.
    Hello = 152 {
        /// Lowest version the app's library speaks.
        version_min: U16,
        /// Highest version the app's library speaks.
        version_max: U16,
        /// The app's process id, for people.
        pid: U32,
        /// [`Features`] the library has.
        features: U64,
        /// The app's name (AppID is made from it).
        app: Name,
        /// Length of `credential`.
        credential_len: U16,
        /// Zero.
        reserved: [u8; 6],
        /// What the client's policy asks of this app, if anything.
        credential: [u8; CREDENTIAL_BYTES],
    }
}

wire_struct! {
    /// Answer to [`Hello`].
    HelloAck = 96 {
        /// The version in force.
        version: U16,
        /// Index of this session's line in the guest's page.
        session_line: U16,
        /// The client that this window belongs to.
        client_id: U32,
        /// Features in force.
        features: U64,
        /// Handle of the session: in every later request.
        session: U64,
        /// How often the session's heartbeat must move, ms; 0: death is seen another way.
        heartbeat_ms: U32,
        /// AppID.
        app_id: U32,
        /// The client's name.
        client: Name,
    }
}

wire_enum! {
    /// Where a function should run.
    pub enum Preference: u8 {
        /// Wherever there is room, hardware first.
        Any = 0 => "any",
        /// Hardware or a nack, which says whether software would do.
        Hardware = 1 => "hardware",
        /// Software.
        Software = 2 => "software",
    }
}

wire_enum! {
    /// How a side waits when there is nothing to do.
    pub enum WaitMode: u8 {
        /// Spins for a time learned from the channel, then sleeps.
        Hybrid = 0 => "hybrid",
        /// Never sleeps.
        Spin = 1 => "spin",
        /// Sleeps at once.
        Sleep = 2 => "sleep",
    }
}

wire_enum! {
    /// Where a function runs (functionLoc).
    pub enum Location: u8 {
        /// On the host's processors.
        Software = 1 => "software",
        /// On a GPU.
        Gpu = 2 => "gpu",
        /// On an FPGA.
        Fpga = 3 => "fpga",
        /// On an FPGA that is simulated in software.
        FpgaSimulated = 4 => "fpga (simulated)",
        /// On a device that is only modelled: how long it takes is a setting.
        ModelSimulated = 5 => "model (simulated)",
    }
}

impl Location {
    /// Whether this is hardware, so that instances of it can be scarce.
    pub const fn is_hardware(self) -> bool {
        !matches!(self, Location::Software)
    }
}

wire_struct! {
    /// Asks for a function.
    Negotiate = 96 {
        /// The function's name.
        function: Name,
        /// [`crate::version::FunctionVersion`] asked for; 0 for any.
        version: U32,
        /// [`Preference`].
        preference: u8,
        /// [`WaitMode`] wanted of the service.
        wait: u8,
        /// [`crate::channel::ChannelKind`].
        kind: U16,
        /// Cells wanted, a power of two; 0 for the default.
        depth: U16,
        /// Zero.
        reserved2: U16,
        /// Data space wanted per cell and side, rounded up to 64; `u32::MAX` for the default.
        cell_bytes: U32,
        /// Deadline wanted for each call, ms; 0 for the function's.
        deadline_ms: U32,
        /// Zero.
        reserved3: U32,
        /// Fingerprint of the signature that the caller was made for; 0: none.
        signature: U64,
    }
}

wire_struct! {
    /// Answer to [`Negotiate`]: the grant, as recorded.
    NegotiateAck = 40 {
        /// Handle of the grant.
        grant: U64,
        /// clientID.
        client_id: U32,
        /// AppID.
        app_id: U32,
        /// functionID.
        function_id: U32,
        /// Version granted.
        version: U32,
        /// functionLoc, a [`Location`].
        location: u8,
        /// [`WaitMode`] in force: policy may not let an app keep a host's processor busy.
        wait: u8,
        /// Cells granted.
        depth: U16,
        /// Data space granted per cell and side.
        cell_bytes: U32,
        /// Deadline of each call, ms.
        deadline_ms: U32,
        /// Zero.
        reserved2: U32,
    }
}

wire_struct! {
    /// A request about one grant: activate, release, stats.
    OfGrant = 8 {
        /// Handle of the grant.
        grant: U64,
    }
}

wire_struct! {
    /// Answer to activate: where the channel lies.
    ActivateAck = 48 {
        /// Handle of the channel.
        channel: U64,
        /// Its place and shape.
        geometry: Geometry,
    }
}

wire_struct! {
    /// Answer to stats and to release: what the grant did.
    Stats = 64 {
        /// Calls answered.
        calls: U64,
        /// Of these with an error.
        errors: U64,
        /// Bytes of arguments.
        bytes_in: U64,
        /// Bytes of results.
        bytes_out: U64,
        /// Times the service slept.
        slept: U64,
        /// Times the service rang.
        rang: U64,
        /// Times the service was started again.
        restarts: U32,
        /// The service's process id on the host, 0 if none.
        pid: U32,
        /// Age of the grant, ms.
        age_ms: U64,
    }
}

wire_struct! {
    /// Asks for the functions offered to this client, from the `start`th on.
    List = 8 {
        /// How many to pass over.
        start: U32,
        /// Zero.
        reserved: U32,
    }
}

wire_struct! {
    /// Head of a list's answer; `count` [`ListEntry`]s follow.
    ListAck = 8 {
        /// Entries here.
        count: U32,
        /// Entries in all.
        total: U32,
    }
}

wire_struct! {
    /// A function on offer.
    ListEntry = 88 {
        /// Its name.
        function: Name,
        /// functionID.
        function_id: U32,
        /// Its version.
        version: U32,
        /// Longest arguments, bytes.
        max_args: U32,
        /// Longest results, bytes.
        max_result: U32,
        /// Where it can run: bit n is [`Location`] n.
        locations: U32,
        /// Its deadline, ms.
        deadline_ms: U32,
    }
}

wire_struct! {
    /// Asks for a function's signature.
    Describe = 64 {
        /// The function's name.
        function: Name,
    }
}

wire_struct! {
    /// Head of the answer to [`Describe`]; `text_len` bytes of text follow,
    /// the signature in its canonical form.
    DescribeAck = 32 {
        /// functionID.
        function_id: U32,
        /// Its version.
        version: U32,
        /// Fingerprint of the signature; 0 if the function has none.
        signature: U64,
        /// Longest arguments, bytes.
        max_args: U32,
        /// Longest results, bytes.
        max_result: U32,
        /// Bytes of text, at most `SIGNATURE_BYTES`; 0 if it has no signature.
        text_len: U32,
        /// Zero.
        reserved: U32,
    }
}

wire_struct! {
    /// A request or answer without a body of its own.
    Empty = 8 {
        /// Zero.
        reserved: U64,
    }
}

wire_struct! {
    /// Asks for a buffer that both sides may write (zero-copy remoting).
    BufferGet = 32 {
        /// The grant that it belongs to.
        grant: U64,
        /// Bytes wanted.
        bytes: U64,
        /// Alignment wanted, a power of two of at least a page.
        align: U64,
        /// Zero.
        reserved: U64,
    }
}

wire_struct! {
    /// Answer to [`BufferGet`].
    BufferAck = 32 {
        /// Handle of the buffer.
        buffer: U64,
        /// Offset from the window's start.
        offset: U64,
        /// Bytes.
        bytes: U64,
        /// Zero.
        reserved: U64,
    }
}

wire_struct! {
    /// Gives a buffer back.
    BufferPut = 8 {
        /// Handle of the buffer.
        buffer: U64,
    }
}

/// One row of the table of messages.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number on the wire.
    pub kind: Kind,
    /// Size of the request's body.
    pub request_bytes: usize,
    /// Size of the ack's body (its head, for lists).
    pub ack_bytes: usize,
    /// First protocol version that has it.
    pub since: u16,
    /// Features it needs.
    pub needs: Features,
}

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident = $number:literal $text:literal: $request:ty => $ack:ty, since $since:literal, needs $needs:expr;)*) => {
        wire_enum! {
            /// Message numbers.
            pub enum Kind: u16 { $($(#[$meta])* $name = $number => $text,)* }
        }
        /// Every message: number, structs, first version, feature.
        pub const TABLE: &[Row] = &[$(Row {
            kind: Kind::$name,
            request_bytes: size_of::<$request>(),
            ack_bytes: size_of::<$ack>(),
            since: $since,
            needs: $needs,
        },)*];
    };
}

messages! {
    /// Opens a session.
    Hello = 1 "hello": Hello => HelloAck, since 1, needs Features(0);
    /// Asks for a function.
    Negotiate = 2 "negotiate": Negotiate => NegotiateAck, since 1, needs Features(0);
    /// Starts the service and lays out the channel.
    Activate = 3 "activate": OfGrant => ActivateAck, since 1, needs Features(0);
    /// Gives a grant back.
    Release = 4 "release": OfGrant => Stats, since 1, needs Features(0);
    /// Functions on offer.
    List = 5 "list": List => ListAck, since 1, needs Features(0);
    /// What a grant did.
    Stats = 6 "stats": OfGrant => Stats, since 1, needs Features(0);
    /// Shows that the app and the manager live.
    KeepAlive = 7 "keep-alive": Empty => Empty, since 1, needs Features(0);
    /// Ends the session and gives everything back.
    Goodbye = 8 "goodbye": Empty => Empty, since 1, needs Features(0);
    /// A guest's kernel module starts: the sessions of the one before it, which
    /// a reset ended without a word, are over. Takes no session.
    Reset = 9 "reset": Empty => Empty, since 1, needs Features::MODULE;
    /// A function's signature.
    Describe = 10 "describe": Describe => DescribeAck, since 1, needs Features::SIGNATURES;
    /// A buffer both sides write.
    BufferGet = 16 "buffer-get": BufferGet => BufferAck, since 1, needs Features::BUFFERS;
    /// Gives a buffer back.
    BufferPut = 17 "buffer-put": BufferPut => Empty, since 1, needs Features::BUFFERS;
}

/// The row of a message.
pub fn row(kind: Kind) -> &'static Row {
    TABLE.iter().find(|r| r.kind == kind).expect("the macro makes a row for every kind")
}

const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].request_bytes <= crate::control::REQUEST_BODY);
        assert!(TABLE[i].ack_bytes <= crate::control::ANSWER_BODY);
        i += 1;
    }
};

/// Entries of a list that fit one answer.
pub const LIST_ENTRIES: usize =
    (crate::control::ANSWER_BODY - size_of::<ListAck>()) / size_of::<ListEntry>();
const _: () = assert!(LIST_ENTRIES >= 40, "most hosts' functions fit one answer");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_rows_complete() {
        for (i, r) in TABLE.iter().enumerate() {
            assert_eq!(row(r.kind).kind, r.kind);
            assert!(TABLE[i + 1..].iter().all(|o| o.kind != r.kind));
            assert!(r.since >= 1);
            assert_eq!(Kind::from_wire(r.kind.to_wire()), Some(r.kind));
        }
        assert_eq!(TABLE.len(), Kind::ALL.len());
    }
}

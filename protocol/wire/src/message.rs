//! The control messages, and the one table of them.
//!
//! Bodies are fixed structs, little-endian, without padding; reserved bytes
//! are zero and checked. A request's body must have exactly its struct's
//! size (R-CTL-4).

use crate::kind::Shape;
use crate::limits::*;
use crate::open_enum::wire_enum;
use crate::range::Range;
use crate::version::Features;
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Room for a name.
pub type Name = [u8; NAME_BYTES];

wire_struct! {
    /// Opens a session: versions and features both sides have, and who the app is.
    ///
    /// Its size and the place of its versions never change, so that sides without a
    /// version in common can say so to each other (R-NEG-1).
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
        /// Bytes of `credential` in use.
        credential_len: U16,
        reserved: [u8; 6],
        /// What the client's policy asks of this app, if anything.
        credential: [u8; CREDENTIAL_BYTES],
    }
}

wire_struct! {
    /// Answer to [`Hello`]: the session that it opened.
    HelloAck = 112 {
        /// The version in force.
        version: U16,
        /// Index of this session's line in the guest's page.
        session_line: U16,
        /// The client that this window belongs to.
        client_id: U32,
        /// [`Features`] in force: those that both sides have.
        features: U64,
        /// Handle of the session: in every later request.
        session: U64,
        /// How often the session's heartbeat must move, ms; 0: death is seen another way.
        heartbeat_ms: U32,
        app_id: U32,
        client: Name,
        reserved: [U64; 2],
    }
}

wire_enum! {
    /// Where a function should run.
    pub enum Preference: u8 {
        /// Wherever there is room, hardware first.
        Any = 0 => "any",
        /// Hardware or a nack, which says whether software would do.
        Hardware = 1 => "hardware",
        Software = 2 => "software",
    }
}

wire_enum! {
    /// How a side waits when there is nothing to do.
    pub enum WaitMode: u8 {
        /// Spins for a time learned from the channel, then sleeps.
        Hybrid = 0 => "hybrid",
        /// Spins and never sleeps, which keeps a processor busy.
        Spin = 1 => "spin",
        /// Sleeps at once, without spinning.
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
    Negotiate = 128 {
        function: Name,
        /// [`crate::version::FunctionVersion`] asked for; 0 for any.
        version: U32,
        /// Where it should run: a [`Preference`].
        preference: u8,
        /// [`WaitMode`] wanted of the service.
        wait: u8,
        /// What the channel carries: a [`crate::kind::ChannelKind`].
        kind: U16,
        /// Deadline wanted for each call, ms; 0 for the function's.
        deadline_ms: U32,
        reserved0: U32,
        /// Fingerprint of the signature that the caller was made for; 0: none.
        signature: U64,
        /// Shape wanted, in the words of `kind`.
        shape: Shape,
        reserved1: [U64; 3],
    }
}

wire_struct! {
    /// Answer to [`Negotiate`]: the grant, as recorded.
    NegotiateAck = 64 {
        /// Handle of the grant.
        grant: U64,
        client_id: U32,
        app_id: U32,
        function_id: U32,
        /// [`crate::version::FunctionVersion`] granted.
        version: U32,
        /// Where it runs (functionLoc): a [`Location`].
        location: u8,
        /// [`WaitMode`] in force: policy may not let an app keep a host's processor busy.
        wait: u8,
        /// What the channel carries: the [`crate::kind::ChannelKind`] that was asked for.
        kind: U16,
        /// Deadline of each call, ms.
        deadline_ms: U32,
        /// Shape granted, in the words of `kind`.
        shape: Shape,
        reserved: [U64; 2],
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
    /// Head of the answer to activate; `count` [`Range`]s follow, in the order of
    /// the kind. See [`crate::place::ChannelPlace`].
    ActivateAck = 40 {
        /// Handle of the channel.
        channel: U64,
        /// What the channel carries: the [`crate::kind::ChannelKind`] that was granted.
        kind: U16,
        /// Ranges that follow, at most [`RANGES_MAX`]; none where there is no shared memory.
        count: U16,
        /// Vector the app rings.
        vector_out: U16,
        /// Vector the host rings.
        vector_in: U16,
        /// The shape that was granted, in the words of `kind`.
        shape: Shape,
        reserved: U64,
    }
}

wire_struct! {
    /// Answer to stats and to release: what the grant did.
    Stats = 80 {
        /// Calls that were answered, with errors too.
        calls: U64,
        /// Of these with an error.
        errors: U64,
        /// Bytes of arguments of all these calls.
        bytes_in: U64,
        /// Bytes of results of all these calls.
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
        reserved: [U64; 2],
    }
}

wire_struct! {
    /// Asks for the functions offered to this client, from the `start`th on.
    List = 8 {
        /// How many to pass over.
        start: U32,
        reserved: U32,
    }
}

wire_struct! {
    /// Head of a list's answer; `count` [`ListEntry`]s follow.
    ListAck = 8 {
        /// Entries that follow this head.
        count: U32,
        /// Entries that there are; ask again for those that are not here.
        total: U32,
    }
}

wire_struct! {
    /// A function on offer.
    ListEntry = 96 {
        function: Name,
        function_id: U32,
        version: U32,
        /// Most bytes of arguments that it takes.
        max_args: U32,
        /// Most bytes of results that it gives.
        max_result: U32,
        /// Where it can run: bit n is [`Location`] n.
        locations: U32,
        /// Longest time that a call may take, ms.
        deadline_ms: U32,
        reserved: U64,
    }
}

wire_struct! {
    /// Asks for a function's signature.
    Describe = 64 {
        function: Name,
    }
}

wire_struct! {
    /// Head of the answer to [`Describe`]; `text_len` bytes of text follow,
    /// the signature in its canonical form.
    DescribeAck = 40 {
        function_id: U32,
        version: U32,
        /// Fingerprint of the signature; 0 if the function has none.
        signature: U64,
        /// Most bytes of arguments that it takes.
        max_args: U32,
        /// Most bytes of results that it gives.
        max_result: U32,
        /// Bytes of text, at most `SIGNATURE_BYTES`; 0 if it has no signature.
        text_len: U32,
        reserved0: U32,
        reserved1: U64,
    }
}

wire_struct! {
    /// Asks what a function's own error codes mean, from the `start`th on.
    Codes = 72 {
        function: Name,
        /// How many to pass over.
        start: U32,
        reserved: U32,
    }
}

wire_struct! {
    /// One error code of a function, after a [`ListAck`].
    CodeEntry = 264 {
        /// The code, as a failed call's results bear it.
        code: I32,
        reserved: U32,
        /// What it means, UTF-8, zero-padded.
        meaning: [u8; MEANING_BYTES],
    }
}

wire_struct! {
    /// A request or answer without a body of its own.
    Empty = 8 {
        reserved: U64,
    }
}

wire_struct! {
    /// Asks for a buffer that both sides may write (zero-copy remoting).
    BufferGet = 32 {
        /// The grant that it belongs to; 0 for the session.
        grant: U64,
        /// Bytes wanted; the buffer has whole pages.
        bytes: U64,
        /// Alignment wanted, a power of two from a page to [`BUFFER_ALIGN_MAX`]; 0 for a page.
        align: U64,
        /// [`BUFFER_CONTIGUOUS`] or [`BUFFER_PAGES`], or 0 for none.
        flags: U32,
        reserved: U32,
    }
}

/// Flag of [`BufferGet`]: its bytes lie side by side in the host's memory too, as a device wants them.
pub const BUFFER_CONTIGUOUS: u32 = 1;
/// Flag of [`BufferGet`]: it is a table of pages of the VM's memory ([`crate::pages`]).
pub const BUFFER_PAGES: u32 = 2;

wire_struct! {
    /// Answer to [`BufferGet`]: where the buffer is.
    BufferAck = 32 {
        /// Handle of the buffer.
        buffer: U64,
        /// Where it lies; its access is both's.
        range: Range,
    }
}

wire_struct! {
    /// Gives a buffer back.
    BufferPut = 8 {
        /// Handle of the buffer.
        buffer: U64,
    }
}

wire_struct! {
    /// A guest's kernel module says whether it has one of the windows that the table of
    /// its control window names ([`crate::header::WindowEntry`]).
    WindowHere = 24 {
        /// The window's key, as its own header has it.
        key: [U64; 2],
        /// 1: it is there now, and ranges in it can be mapped; 0: it is not.
        here: U16,
        reserved: [u8; 6],
    }
}

/// One row of the table of messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageRow {
    /// Number on the wire.
    pub kind: Kind,
    /// Size of the request's body.
    pub request_bytes: usize,
    /// Size of the ack's body (its head, for lists).
    pub ack_bytes: usize,
    /// First protocol version that has it.
    pub since: u16,
    /// Features that the session must have for it; 0 for none.
    pub needs: Features,
}

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident = $number:literal $text:literal: $request:ty => $ack:ty, since $since:literal, needs $needs:expr;)*) => {
        wire_enum! {
            /// Numbers of messages, as frames and control cells have them.
            pub enum Kind: u16 { $($(#[$meta])* $name = $number => $text,)* }
        }
        /// Every message: number, structs, first version, feature.
        pub const TABLE: &[MessageRow] = &[$(MessageRow {
            kind: Kind::$name,
            request_bytes: size_of::<$request>(),
            ack_bytes: size_of::<$ack>(),
            since: $since,
            needs: $needs,
        },)*];
    };
}

messages! {
    /// Opens a session: the first message of an app.
    Hello = 1 "hello": Hello => HelloAck, since 2, needs Features(0);
    /// Asks for a function.
    Negotiate = 2 "negotiate": Negotiate => NegotiateAck, since 2, needs Features(0);
    /// Starts the service and lays out the channel.
    Activate = 3 "activate": OfGrant => ActivateAck, since 2, needs Features(0);
    /// Gives a grant back.
    Release = 4 "release": OfGrant => Stats, since 2, needs Features(0);
    /// Lists the functions that this client may use.
    List = 5 "list": List => ListAck, since 2, needs Features(0);
    /// What a grant did.
    Stats = 6 "stats": OfGrant => Stats, since 2, needs Features(0);
    /// Shows that the app and the manager live.
    KeepAlive = 7 "keep-alive": Empty => Empty, since 2, needs Features(0);
    /// Ends the session and gives everything back.
    Goodbye = 8 "goodbye": Empty => Empty, since 2, needs Features(0);
    /// A guest's kernel module starts: the sessions of the one before it, which
    /// a reset ended without a word, are over. Takes no session.
    Reset = 9 "reset": Empty => Empty, since 2, needs Features::MODULE;
    /// Asks for a function's signature.
    Describe = 10 "describe": Describe => DescribeAck, since 2, needs Features::SIGNATURES;
    /// What a function's own error codes mean.
    Codes = 11 "codes": Codes => ListAck, since 2, needs Features(0);
    /// A guest's kernel module got one of the VM's further windows, or lost it. Takes no
    /// session.
    Window = 12 "window": WindowHere => Empty, since 2, needs Features::WINDOWS;
    /// A buffer both sides write.
    BufferGet = 16 "buffer-get": BufferGet => BufferAck, since 2, needs Features::BUFFERS;
    /// Gives a buffer back.
    BufferPut = 17 "buffer-put": BufferPut => Empty, since 2, needs Features::BUFFERS;
}

/// The row of a message.
pub fn row(kind: Kind) -> &'static MessageRow {
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

/// Meanings of codes that fit one answer.
pub const CODE_ENTRIES: usize =
    (crate::control::ANSWER_BODY - size_of::<ListAck>()) / size_of::<CodeEntry>();

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

//! Every struct, constant and enum of the wire, with its name in C.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of};
use vfun_wire::attach::{Attach, AttachAck};
use vfun_wire::channel::{CellState, Command, InLine, OutLine};
use vfun_wire::frame::{CallAnswer, CallHead, FrameHead};
use vfun_wire::handover::{PortAsk, PortWord};
use vfun_wire::header::{GuestPage, PortEntry, Role, WindowEntry, WindowHeader};
use vfun_wire::kind::{CallsShape, ChannelKind};
use vfun_wire::message::*;
use vfun_wire::nack::{NackBody, NackCode};
use vfun_wire::packets::PacketsShape;
use vfun_wire::pages::PagesHead;
use vfun_wire::queues::QueuesShape;
use vfun_wire::range::{Access, Range};
use vfun_wire::status::{BreakReason, Status};
use vfun_wire::version::Features;
use vfun_wire::*;

type Expect = Vec<(String, u64)>;

/// `NegotiateAck` or `KeepAlive` as `negotiate_ack`, `keep_alive`.
fn snake(camel: &str) -> String {
    let mut s = String::new();
    for (i, c) in camel.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            s.push('_');
        }
        s.push(c.to_ascii_lowercase());
    }
    s
}

/// A field's name in C, where `inline` is a word of the language.
fn c_field(field: &str) -> &str {
    if field == "inline" { "inline_bytes" } else { field }
}

fn field_size<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// The pattern without `..` fails to compile when a field is missing here.
macro_rules! structs {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        fn structs(out: &mut Expect) {
            $({
                #[allow(dead_code)]
                fn all_fields_are_listed(s: $name) { let $name { $($field: _),* } = s; }
                let c = format!("struct vfun_{}", snake(stringify!($name)));
                out.push((format!("sizeof({c})"), size_of::<$name>() as u64));
                $(
                    let f = c_field(stringify!($field));
                    let size = field_size::<$name, _>(|s| &s.$field);
                    out.push((format!("offsetof({c}, {f})"), offset_of!($name, $field) as u64));
                    out.push((format!("sizeof((({c} *)0)->{f})"), size as u64));
                )*
            })*
        }
        const STRUCTS: &[&str] = &[$(stringify!($name)),*];
    };
}

structs! {
    WindowHeader {
        magic, layout, version_min, version_max, role, window_bytes, generation, features,
        client_id, reserved0, control_cells, sessions, vectors, guest_page_off, requests_off,
        answers_off, heap_off, reserved1, client, key, reserved2,
    }
    WindowEntry { index, role, reserved, bytes, key }
    PortEntry { id, mac, mtu, name, ring_bytes, reserved0, reserved1 }
    GuestPage { posted, sleeps, reserved, sessions }
    OutLine { seq, command, flags, reserved0, len, reserved1, inline }
    InLine { seq, state, flags, reserved, len, status, inline }
    Range { window, access, reserved0, reserved1, offset, bytes }
    CallsShape { depth, reserved0, cell_bytes, reserved1 }
    QueuesShape { program_pages, host_pages, reserved }
    PacketsShape { ring_bytes, port, reserved0, reserved1 }
    NackBody { code, software_instead, reserved, sentence_len, sentence }
    Hello { version_min, version_max, pid, features, app, credential_len, reserved, credential }
    HelloAck { version, session_line, client_id, features, session, heartbeat_ms, app_id, client, reserved }
    Negotiate {
        function, version, preference, wait, kind, deadline_ms, reserved0, signature, shape,
        reserved1,
    }
    NegotiateAck {
        grant, client_id, app_id, function_id, version, location, wait, kind, deadline_ms, shape,
        reserved,
    }
    OfGrant { grant }
    ActivateAck { channel, kind, count, vector_out, vector_in, shape, reserved }
    Stats { calls, errors, bytes_in, bytes_out, slept, rang, restarts, pid, age_ms, reserved }
    List { start, reserved }
    ListAck { count, total }
    ListEntry { function, function_id, version, max_args, max_result, locations, deadline_ms, reserved }
    Describe { function }
    DescribeAck {
        function_id, version, signature, max_args, max_result, text_len, reserved0, reserved1,
    }
    Codes { function, start, reserved }
    CodeEntry { code, reserved, meaning }
    Empty { reserved }
    BufferGet { grant, bytes, align, flags, reserved }
    BufferAck { buffer, range }
    BufferPut { buffer }
    WindowHere { key, here, reserved }
    PagesHead { magic, low, high, secret, reserved }
    Attach { magic, client, credential_len, remote, reserved, credential }
    AttachAck { magic, code, sentence_len, vectors, window_bytes, sentence }
    PortAsk { magic, kind, knows, handle, epoch, name }
    PortWord { magic, kind, code, handle, mine, theirs, ring, news, epoch, sentence }
    FrameHead { body_bytes, kind, reserved, id }
    CallHead { grant, command, reserved }
    CallAnswer { status, broken }
}

macro_rules! one_module {
    (# $out:ident, $prefix:literal, [$($module:tt)+], $name:ident) => {
        $out.push((
            concat!(stringify!($($module)+), "::", stringify!($name)).replace(' ', ""),
            concat!("VFUN_", $prefix, stringify!($name)).to_string(),
            vfun_wire::$($module)+::$name as u64,
        ));
    };
    ($out:ident, $prefix:literal, $module:tt, $($name:ident)*) => {
        $(one_module!(# $out, $prefix, $module, $name);)*
    };
}

/// `"prefix in C" [module] {names}`: constant NAME is `VFUN_` + prefix + NAME.
macro_rules! constants {
    ($($prefix:literal $module:tt { $($name:ident),* $(,)? })*) => {
        /// Name in Rust, name in C, value.
        #[allow(clippy::vec_init_then_push)] // one push a constant, made by macro
        fn constants() -> Vec<(String, String, u64)> {
            let mut out = Vec::new();
            $(one_module!(out, $prefix, $module, $($name)*);)*
            out
        }
    };
}

constants! {
    "" [limits] {
        WINDOW_BYTES_MIN, WINDOW_BYTES_MAX, WINDOW_BYTES_DEFAULT, CONTROL_CELLS,
        CONTROL_REQUEST_BYTES, CONTROL_ANSWER_BYTES, SESSIONS, BUFFERS, BUFFER_ALIGN_MAX, DEPTH_MIN, DEPTH_MAX, DEPTH_DEFAULT,
        CELL_BYTES_MAX, CELL_BYTES_DEFAULT, QUEUES_PAGES_MIN, QUEUES_PAGES_MAX, PACKETS_RING_MIN, PACKETS_RING_MAX, INLINE_BYTES, RANGES_MAX, SHAPE_BYTES, MEANING_BYTES, NAME_BYTES, CREDENTIAL_BYTES,
        SENTENCE_BYTES, WINDOWS_MAX, PORTS_MAX, PORT_NAME_BYTES, VECTORS, SIGNATURE_BYTES, DEADLINE_MS_MAX, DEADLINE_MS_DEFAULT, CLAIM_STALE_MS,
        CONTROL_TIMEOUT_MS, HEARTBEAT_MS, HEARTBEAT_DEAD_MS, FRAME_BYTES_MAX,
    }
    "" [header] {
        MAGIC, LAYOUT, HOST_BEAT_OFF, HOST_STATE_OFF, HOST_SLEEPS_OFF, GUEST_PAGE_OFF, REQUESTS_OFF,
        ANSWERS_OFF, HEAP_OFF, FURTHER_HEAP_OFF, WINDOWS_OFF, PORTS_OFF, POSTED_OFF, GUEST_SLEEPS_OFF, SESSIONS_OFF,
    }
    "HOST_" [header::host_state] { SERVING, DRAINING, ENDED, AWAY }
    "" [control] {
        WORD_CLAIM, WORD_POSTED, WORD_SESSION, WORD_BEAT, WORD_ANSWERED, WORD_GENERATION,
        REQUEST_BODY, ANSWER_BODY, ANSWER_ACK, ANSWER_NACK,
    }
    "" [channel] { FLAG_DATA, FLAGS, HANDED, HELD_BEGUN, HELD_EVENT, TIMES }
    "OUT_" [channel::out_header] { SLEEPERS, END }
    "IN_" [channel::in_header] {
        BROKEN, ALONE, NEWS, SLEEPS, CURRENT, NEXT, CALLS, ERRORS, BYTES_IN, BYTES_OUT, SLEPT, RANG, BUSY_NS,
        SPUN_NS, ASLEEP_NS, TIMES,
    }
    "QUEUES_PROGRAM_" [queues::program_head] { SLEEPERS, TOKEN0, TOKEN1, FREE }
    "QUEUES_HOST_" [queues::host_head] {
        SLEEPS, LIFE, RANG, DONE, FAILED, BYTES, FACTS, FACTS_WORDS, FREE,
    }
    "PACKETS_" [packets] { SIDE_OFF, RING_OFF }
    "" [version] { VERSION, VERSION_MIN }
    "" [message] { LIST_ENTRIES, CODE_ENTRIES, BUFFER_CONTIGUOUS, BUFFER_PAGES }
    "PAGES_" [pages] { MAGIC, ENTRIES, ENTRY_BYTES, ENTRY_THERE, ENTRY_WRITE, NO_PAGE }
    "" [attach] { ATTACH_MAGIC }
    "HANDOVER_" [handover] { ASK_MAGIC, WORD_MAGIC, NAME_BYTES, SENTENCE_BYTES }
    "PORT_ASK_" [handover::ask] { WANT, LET_GO, GOODBYE, ALLOWED, FORCED, UNLINKED }
    "PORT_KNOWS_" [handover::knows] { LINKS }
    "PORT_WORD_" [handover::word] { WELCOME, REFUSED, MEMORY, DROP, LINK, ALLOW, FORCE, UNLINK }
    "" [ivshmem] {
        PCI_VENDOR, PCI_DEVICE, REG_IVPOSITION, REG_DOORBELL, HOST_PEER, FIRST_VM_PEER,
    }
    "FRAME_" [frame] { ATTACH, CALL, ACK, NACK }
}

/// Constants that are not plain numbers of a module.
fn other_constants(out: &mut Expect) {
    for (name, value) in [
        ("PAGE", PAGE as u64),
        ("LINE", LINE as u64),
        ("LINE_WORDS", LINE_WORDS as u64),
        ("HANDLE_NONE", Handle::NONE.0),
        ("FEATURE_DOORBELL", Features::DOORBELL.0),
        ("FEATURE_FLOOR", Features::FLOOR.0),
        ("FEATURE_BUFFERS", Features::BUFFERS.0),
        ("FEATURE_WINDOWS", Features::WINDOWS.0),
        ("FEATURE_PACKETS", Features::PACKETS.0),
        ("FEATURE_MODULE", Features::MODULE.0),
        ("FEATURE_SIGNATURES", Features::SIGNATURES.0),
        ("FEATURE_NET_ADMIN", Features::NET_ADMIN.0),
        ("FEATURE_QUEUES", Features::QUEUES.0),
        ("FEATURE_PAGES", Features::PAGES.0),
        ("FEATURE_OFFERED", Features::OFFERED.0),
    ] {
        out.push((format!("VFUN_{name}"), value));
    }
}

const OTHER_CONSTANTS: &[&str] = &[
    "lib::PAGE",
    "lib::LINE",
    "lib::LINE_WORDS",
    "handle::Handle::NONE",
    "version::Features::DOORBELL",
    "version::Features::FLOOR",
    "version::Features::BUFFERS",
    "version::Features::WINDOWS",
    "version::Features::PACKETS",
    "version::Features::MODULE",
    "version::Features::SIGNATURES",
    "version::Features::NET_ADMIN",
    "version::Features::QUEUES",
    "version::Features::PAGES",
    "version::Features::OFFERED",
    // A file's name: no program in C reaches a window in a folder.
    "dir::WINDOW",
    // The table of messages: compared row by row.
    "message::TABLE",
    // The table of kinds: in C only the shape of each.
    "kind::TABLE",
    // Zeros.
    "range::Range::NONE",
    "header::WindowEntry::NONE",
    "header::PortEntry::NONE",
];

/// Every variant of every enum, from the enum itself.
macro_rules! enums {
    ($($name:ident),*) => {
        fn enums(out: &mut Expect) {
            $(for v in $name::ALL {
                let (of, v_name) = (snake(stringify!($name)), snake(&format!("{v:?}")));
                // Those that vfun.h and vfun_driver.h have by the plain name.
                let wire = ["status", "preference", "command"].contains(&of.as_str());
                let c = format!("VFUN_{}{of}_{v_name}", if wire { "WIRE_" } else { "" });
                out.push((c.to_uppercase(), v.to_wire().into()));
            })*
        }
        const ENUMS: &[&str] = &[$(stringify!($name)),*];
    };
}

enums! {
    NackCode, Status, BreakReason, Kind, Command, CellState, ChannelKind, Location, Preference,
    WaitMode, Role, Access
}

/// The rows of `VFUN_MESSAGES`, found by their number: `columns` are the
/// macros that [`super::program`] adds.
fn messages(out: &mut Expect) {
    for r in TABLE {
        let number = r.kind.to_wire();
        out.push((format!("ROW_REQUEST({number})"), r.request_bytes as u64));
        out.push((format!("ROW_ACK({number})"), r.ack_bytes as u64));
        out.push((format!("ROW_SINCE({number})"), r.since.into()));
        out.push((format!("ROW_NEEDS({number})"), r.needs.0));
    }
    out.push(("ROW_COUNT(0)".into(), TABLE.len() as u64));
}

/// C macros that find a row's column: a sum over all rows, where all but one give 0.
pub const ROW_MACROS: &str = "\
static unsigned long long at;
#define COL_REQUEST(name, number, request, ack, since, needs) + (at == number ? sizeof(struct request) : 0)
#define COL_ACK(name, number, request, ack, since, needs) + (at == number ? sizeof(struct ack) : 0)
#define COL_SINCE(name, number, request, ack, since, needs) + (at == number ? since : 0)
#define COL_NEEDS(name, number, request, ack, since, needs) + (at == number ? needs : 0)
#define COL_ONE(name, number, request, ack, since, needs) + 1
#define ROW_REQUEST(n) (at = n, 0ull VFUN_MESSAGES(COL_REQUEST))
#define ROW_ACK(n) (at = n, 0ull VFUN_MESSAGES(COL_ACK))
#define ROW_SINCE(n) (at = n, 0u VFUN_MESSAGES(COL_SINCE))
#define ROW_NEEDS(n) (at = n, 0u VFUN_MESSAGES(COL_NEEDS))
#define ROW_COUNT(n) (at = n, 0 VFUN_MESSAGES(COL_ONE))
";

/// C expressions with the value that Rust has.
pub fn expectations() -> Expect {
    let mut out = Vec::new();
    structs(&mut out);
    out.extend(constants().into_iter().map(|(_, c, value)| (c, value)));
    other_constants(&mut out);
    enums(&mut out);
    messages(&mut out);
    out
}

/// What the table holds, in the words of [`super::source::declared`].
pub fn known() -> BTreeSet<String> {
    let all = |what: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|n| format!("{what} {n}")).collect()
    };
    [
        all("struct", STRUCTS),
        all("enum", ENUMS),
        constants().into_iter().map(|(rust, ..)| format!("const {rust}")).collect(),
        all("const", OTHER_CONSTANTS),
    ]
    .concat()
    .into_iter()
    .collect()
}

/// Names in C that are compared: constants, enumerators, `struct x`.
pub fn c_names() -> BTreeSet<String> {
    let inside =
        |e: &str| e.strip_prefix("sizeof(").and_then(|r| r.strip_suffix(')')).map(String::from);
    expectations().into_iter().map(|(e, _)| inside(&e).unwrap_or(e)).collect()
}

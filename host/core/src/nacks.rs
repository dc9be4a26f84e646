//! What apps are told when a request is refused: a sentence for each cause. Refusals by
//! policy are in [`rules`](super::rules), which knows where each rule stands.

use super::catalog::{Client, Function, Hardware};
use super::grant::{Grant, Shape};
use super::window::Window;
use super::{Handle, drain::Drained};
use crate::ports::Port;
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::*;
use vfun_wire::message::Kind;
use vfun_wire::packets::PacketsShape;
use vfun_wire::queues::QueuesShape;
use vfun_wire::version::{FunctionVersion, no_common};
use vfun_wire::{Nack, NackCode, PAGE};

pub(super) fn malformed(what: impl Into<String>) -> Nack {
    Nack::new(NackCode::Malformed, what)
}

pub(super) fn length(kind: Kind, is: usize, should: usize) -> Nack {
    malformed(format!("a {kind} request has {is} bytes of body, not {should}"))
}

pub(super) fn unknown_message(number: u16) -> Nack {
    let sentence = format!("message {number} is not one this manager knows");
    Nack::new(NackCode::Unsupported, sentence)
}

pub(super) fn lacks_feature(kind: Kind) -> Nack {
    let sentence = format!("{kind} needs a feature that this host does not offer");
    Nack::new(NackCode::Unsupported, sentence)
}

pub(super) fn no_such_window() -> Nack {
    let sentence = "the control window names no further window of this key";
    Nack::new(NackCode::Stale, sentence)
}

pub(super) fn no_buffer(buffer: Handle) -> Nack {
    Nack::new(NackCode::BadHandle, format!("this session has no buffer {buffer}"))
}

pub(super) fn buffer_over(buffer: Handle) -> Nack {
    let sentence = format!("buffer {buffer} has ended: it was given back, or its grant has ended");
    Nack::new(NackCode::Stale, sentence)
}

pub(super) fn pages_need_module() -> Nack {
    let sentence = "a table of pages is the guest's kernel module's: update the module, or load it";
    Nack::new(NackCode::Denied, sentence)
}

pub(super) fn no_shared_memory(vm: &str) -> Nack {
    let sentence = format!(
        "the manifest names no memory of VM {vm}: write shared_memory, or let memory move into the window"
    );
    Nack::new(NackCode::Denied, sentence)
}

pub(super) fn table_in_use(table: Handle) -> Nack {
    let sentence = format!("a service still has the table of pages {table}: ask again");
    Nack::new(NackCode::Starting, sentence)
}

pub(super) fn buffer_ended(why: &str) -> Nack {
    Nack::new(NackCode::WrongState, format!("the buffer ended while it was being given: {why}"))
}

/// `log`: where its service's log is.
pub(super) fn buffer_untaken(function: &str, ms: u64, log: &str) -> Nack {
    Nack::new(
        NackCode::Starting,
        format!(
            "the service of '{function}' has not taken the buffer after {ms} ms, so there is no buffer: ask again in a few seconds. The host's operator finds more in {log} under the manager's root"
        ),
    )
}

pub(super) fn buffer_untold(function: &str, ms: u64) -> Nack {
    Nack::new(
        NackCode::Starting,
        format!(
            "the service of '{function}' could not be told of the buffer for {ms} ms, as the host has no room for descriptors on their way, so there is no buffer: ask again in a few seconds. The host's operator finds more in the manager's log"
        ),
    )
}

pub(super) fn buffer_align(align: u64) -> Nack {
    Nack::new(
        NackCode::BeyondLimit,
        format!(
            "a buffer cannot be aligned to {align} bytes: ask for a power of two from {PAGE} to {BUFFER_ALIGN_MAX}"
        ),
    )
}

pub(super) fn buffer_bytes(bytes: u64) -> Nack {
    Nack::new(
        NackCode::BeyondLimit,
        format!("a buffer of {bytes} bytes is not possible: ask for 1 to {WINDOW_BYTES_MAX}"),
    )
}

pub(super) fn many_buffers(most: usize) -> Nack {
    Nack::new(
        NackCode::OverQuota,
        format!("this session has {most} buffers, as many as one may have: give one back"),
    )
}

pub(super) fn many_buffers_of(client: &Client, has: u32, most: u32) -> Nack {
    Nack::new(
        NackCode::OverQuota,
        format!(
            "client {} has {has} buffers, those that are being given back included; it may have {most}: give one back, or ask for fewer and larger ones",
            client.name
        ),
    )
}

pub(super) fn many_buffers_of_all(there: usize, most: usize) -> Nack {
    Nack::new(
        NackCode::OverQuota,
        format!(
            "there are {there} buffers of all clients, and may be {most}: try again when others have given some back"
        ),
    )
}

/// Why a window has no room for a buffer.
pub(super) fn no_buffer_room(
    bytes: u64,
    align: u64,
    contiguous: bool,
    w: &Window,
    now: u64,
) -> Nack {
    let page = w.memories().map(|(_, m)| m.page).max().unwrap_or(PAGE as u64);
    if contiguous && bytes > page {
        return Nack::new(
            NackCode::BeyondLimit,
            format!(
                "{bytes} contiguous bytes are more than a page of the window's memory, which has {page}: ask for less, or without the flag; the host's operator can give the VM memory of huge pages (a window on hugetlbfs has pages of 2 MiB)"
            ),
        );
    }
    if w.memories().any(|(_, m)| m.is_shut(now)) {
        return window_shut();
    }
    let free: u64 = w.memories().map(|(_, m)| m.heap.free_bytes()).sum();
    let longest = w.memories().map(|(_, m)| m.heap.longest()).max().unwrap_or(0);
    Nack::new(
        NackCode::NoCapacity,
        format!(
            "the window has no room for a buffer of {bytes} bytes at a multiple of {align} ({free} free, {longest} in one piece): give another buffer or a grant back, or give the client a larger window"
        ),
    )
}

pub(super) fn client_removed() -> Nack {
    Nack::new(NackCode::Denied, "this window's client was removed")
}

pub(super) fn another_windows_session() -> Nack {
    Nack::new(NackCode::BadHandle, "this session is not of this window")
}

pub(super) fn no_session(session: Handle) -> Nack {
    Nack::new(NackCode::BadHandle, format!("there is no session {session}: say hello first"))
}

pub(super) fn session_ended(session: Handle, why: &str) -> Nack {
    let sentence = format!("session {session} has ended ({why}): connect again");
    Nack::new(NackCode::Stale, sentence)
}

pub(super) fn another_sessions_grant(grant: Handle) -> Nack {
    Nack::new(NackCode::BadHandle, format!("grant {grant} is not this session's"))
}

pub(super) fn no_grant(grant: Handle) -> Nack {
    Nack::new(NackCode::BadHandle, format!("there is no grant {grant}: negotiate first"))
}

pub(super) fn grant_released(grant: Handle) -> Nack {
    Nack::new(NackCode::Stale, format!("grant {grant} was released: negotiate again"))
}

pub(super) fn protocol(min: u16, max: u16) -> Nack {
    Nack::new(NackCode::WrongProtocol, no_common((min, max)))
}

pub(super) fn no_line() -> Nack {
    Nack::new(
        NackCode::NoCapacity,
        format!("this window has {SESSIONS} apps already: wait for one to end"),
    )
}

/// `near`: what may have been meant.
pub(super) fn no_function(client: &Client, name: &str, near: &str) -> Nack {
    Nack::new(
        NackCode::UnknownFunction,
        format!(
            "no function '{name}' is offered to client {}{near}: `vfun list` shows those that are",
            client.name
        ),
    )
}

pub(super) fn drained(what: Drained<'_>) -> Nack {
    let sentence = match what {
        Drained::All => "the host is finishing what is in flight and grants nothing new".to_owned(),
        Drained::Client(c) => format!("client {c} is drained: nothing new is granted to it"),
        Drained::Function(f) => format!("'{f}' is drained: nothing new is granted of it"),
    };
    Nack::new(NackCode::Draining, sentence)
}

pub(super) fn version(f: &Function, wanted: FunctionVersion) -> Nack {
    Nack::new(
        NackCode::WrongVersion,
        format!(
            "'{}' is offered in version {}, which does not serve a caller of {wanted}",
            f.name, f.version
        ),
    )
}

pub(super) fn signature(f: &Function, callers: u64) -> Nack {
    let (name, ours) = (&f.name, f.fingerprint());
    let what = match &f.signature {
        None => "has no signature here".to_owned(),
        Some(s) => format!("is {s} ({ours:016x})"),
    };
    Nack::new(
        NackCode::WrongSignature,
        format!(
            "the caller was made for another signature of '{name}' ({callers:016x}): make its stubs again with `vfun bindgen {name}`. The function {what}"
        ),
    )
}

pub(super) fn kind(f: &Function, kind: ChannelKind) -> Nack {
    let fits: Vec<&str> =
        ChannelKind::ALL.iter().filter(|k| f.serves(**k)).map(|k| k.text()).collect();
    let sentence = format!("'{}' has channels of kind {}, not {kind}", f.name, fits.join(" and "));
    Nack::new(NackCode::Unsupported, sentence)
}

pub(super) fn kind_without_feature(kind: ChannelKind) -> Nack {
    let sentence = format!(
        "a channel of kind {kind} needs a feature that the app's side does not offer: update its VirtFun"
    );
    Nack::new(NackCode::Unsupported, sentence)
}

pub(super) fn shape(shape: &Shape) -> Nack {
    let limits = match shape.kind {
        ChannelKind::Calls | ChannelKind::Floor => format!(
            "depth is a power of two up to {DEPTH_MAX}, cells have at most {CELL_BYTES_MAX} bytes"
        ),
        ChannelKind::Queues => {
            format!("a side has {QUEUES_PAGES_MIN} to {QUEUES_PAGES_MAX} pages")
        }
        ChannelKind::Packets => {
            format!("a ring has a power of two from {PACKETS_RING_MIN} to {PACKETS_RING_MAX} bytes")
        }
    };
    let sentence = format!("a channel of {} is not possible: {limits}", measures(shape));
    Nack::new(NackCode::BeyondLimit, sentence)
}

/// How large a channel is, for people.
fn measures(shape: &Shape) -> String {
    match shape.kind {
        ChannelKind::Calls | ChannelKind::Floor => {
            let cells = shape.cells();
            format!("{} cells with {} bytes each", cells.depth, cells.cell_bytes)
        }
        ChannelKind::Queues => QueuesShape::read(&shape.shape).map_or(String::new(), |s| {
            format!("{} pages for the program and {} for the host", s.program_pages, s.host_pages)
        }),
        ChannelKind::Packets => PacketsShape::read(&shape.shape)
            .map_or(String::new(), |s| format!("two rings of {} bytes", s.ring_bytes)),
    }
}

pub(super) fn cells_too_small(f: &Function, cell_bytes: u32, least: u32) -> Nack {
    Nack::new(
        NackCode::BeyondLimit,
        format!(
            "cells of {cell_bytes} bytes cannot hold a call of '{}', whose arguments or results have at least {least} bytes: ask for cells of as many",
            f.name
        ),
    )
}

pub(super) fn larger_than_window(shape: &Shape, w: &Window) -> Nack {
    let (bytes, total) = (shape.bytes(), w.control.heap.total());
    let (takes, less) = match shape.kind {
        ChannelKind::Calls | ChannelKind::Floor => (
            format!(
                "a channel of {} cells with {} bytes of arguments and as many of results",
                shape.cells().depth,
                shape.cells().cell_bytes
            ),
            "send less in a call, ask for fewer cells",
        ),
        ChannelKind::Queues => (format!("a channel of {}", measures(shape)), "ask for fewer pages"),
        ChannelKind::Packets => {
            (format!("a port of {}", measures(shape)), "give the port smaller rings")
        }
    };
    let sentence = format!(
        "{takes} takes {bytes} bytes; the window has {total} for channels: {less}, or give the client a larger window"
    );
    Nack::new(NackCode::NoCapacity, sentence)
}

pub(super) fn only_hardware(f: &Function) -> Nack {
    Nack::new(NackCode::NoCapacity, format!("'{}' runs only on hardware", f.name))
}

pub(super) fn no_hardware(f: &Function) -> Nack {
    let sentence = format!("'{}' has no hardware behind it on this host.", f.name);
    Nack::new(NackCode::NoHardware, sentence)
}

pub(super) fn hardware_busy(f: &Function, hw: &Hardware) -> Nack {
    Nack::new(
        NackCode::DeviceBusy,
        format!("all {} instances of '{}' on {} are taken.", hw.instances, f.name, hw.location),
    )
}

pub(super) fn lost_before_told(grant: Handle, g: &Grant) -> Nack {
    Nack::new(
        NackCode::ServiceFailed,
        format!(
            "the service of '{}' was lost before anybody was told that it serves grant {grant}: release that, and negotiate again",
            g.subject.function
        ),
    )
}

pub(super) fn already(grant: Handle, g: &Grant) -> Nack {
    let sentence = format!("grant {grant} is {} already", g.state().text());
    Nack::new(NackCode::WrongState, sentence)
}

pub(super) fn ended_meanwhile(why: &str) -> Nack {
    Nack::new(NackCode::WrongState, format!("the grant ended while it was being activated: {why}"))
}

pub(super) fn another_module(g: &Grant) -> Nack {
    Nack::new(
        NackCode::UnknownFunction,
        format!(
            "the module of '{}' was replaced or removed since it was granted: negotiate it again",
            g.subject.function
        ),
    )
}

/// The one right that there is: over the VM's network.
pub(super) fn no_right(function: &str) -> Nack {
    Nack::new(
        NackCode::Denied,
        format!(
            "only a program with CAP_NET_ADMIN in the VM's own network namespace opens the function '{function}', through the kernel module"
        ),
    )
}

/// `app`: who has it, by its own word.
pub(super) fn had_by_other(function: &str, app: &str) -> Nack {
    Nack::new(
        NackCode::OverQuota,
        format!(
            "one app of a VM at a time has the function '{function}', and the app '{app}' of this VM has it: end that one first"
        ),
    )
}

/// The module asks for what the table of ports says, which may have changed meanwhile.
pub(super) fn no_such_port(client: &str, number: u16) -> Nack {
    let sentence = format!("the manifest of client {client} gives this VM no port {number}");
    Nack::new(NackCode::UnknownFunction, sentence)
}

pub(super) fn other_ring(port: &Port) -> Nack {
    let Port { name, ring_bytes, .. } = port;
    Nack::new(NackCode::BeyondLimit, format!("the rings of port {name} have {ring_bytes} bytes"))
}

pub(super) fn port_taken(port: &Port) -> Nack {
    let sentence = format!("port {} of this VM is in use: end that use first", port.name);
    Nack::new(NackCode::OverQuota, sentence)
}

pub(super) fn many_starts(g: &Grant, waiting: usize) -> Nack {
    Nack::new(
        NackCode::NoCapacity,
        format!(
            "{waiting} services of client {} wait for their start already: try again in a moment",
            g.holder.client
        ),
    )
}

pub(super) fn window_shut() -> Nack {
    Nack::new(
        NackCode::NoCapacity,
        "very many channels of the window were taken away a moment ago: try again in a second",
    )
}

pub(super) fn window_full(shape: &Shape, w: &Window) -> Nack {
    let (bytes, pieces) = (shape.bytes(), shape.wants().map_or(0, |w| w.len()));
    let (free, longest) = (w.control.heap.free_bytes(), w.control.heap.longest());
    Nack::new(
        NackCode::NoCapacity,
        format!(
            "the window has no room for {bytes} bytes in {pieces} pieces ({free} free, {longest} in one piece): release another grant, or give the client a larger window"
        ),
    )
}

pub(super) fn crashed_too_often(function: &str, ms: u64) -> Nack {
    Nack::new(
        NackCode::ServiceFailed,
        format!("the service of '{function}' crashed too often: it is tried again in {ms} ms"),
    )
}

/// `at`: what it waits for; `log`: where its service's log is.
pub(super) fn still_starting(function: &str, at: &str, ms: u64, log: &str) -> Nack {
    Nack::new(
        NackCode::Starting,
        format!(
            "'{function}': {at} after {ms} ms, and goes on: ask again in a few seconds. The host's operator finds more in {log} under the manager's root"
        ),
    )
}

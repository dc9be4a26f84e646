//! A connection's first two frames: for whom it asks, and who it is.

use crate::outcome;
use std::path::Path;
use std::time::Duration;
use vfun::{ConnectOptions, Endpoint, Session, WaitPolicy};
use vfun_wire::attach::{ATTACH_MAGIC, Attach};
use vfun_wire::limits::NAME_BYTES;
use vfun_wire::message::{Hello, HelloAck};
use vfun_wire::version::{Features, VERSION, VERSION_MIN, agree, no_common};
use vfun_wire::{Nack, NackCode, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// For whom a caller asks.
pub struct Asked {
    client: Option<String>,
    credential: Vec<u8>,
}

fn malformed(sentence: impl Into<String>) -> Nack {
    Nack::new(NackCode::Malformed, sentence)
}

/// Reads the attach frame. Whether the caller may is decided with its hello,
/// by the manager: until then it holds nothing on this host.
pub fn attach(body: &[u8]) -> Result<Asked, Nack> {
    let a = Attach::read_from_bytes(body).map_err(|_| {
        malformed(format!("an attach has {} bytes, this one {}", size_of::<Attach>(), body.len()))
    })?;
    if a.magic.get() != ATTACH_MAGIC || a.reserved != [0; 5] || a.remote > 1 {
        return Err(malformed("this is not a VirtFun attach request"));
    }
    let client = match a.client == [0; NAME_BYTES] {
        true => None,
        false => Some(
            names::decode(&a.client)
                .map_err(|e| malformed(format!("the client's name: {e}")))?
                .to_owned(),
        ),
    };
    let credential = a
        .credential
        .get(..usize::from(a.credential_len.get()))
        .ok_or_else(|| malformed("the credential is longer than its room"))?;
    Ok(Asked { client, credential: credential.to_vec() })
}

/// Opens the caller's session, and says what to answer.
pub fn hello(asked: &Asked, body: &[u8], socket: &Path) -> Result<(Session, Vec<u8>), Nack> {
    let h = Hello::read_from_bytes(body).map_err(|_| {
        malformed(format!("a hello has {} bytes, this one {}", size_of::<Hello>(), body.len()))
    })?;
    let (min, max) = (h.version_min.get(), h.version_max.get());
    let version = agree((VERSION_MIN, VERSION), (min, max))
        .ok_or_else(|| Nack::new(NackCode::WrongProtocol, no_common((min, max))))?;
    if h.reserved != [0; 6] {
        return Err(malformed("hello's reserved bytes are not zero"));
    }
    let app = names::decode(&h.app).map_err(|e| malformed(format!("the app's name: {e}")))?;
    if h.credential.get(..usize::from(h.credential_len.get())) != Some(&asked.credential[..]) {
        return Err(Nack::new(
            NackCode::BadCredential,
            "hello's credential is not the one of attach: send the same in both",
        ));
    }
    // A network's round trip hides a wake: no caller over it is worth a processor.
    let mut options = ConnectOptions::new(app)
        .endpoint(Endpoint::Host(Some(socket.to_owned())))
        .credential(&asked.credential)
        .wait(WaitPolicy::hybrid().spin_at_most(Duration::from_micros(100)))
        .remote(true);
    if let Some(client) = &asked.client {
        options = options.client(client);
    }
    let session = options.connect().map_err(outcome::of_request)?;
    let i = session.info();
    let ack = HelloAck {
        version: U16::new(version),
        session_line: U16::ZERO,
        client_id: U32::new(i.client_id),
        // The others need shared memory.
        features: U64::new(
            i.features.both(Features::SIGNATURES).both(Features(h.features.get())).0,
        ),
        // A connection has one session, so its frames need not name it.
        session: U64::new(1),
        heartbeat_ms: U32::ZERO,
        app_id: U32::new(i.app_id),
        client: names::encode(&i.client).map_err(|e| malformed(e.to_string()))?,
        reserved: [U64::ZERO; 2],
    };
    Ok((session, ack.as_bytes().to_vec()))
}

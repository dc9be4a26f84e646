//! The bridge's management socket: OpenFlow.

use super::{HANGS, Link, Writer, read_some, silent};
use crate::detect::Event;
use crate::limits::{ANSWER, SILENCE, SILENCE_MAX};
use crate::openflow::{Malformed, Message, Messages, Request};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Reads one connection until it ends.
pub(super) fn run(link: &Link, writer: &Writer) -> io::Result<()> {
    let path = link.places.run.join(format!("{}.mgmt", link.places.bridge));
    let stream = link.connect(&path)?;
    let result = listen(link, writer, stream);
    // Who writes has nobody to write to.
    writer.set(None);
    result
}

fn listen(link: &Link, writer: &Writer, mut stream: UnixStream) -> io::Result<()> {
    stream.write_all(&Request::Hello.bytes())?;
    stream.write_all(&Request::Features.bytes())?;
    let (mut messages, mut bytes) = (Messages::default(), vec![0; 1 << 16]);
    let mut up = false;
    let began = Instant::now();
    let (mut heard, mut asked) = (began, false);
    while !link.ended() {
        if !up && began.elapsed() > ANSWER {
            let why = format!("it did not tell its features in {} s: {HANGS}", ANSWER.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        match read_some(&mut stream, &mut bytes)? {
            Some(n) => {
                messages.push(&bytes[..n]);
                (heard, asked) = (Instant::now(), false);
            }
            None if heard.elapsed() > SILENCE_MAX => {
                return Err(silent());
            }
            None if heard.elapsed() > SILENCE && !asked => {
                asked = true;
                writer.send(&Request::Echo.bytes())?;
            }
            None => {}
        }
        while let Some(message) = messages.take().map_err(wrong)? {
            take(link, writer, &stream, &mut up, message)?;
        }
    }
    Ok(())
}

fn take(
    link: &Link,
    writer: &Writer,
    stream: &UnixStream,
    up: &mut bool,
    message: Message,
) -> io::Result<()> {
    match message {
        // The version is agreed: from here on the judge asks.
        Message::Features if !*up => {
            writer.set(Some(stream.try_clone()?));
            *up = true;
            link.tell(Event::Connected(link.peer))
        }
        Message::Error { class: 0, .. } if !*up => Err(wrong(Malformed::NotSpoken)),
        _ if !*up => Ok(()),
        Message::EchoRequest { xid, data } => {
            writer.send(&Request::EchoReply { xid, data }.bytes())
        }
        other => link.tell(Event::OpenFlow(other)),
    }
}

fn wrong(malformed: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, malformed)
}

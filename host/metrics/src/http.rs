//! Just enough HTTP for a scraper: one request a connection, read with
//! `httparse`, answered, closed.

use crate::limits::{CONNECTION_TIME, CONNECTIONS_MAX, HEAD_BYTES, HEADERS_MAX};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's status code.
    pub status: u16,
    /// Type of the body.
    pub content_type: &'static str,
    /// The text that follows the head.
    pub body: String,
}

impl Answer {
    /// A line of plain text.
    pub fn plain(status: u16, body: &str) -> Self {
        Answer { status, content_type: "text/plain; charset=utf-8", body: format!("{body}\n") }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        _ => "Internal Server Error",
    }
}

/// Serves for ever; `get` answers a path. Each connection has a thread.
pub fn serve(listener: &TcpListener, get: impl Fn(&str) -> Answer + Send + Sync + 'static) {
    let get = Arc::new(get);
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors or the like: it will not be better at once.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue; // dropped: the caller sees the hang-up
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (get, place) = (get.clone(), Place(open.clone()));
        let spawned = std::thread::Builder::new().spawn(move || {
            let _place = place;
            let _ = connection(stream, &*get);
        });
        if let Err(e) = spawned {
            tracing::warn!("a connection was refused: {e}");
        }
    }
}

/// One of the connections there may be; given back however its thread ends.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn connection(mut stream: TcpStream, get: &dyn Fn(&str) -> Answer) -> io::Result<()> {
    let until = Instant::now() + CONNECTION_TIME;
    let (answer, body) = match head(&mut stream, until)? {
        Ok(request) => match request.method.as_str() {
            "GET" => (get(&request.path), true),
            "HEAD" => (get(&request.path), false),
            _ => (Answer::plain(405, "only GET and HEAD are answered"), true),
        },
        Err(answer) => (answer, true),
    };
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
    stream.set_write_timeout(Some(left))?;
    let mut text = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status,
        reason(answer.status),
        answer.content_type,
        answer.body.len()
    );
    if body {
        text.push_str(&answer.body);
    }
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

struct Request {
    method: String,
    path: String,
}

/// Reads a request's head, or the answer to one that is none.
fn head(stream: &mut TcpStream, until: Instant) -> io::Result<Result<Request, Answer>> {
    let mut bytes = Vec::with_capacity(1024);
    let mut room = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err(Answer::plain(408, "the request took too long")));
        }
        stream.set_read_timeout(Some(left))?;
        let n = match stream.read(&mut room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Err(Answer::plain(408, "the request took too long")));
            }
            Err(e) => return Err(e),
        };
        bytes.extend_from_slice(&room[..n]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                let part = |p: Option<&str>| p.unwrap_or_default().to_owned();
                let path = part(request.path);
                let path = path.split('?').next().unwrap_or_default().to_owned();
                return Ok(Ok(Request { method: part(request.method), path }));
            }
            Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES => {
                return Ok(Err(Answer::plain(431, "the request's head is too long")));
            }
            Ok(httparse::Status::Partial) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Ok(Err(Answer::plain(431, "the request has too many headers")));
            }
            Err(e) => return Ok(Err(Answer::plain(400, &format!("this is not HTTP: {e}")))),
        }
    }
}

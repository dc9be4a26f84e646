//! The admin socket: one JSON request a line, one JSON answer a line. The main loop answers;
//! it waits for nothing, so a request never keeps others waiting.

use crate::ask::{Answer, Ask};
use crate::heard::{Heard, Hearing};
use crate::limits::{ADMIN_ANSWER, ADMIN_CONNECTIONS, ADMIN_LINE_BYTES, ADMIN_SILENCE};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Listens here, in threads.
pub fn listen(path: &Path, hearing: Hearing) -> Result<(), String> {
    let failed = |e: io::Error| format!("cannot listen on {}: {e}", path.display());
    // That of a process that ended; its folder is locked, so that none runs.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let accept = move || {
        // Each connection holds one; a thread ends its hold when it ends.
        let places = Arc::new(());
        loop {
            match listener.accept() {
                Ok((stream, _)) => begin(stream, &places, &hearing),
                // Too many open files: they become fewer.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("admin".into()).spawn(accept).map_err(failed)?;
    Ok(())
}

fn begin(mut stream: UnixStream, places: &Arc<()>, hearing: &Hearing) {
    let bounded = stream
        .set_read_timeout(Some(ADMIN_SILENCE))
        .and_then(|()| stream.set_write_timeout(Some(ADMIN_SILENCE)));
    if bounded.is_err() {
        return;
    }
    if Arc::strong_count(places) > ADMIN_CONNECTIONS {
        let sentence =
            format!("{ADMIN_CONNECTIONS} programs ask vfun-nics already: ask again in a moment");
        let _ = say(&mut stream, &Answer::Refused { sentence });
        return;
    }
    let (place, hearing) = (places.clone(), hearing.clone());
    let serve = move || {
        serve(stream, &hearing);
        drop(place);
    };
    // Without a thread the connection closes.
    let _ = std::thread::Builder::new().name("asked".into()).spawn(serve);
}

fn serve(stream: UnixStream, hearing: &Hearing) {
    let Ok(mut to) = stream.try_clone() else { return };
    let mut from = BufReader::new(stream);
    loop {
        let mut line = vec![];
        let limit = ADMIN_LINE_BYTES as u64 + 1;
        match from.by_ref().take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() != Some(&b'\n') => {
                if line.len() > ADMIN_LINE_BYTES {
                    let sentence = format!("a request has at most {ADMIN_LINE_BYTES} bytes");
                    let _ = say(&mut to, &Answer::Refused { sentence });
                }
                return;
            }
            Ok(_) => {}
        }
        let answer = match serde_json::from_slice::<Ask>(&line) {
            Ok(ask) => answer(ask, hearing),
            Err(e) => Answer::Refused { sentence: format!("not a request of vfun-nics: {e}") },
        };
        if say(&mut to, &answer).is_err() {
            return;
        }
    }
}

fn answer(ask: Ask, hearing: &Hearing) -> Answer {
    let (sender, receiver) = sync_channel(1);
    if hearing.tell(Heard::Asked(ask, sender))
        && let Ok(answer) = receiver.recv_timeout(ADMIN_ANSWER)
    {
        return answer;
    }
    let s = ADMIN_ANSWER.as_secs();
    Answer::Refused { sentence: format!("vfun-nics did not answer within {s} s: see its log") }
}

fn say(to: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    to.write_all(&line)
}

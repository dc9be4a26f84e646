//! Control sockets that answer as QEMU's do, as far as `vfun-nics` asks while no VF moves.

use crate::Result;
use crate::error::Doing;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

fn serve(stream: &UnixStream) -> std::io::Result<()> {
    let mut to = stream;
    let greeting = json!({ "QMP": { "version": {}, "capabilities": [] } });
    writeln!(to, "{greeting}")?;
    for line in BufReader::new(stream).lines() {
        let asked: Value = serde_json::from_str(&line?).map_err(std::io::Error::from)?;
        let result = match asked["execute"].as_str() {
            Some("qom-list") => json!([]),
            _ => json!({}),
        };
        writeln!(to, "{}", json!({ "return": result, "id": asked["id"] }))?;
    }
    Ok(())
}

/// Listens there, in threads that end with this process.
pub fn listen(path: &Path) -> Result<()> {
    let listener =
        UnixListener::bind(path).doing(|| format!("cannot listen on {}", path.display()))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream));
        }
    });
    Ok(())
}

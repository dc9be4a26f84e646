//! A program that stays in the guest and does one job after the other: what it is told, and what it
//! says, are lines of JSON over the guest's network. To start a program takes an emulated processor
//! longer than a whole slice.

use crate::error::Doing;
use crate::lab::{GATEWAY, LabGuest};
use crate::measure::{Job, Outcome};
use crate::{BenchError, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the program may take to come, and a job beyond its work.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it has come.
const LOOK: Duration = Duration::from_millis(2);
/// How long it may stay: longer than any bench runs.
const STAY: Duration = Duration::from_secs(5 * 3600);

/// Both ends of the line use it alike.
struct Line {
    from: BufReader<TcpStream>,
    to: TcpStream,
}

impl Line {
    fn over(stream: TcpStream) -> Result<Self> {
        let doing = || "cannot talk with the program in the guest".to_owned();
        stream.set_nodelay(true).doing(doing)?;
        let from = BufReader::new(stream.try_clone().doing(doing)?);
        Ok(Line { from, to: stream })
    }

    fn say<T: serde::Serialize>(&mut self, what: &T) -> Result<()> {
        let doing = || "cannot talk with the program in the guest".to_owned();
        let mut text =
            serde_json::to_string(what).map_err(|e| BenchError::Inside(e.to_string()))?;
        text.push('\n');
        self.to.write_all(text.as_bytes()).doing(doing)
    }

    /// What the other end said; none if it has hung up.
    fn hear<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut text = String::new();
        let doing = || "no word came from the program in the guest".to_owned();
        if self.from.read_line(&mut text).doing(doing)? == 0 {
            return Ok(None);
        }
        let heard = serde_json::from_str(&text);
        heard.map(Some).map_err(|e| BenchError::Inside(format!("'{}': {e}", text.trim())))
    }
}

/// The host's end of what sends jobs to a process elsewhere.
pub struct Errand {
    line: Line,
    program: Option<JoinHandle<Result<Outcome>>>,
}

impl Errand {
    /// Starts the program and waits until it has called back.
    ///
    /// # Errors
    /// It did not come, or what it said at its end.
    pub fn start(guest: &Arc<LabGuest>, net: bool) -> Result<Self> {
        let doing = || "cannot listen for the program in the guest".to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").doing(doing)?;
        listener.set_nonblocking(true).doing(doing)?;
        let port = listener.local_addr().doing(doing)?.port();
        let job = Job::Serve { address: format!("{GATEWAY}:{port}") };
        let there = guest.clone();
        let program = std::thread::spawn(move || there.run(net, &job, STAY / 20));
        let start = Instant::now();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if program.is_finished() => return Err(ended(program)),
                Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(LOOK),
                Err(e) => return Err(e).doing(|| "the program in the guest did not come".into()),
            }
        };
        stream.set_nonblocking(false).doing(doing)?;
        Ok(Errand { line: Line::over(stream)?, program: Some(program) })
    }

    /// Sends one job and waits for its outcome.
    pub fn run(&mut self, job: &Job, work: Duration) -> Result<Outcome> {
        let doing = || "cannot wait for the program in the guest".to_owned();
        self.line.to.set_read_timeout(Some(PATIENCE + 20 * work)).doing(doing)?;
        self.line.say(job)?;
        match self.line.hear::<std::result::Result<Outcome, String>>()? {
            Some(outcome) => outcome.map_err(BenchError::Inside),
            None => Err(self.program.take().map_or_else(gone, ended)),
        }
    }
}

fn gone() -> BenchError {
    BenchError::Inside("its program has ended".into())
}

/// What a program said that has ended before it should.
fn ended(program: JoinHandle<Result<Outcome>>) -> BenchError {
    program.join().ok().and_then(Result::err).unwrap_or_else(gone)
}

impl Drop for Errand {
    fn drop(&mut self) {
        // It hears the end of the line and ends.
        let _ = self.line.to.shutdown(std::net::Shutdown::Both);
        let (start, program) = (Instant::now(), self.program.take());
        // A guest that hangs is left to its keeper.
        while program.as_ref().is_some_and(|p| !p.is_finished()) && start.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }
}

/// The guest's end: does what it is told until the host hangs up.
///
/// # Errors
/// The line broke. A job that fails is told to the host, and the next one done.
pub fn serve(address: &str, mut run: impl FnMut(&Job) -> Result<Outcome>) -> Result<Outcome> {
    let stream = TcpStream::connect(address).doing(|| format!("cannot connect to {address}"))?;
    let mut line = Line::over(stream)?;
    while let Ok(Some(job)) = line.hear::<Job>() {
        line.say(&run(&job).map_err(|e| e.to_string()))?;
    }
    Ok(Outcome::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_go_there_and_outcomes_and_failures_come_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = std::thread::spawn(move || {
            serve(&address, |job| match job {
                Job::Clock => Ok(Outcome::NsPerCycle(0.5)),
                _ => Err(BenchError::Inside("not this one".into())),
            })
        });
        let line = Line::over(listener.accept().unwrap().0).unwrap();
        let mut errand = Errand { line, program: Some(other) };
        let work = Duration::ZERO;
        assert_eq!(errand.run(&Job::Clock, work).unwrap(), Outcome::NsPerCycle(0.5));
        let failed = errand.run(&Job::Hold { millis: 1 }, work).unwrap_err().to_string();
        assert!(failed.contains("not this one"), "{failed}");
        assert_eq!(errand.run(&Job::Clock, work).unwrap(), Outcome::NsPerCycle(0.5));
        errand.line.to.shutdown(std::net::Shutdown::Write).unwrap();
        let gone = errand.run(&Job::Clock, work).unwrap_err().to_string();
        assert!(!gone.is_empty());
        drop(errand);
    }
}

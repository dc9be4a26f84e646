//! Calls that take longer, waited for by one thread per function.

use crate::limits::LATE_WAIT;
use crate::output::{Output, push_call};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use vfun::{Error, OwnedPending};

/// A call under way and the frame that asked for it.
pub struct Call {
    pub id: u64,
    pub pending: OwnedPending,
}

/// The thread. It ends when this is dropped and its calls are answered, or
/// when the connection ends. Its calls are no more than the channel has cells.
pub struct Late(Option<Sender<Call>>);

impl Late {
    pub fn start(output: Arc<Output>) -> Self {
        let (calls, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("vfun-late".into())
            .spawn(move || wait(&inbox, &output));
        match thread {
            Ok(_) => Late(Some(calls)),
            Err(e) => {
                tracing::warn!("no thread for calls that take long: {e}");
                Late(None)
            }
        }
    }

    pub fn push(&self, call: Call, output: &Output) {
        let left = match &self.0 {
            Some(calls) => calls.send(call).err().map(|e| e.0),
            None => Some(call),
        };
        if let Some(call) = left {
            let mut out = Vec::new();
            push_call(&mut out, call.id, |_| Err(Error::ServiceLost));
            output.send(&out);
        }
    }
}

fn wait(inbox: &Receiver<Call>, output: &Output) {
    let mut calls: VecDeque<Call> = VecDeque::new();
    let mut slice = LATE_WAIT.0;
    let mut out = Vec::new();
    while !output.ended() {
        if calls.is_empty() {
            match inbox.recv() {
                Ok(call) => calls.push_back(call),
                Err(_) => return,
            }
            slice = LATE_WAIT.0;
        }
        for call in inbox.try_iter() {
            calls.push_back(call);
            slice = LATE_WAIT.0;
        }
        calls[0].pending.ready_within(slice);
        let mut i = 0;
        while i < calls.len() {
            if !calls[i].pending.poll() {
                i += 1;
            } else if let Some(done) = calls.remove(i) {
                push_call(&mut out, done.id, |out| done.pending.append_to(out));
            }
        }
        slice = if out.is_empty() { (slice * 2).min(LATE_WAIT.1) } else { LATE_WAIT.0 };
        output.send(&out);
        out.clear();
        out.shrink_to(crate::limits::FETCH);
    }
}

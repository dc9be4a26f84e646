//! Calls whose bytes do not stay where they were.

use crate::failure::Failure;
use crate::lane::CELL_PAUSE;
use crate::link::{Answer, Link, copy};
use vfun::{Error, Function};
use vfun_remoting::{AnswerHead, CallHead, Reader, Wiped, Writer, wipe};

/// What a program hands over by pointers, as it goes over. Wiped after use.
pub fn packed(
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Failure>,
) -> Result<Wiped, Failure> {
    let mut bytes = Wiped::default();
    write(&mut Writer::append(&mut bytes))?;
    Ok(bytes)
}

/// A call in a cell of its own, and its answer. The cell's arguments are wiped before others get it.
fn call(function: &Function, call: &[u8], answer: &mut Vec<u8>) -> Result<(), Error> {
    let mut cell = loop {
        match function.keep_cell() {
            Err(Error::Full { .. }) => std::thread::sleep(CELL_PAUSE),
            kept => break kept?,
        }
    };
    let room = cell.bytes_mut().len();
    let to = cell.bytes_mut().get_mut(..call.len());
    to.ok_or(Error::ArgumentsTooLong { len: call.len(), max: room })?.copy_from_slice(call);
    let posted = cell.post(call.len());
    let done = posted.and_then(|()| cell.finish(|results| copy(results, answer)));
    // Also where the service died: it takes the call from here no more.
    wipe(&mut cell.bytes_mut()[..call.len()]);
    done?
}

impl Link {
    /// As [`Link::call`]. The call's bytes are wiped in the window and here, and the answer's here;
    /// in the window the answer stays until its cell is used again.
    pub fn call_secret<T>(
        &self,
        number: u16,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Answer<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.clear()?;
        let room = self.function.info().max_args();
        let (mut bytes, mut answer) = (Wiped::with_room(room), Wiped::with_room(room));
        let mut writer = Writer::call(&mut bytes, CallHead { sequence: 0, call: number });
        write(&mut writer);
        let made = call(&self.function, &bytes, &mut answer).map_err(|e| Failure::from(&e));
        let made = made.and_then(|()| {
            let (head, body) = AnswerHead::split(&answer)?;
            match head.refusal {
                Some(refusal) => Err(self.refused(refusal)),
                None => read(&mut Reader::new(body)),
            }
        });
        self.crossed();
        self.noted(made)
    }
}

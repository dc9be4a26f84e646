//! Compare and swap, fetch and add: on the memory's own words, by the processor's own
//! instructions, so that they are atomic for all queue pairs and for programs too.

use crate::access::{Side, View};
use crate::engine::Engine;
use crate::payload::Payload;
use crate::send::{Fault, INVALID, NO_ACCESS};
use vfun_queue::Memory;
use vfun_verbs::flags::access;
use vfun_verbs::{SendOpcode, Status};

impl<M: Memory, P: Payload> Engine<M, P> {
    /// Does it, and brings what was there before.
    pub(crate) fn atomic(&mut self, at: u32, peer: u32) -> Result<(), Fault> {
        let entry = &self.qps[at].current.entry;
        let (head, operands) = (entry.head, entry.operands());
        let mine = self.qps[at].own_view();
        if self.regions.piece(&mine, 0).is_none() {
            return Err(Fault::Mine(Status::LocalProtection));
        }
        if !head.addr.is_multiple_of(8) {
            return Err(INVALID);
        }
        let side = Side::Remote { addr: head.addr, len: 8, key: head.key };
        let remote = View { side, pd: self.qps[peer].fixed.pd, access: access::REMOTE_ATOMIC };
        let word = self.regions.piece(&remote, 0).ok_or(NO_ACCESS)?;
        let window = &self.regions.windows[word.window];
        let before = match head.op {
            SendOpcode::CompareSwap => {
                window.compare_swap(word.at, operands.compare_add, operands.swap)
            }
            _ => window.fetch_add(word.at, operands.compare_add),
        };
        let before = before.map_err(|_| NO_ACCESS)?;
        let put = self.regions.put(&before.to_le_bytes(), &mine, 0);
        put.map_err(|_| Fault::Mine(Status::LocalProtection))
    }
}

//! The ring of a port as a lane: frames of one length.

use super::lanes::{In, Lane, Out, sides};
use crate::{BenchError, Result};
use vfun_packet::{NotSent, Receiver, Sender, WindowMemory, layout};

/// Bytes of the ring: what a port has if nobody says.
const RING_BYTES: u64 = 2 << 20;

/// The ring of `vfun-packet`, with frames of `N` bytes.
pub struct Packets<const N: usize>;

/// Its end that sends: a batch is a burst.
pub struct PacketOut<const N: usize>(Sender<WindowMemory>);

/// Its end that receives.
pub struct PacketIn<const N: usize>(Receiver<WindowMemory>);

impl<const N: usize> Lane for Packets<N> {
    type Item = [u8; N];
    type Out = PacketOut<N>;
    type In = PacketIn<N>;

    fn open() -> Result<(PacketOut<N>, PacketIn<N>)> {
        let ring = vfun_packet::Ring::new(RING_BYTES);
        let ring = ring.map_err(|e| BenchError::Driver(e.to_string()))?;
        // The receiver's own side is only its header here: nothing goes back.
        let (s, r) = sides(ring.side_bytes(), layout::RING_OFF as u64)?;
        let out = Sender::new(WindowMemory::of_sides(s.clone(), r.reader()), ring);
        let inn = Receiver::new(WindowMemory::of_sides(r, s.reader()), ring);
        Ok((PacketOut(out), PacketIn(inn)))
    }

    fn blank() -> [u8; N] {
        [0; N]
    }
}

impl<const N: usize> Out for PacketOut<N> {
    type Item = [u8; N];
    #[inline]
    fn put(&mut self, batch: &[[u8; N]]) -> Result<usize> {
        let mut count = 0;
        for frame in batch {
            match self.0.put(frame) {
                Ok(()) => count += 1,
                Err(NotSent::Full) => break,
                Err(NotSent::Length) => {
                    return Err(BenchError::Driver(format!("no frame has {N} bytes")));
                }
            }
        }
        self.0.publish();
        Ok(count)
    }
}

impl<const N: usize> In for PacketIn<N> {
    type Item = [u8; N];
    #[inline]
    fn take(&mut self, to: &mut [[u8; N]]) -> Result<usize> {
        let mut count = 0;
        for frame in to {
            match self.0.next(frame) {
                Some(bytes) if bytes == N => count += 1,
                Some(bytes) => {
                    let what = format!("a frame of {N} bytes came with {bytes}");
                    return Err(BenchError::Driver(what));
                }
                None => break,
            }
        }
        if count > 0 {
            self.0.take();
        }
        Ok(count)
    }
}

//! The function `ports`, with its real thread: a guest's window in a memory file, and sockets
//! that keep the borders of frames in the place of tap devices. One test has a real device.

mod both_ways;
mod common;
mod counted;
mod device;
mod hostile;
mod sleeping;
mod taking_up;

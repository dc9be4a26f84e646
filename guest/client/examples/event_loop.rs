//! A program with an event loop of its own: it sleeps on one epoll, for numbers on its
//! standard input (a pipe or a terminal) and for the calls that it makes of them.
//! `seq 20 | cargo run --release -p vfun --example event_loop -- [ENDPOINT]`

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::BufRead;
use vfun::{ConnectOptions, Pending, Waiter};

/// Marks of the events that wake the loop: an answer, or input.
const CALLS: u64 = 0;
const INPUT: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| "auto".into()).parse()?;
    let session = ConnectOptions::new("event-loop").endpoint(endpoint).connect()?;
    let factorial = session.function("factorial")?;
    let cells = usize::from(factorial.info().depth);

    let (mut input, mut waiter) = (std::io::stdin().lock(), Waiter::new()?);
    let sleeper = epoll::create(CreateFlags::CLOEXEC)?;
    // Nobody reads the waiter's descriptor: it is readable only while it is armed.
    epoll::add(&sleeper, &waiter, EventData::new_u64(CALLS), EventFlags::IN)?;
    epoll::add(&sleeper, &input, EventData::new_u64(INPUT), EventFlags::IN)?;

    let mut calls: Vec<(u64, Pending<'_>)> = vec![];
    let (mut text, mut numbers, mut open) = (Vec::<u8>::new(), VecDeque::<u64>::new(), true);
    while open || !calls.is_empty() || !numbers.is_empty() {
        while calls.len() < cells
            && let Some(n) = numbers.pop_front()
        {
            let args = [n, 1].map(u64::to_le_bytes); // the number, and how often
            calls.push((n, factorial.submit(args.as_flattened())?));
        }
        // Which calls are answered. If none is, the descriptor tells of the next.
        let answered = waiter.arm(calls.iter().map(|(_, call)| call))?;
        for i in answered.iter().rev() {
            let (n, call) = calls.swap_remove(*i);
            match call.wait() {
                Ok(bytes) => {
                    println!("{n}! = {}", u64::from_le_bytes(bytes.as_slice().try_into()?))
                }
                Err(e) => println!("{n}!: {e}"),
            }
        }
        if !answered.is_empty() {
            continue;
        }
        // Here the loop sleeps, and nowhere else.
        let mut room = [std::mem::MaybeUninit::uninit(); 2];
        let events = match epoll::wait(&sleeper, &mut room[..], None) {
            Ok((events, _)) => events,
            // A signal came, such as the one by which a shell goes on with a job.
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        };
        if !events.iter().any(|event| event.data.u64() == INPUT) {
            continue;
        }
        let bytes = input.fill_buf()?.to_vec();
        input.consume(bytes.len());
        if bytes.is_empty() {
            epoll::delete(&sleeper, &input)?;
            open = false;
            // The last line may have no end.
            text.extend((!text.is_empty()).then_some(b'\n'));
        }
        text.extend(bytes);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            numbers.push_back(std::str::from_utf8(&line)?.trim().parse()?);
        }
    }
    drop(calls);
    factorial.release()?;
    session.close()?;
    Ok(())
}

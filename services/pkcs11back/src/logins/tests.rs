//! Programs at the same time, over a module that takes its time.

use super::*;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Held: a login in slot 1 stands still in the module. Sessions have the numbers of their slots.
static GATE: Mutex<()> = Mutex::new(());
/// Tells that a login stands still.
static STANDS: Mutex<Option<Sender<()>>> = Mutex::new(None);

unsafe extern "C" fn slow_login(session: u64, _: u64, _: *mut u8, _: u64) -> u64 {
    if session == 1 {
        let stands = STANDS.lock().unwrap().take();
        stands.expect("one login there").send(()).expect("it is heard");
        drop(GATE.lock());
    }
    OK
}

unsafe extern "C" fn slot_for_session(
    slot: u64,
    _: u64,
    _: *mut c_void,
    _: Notify,
    session: *mut u64,
) -> u64 {
    // SAFETY: the place is the test's.
    unsafe { *session = slot };
    OK
}

unsafe extern "C" fn fine(_: u64) -> u64 {
    OK
}

/// Opens a session, logs in and out, and closes it.
fn use_slot(module: &Native, slot: u64) -> [u64; 4] {
    let (mut session, mut pin) = (0, *b"1234");
    // SAFETY: the places are ours.
    unsafe {
        [
            module.C_OpenSession.unwrap()(slot, 4, std::ptr::null_mut(), None, &mut session),
            module.C_Login.unwrap()(session, 1, pin.as_mut_ptr(), 4),
            module.C_Logout.unwrap()(session),
            module.C_CloseSession.unwrap()(session),
        ]
    }
}

#[test]
fn a_login_that_takes_its_time_holds_nobody_else_up() {
    let module = by_program(Native {
        C_OpenSession: Some(slot_for_session),
        C_Login: Some(slow_login),
        C_Logout: Some(fine),
        C_CloseSession: Some(fine),
        ..crate::model::NATIVE
    });
    let (stands, stood) = channel();
    *STANDS.lock().unwrap() = Some(stands);
    let gate = GATE.lock();
    let slow = std::thread::spawn(move || use_slot(&module, 1));
    stood.recv().expect("it stands");
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(use_slot(&module, 2)));
    let others = told.recv_timeout(Duration::from_secs(60));
    assert_eq!(others, Ok([OK; 4]), "another program waits for it");
    drop(gate);
    assert_eq!(slow.join().expect("it ended"), [OK; 4]);
}

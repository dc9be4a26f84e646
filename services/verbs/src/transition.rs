//! Which changes of a queue pair's state there are, and which attributes each one takes
//! (InfiniBand 11.2.5.3, table 91; the same as in Linux).

use vfun_verbs::flags::attribute::*;
use vfun_verbs::{QpState, QpType};

/// Attributes of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Those that must be given.
    pub required: u32,
    /// Those that may be.
    pub optional: u32,
}

const fn of(required: u32, optional: u32) -> Option<Allowed> {
    Some(Allowed { required, optional })
}

/// What a change takes; `None` if there is no such change.
pub const fn allowed(from: QpState, to: QpState, of_type: QpType) -> Option<Allowed> {
    use QpState::*;
    match (from, to) {
        (Reset, Error) => None,
        (_, Reset | Error) => of(0, 0),
        (Reset, Init) => of(first(of_type), 0),
        (Init, Init) => of(0, first(of_type)),
        (Init, Rtr) => of(to_receive(of_type), early(of_type)),
        (Rtr, Rts) => of(to_send(of_type), running(of_type)),
        (Rts, Rts) | (Sqd, Rts) => of(0, running(of_type)),
        (Rts, Sqd) => of(0, EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) => of(0, drained(of_type)),
        (Sqe, Rts) => match of_type {
            QpType::Ud => of(0, CUR_STATE | QKEY),
            QpType::Uc => of(0, CUR_STATE | ACCESS_FLAGS),
            QpType::Rc => of(0, 0),
        },
        _ => None,
    }
}

const fn first(of: QpType) -> u32 {
    match of {
        QpType::Ud => PKEY_INDEX | PORT | QKEY,
        _ => PKEY_INDEX | PORT | ACCESS_FLAGS,
    }
}

const fn to_receive(of: QpType) -> u32 {
    const CONNECTED: u32 = AV | PATH_MTU | DEST_QPN | RQ_PSN;
    match of {
        QpType::Ud => 0,
        QpType::Uc => CONNECTED,
        QpType::Rc => CONNECTED | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
    }
}

const fn early(of: QpType) -> u32 {
    match of {
        QpType::Ud => PKEY_INDEX | QKEY,
        _ => ALT_PATH | ACCESS_FLAGS | PKEY_INDEX,
    }
}

const fn to_send(of: QpType) -> u32 {
    match of {
        QpType::Rc => TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC,
        _ => SQ_PSN,
    }
}

const fn running(of: QpType) -> u32 {
    const CONNECTED: u32 = CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE;
    match of {
        QpType::Ud => CUR_STATE | QKEY,
        QpType::Uc => CONNECTED,
        QpType::Rc => CONNECTED | MIN_RNR_TIMER,
    }
}

const fn drained(of: QpType) -> u32 {
    const CONNECTED: u32 = AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE;
    const RELIABLE: u32 =
        PORT | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | MAX_DEST_RD_ATOMIC;
    match of {
        QpType::Ud => PKEY_INDEX | QKEY,
        QpType::Uc => CONNECTED,
        QpType::Rc => CONNECTED | RELIABLE | MIN_RNR_TIMER,
    }
}

/// Whether a change with these attributes is one.
pub(crate) const fn is_ok(from: QpState, to: QpState, of_type: QpType, mask: u32) -> bool {
    let says_current = mask & CUR_STATE != 0;
    if says_current && !matches!(from, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe) {
        return false;
    }
    match allowed(from, to, of_type) {
        None => false,
        Some(a) => {
            mask & a.required == a.required && mask & !(a.required | a.optional | STATE) == 0
        }
    }
}

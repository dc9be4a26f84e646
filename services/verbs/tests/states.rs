//! Every change of a queue pair's state, with every attribute, against a table of its own:
//! the InfiniBand specification's table 91, as Linux has it in `drivers/infiniband/core/verbs.c`.

mod common;

use common::*;
use vfun_verbs::flags::attribute::*;
use vfun_verbs::{QpState, QpType, SendBody, SendOpcode};
use vfun_verbs_nic::*;

/// From, to, of which types; required; optional.
const TABLE: &[(&str, &str, &str, &str, &str)] = &[
    ("RESET", "RESET", "RC UC UD", "", ""),
    ("RESET", "INIT", "RC UC", "PKEY_INDEX PORT ACCESS_FLAGS", ""),
    ("RESET", "INIT", "UD", "PKEY_INDEX PORT QKEY", ""),
    ("INIT", "RESET", "RC UC UD", "", ""),
    ("INIT", "ERR", "RC UC UD", "", ""),
    ("INIT", "INIT", "RC UC", "", "PKEY_INDEX PORT ACCESS_FLAGS"),
    ("INIT", "INIT", "UD", "", "PKEY_INDEX PORT QKEY"),
    (
        "INIT",
        "RTR",
        "RC",
        "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
        "ALT_PATH ACCESS_FLAGS PKEY_INDEX",
    ),
    ("INIT", "RTR", "UC", "AV PATH_MTU DEST_QPN RQ_PSN", "ALT_PATH ACCESS_FLAGS PKEY_INDEX"),
    ("INIT", "RTR", "UD", "", "PKEY_INDEX QKEY"),
    ("RTR", "RESET", "RC UC UD", "", ""),
    ("RTR", "ERR", "RC UC UD", "", ""),
    (
        "RTR",
        "RTS",
        "RC",
        "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
        "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE",
    ),
    ("RTR", "RTS", "UC", "SQ_PSN", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    ("RTR", "RTS", "UD", "SQ_PSN", "CUR_STATE QKEY"),
    ("RTS", "RESET", "RC UC UD", "", ""),
    ("RTS", "ERR", "RC UC UD", "", ""),
    ("RTS", "RTS", "RC", "", "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"),
    ("RTS", "RTS", "UC", "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    ("RTS", "RTS", "UD", "", "CUR_STATE QKEY"),
    ("RTS", "SQD", "RC UC UD", "", "EN_SQD_ASYNC_NOTIFY"),
    ("SQD", "RESET", "RC UC UD", "", ""),
    ("SQD", "ERR", "RC UC UD", "", ""),
    ("SQD", "RTS", "RC", "", "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"),
    ("SQD", "RTS", "UC", "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"),
    ("SQD", "RTS", "UD", "", "CUR_STATE QKEY"),
    (
        "SQD",
        "SQD",
        "RC",
        "",
        "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH \
         ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE",
    ),
    ("SQD", "SQD", "UC", "", "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"),
    ("SQD", "SQD", "UD", "", "PKEY_INDEX QKEY"),
    ("SQE", "RESET", "RC UC UD", "", ""),
    ("SQE", "ERR", "RC UC UD", "", ""),
    ("SQE", "RTS", "RC", "", ""),
    ("SQE", "RTS", "UC", "", "CUR_STATE ACCESS_FLAGS"),
    ("SQE", "RTS", "UD", "", "CUR_STATE QKEY"),
    ("ERR", "RESET", "RC UC UD", "", ""),
    ("ERR", "ERR", "RC UC UD", "", ""),
];

const BITS: &[(&str, u32)] = &[
    ("CUR_STATE", CUR_STATE),
    ("EN_SQD_ASYNC_NOTIFY", EN_SQD_ASYNC_NOTIFY),
    ("ACCESS_FLAGS", ACCESS_FLAGS),
    ("PKEY_INDEX", PKEY_INDEX),
    ("PORT", PORT),
    ("QKEY", QKEY),
    ("AV", AV),
    ("PATH_MTU", PATH_MTU),
    ("TIMEOUT", TIMEOUT),
    ("RETRY_CNT", RETRY_CNT),
    ("RNR_RETRY", RNR_RETRY),
    ("RQ_PSN", RQ_PSN),
    ("MAX_QP_RD_ATOMIC", MAX_QP_RD_ATOMIC),
    ("ALT_PATH", ALT_PATH),
    ("MIN_RNR_TIMER", MIN_RNR_TIMER),
    ("SQ_PSN", SQ_PSN),
    ("MAX_DEST_RD_ATOMIC", MAX_DEST_RD_ATOMIC),
    ("PATH_MIG_STATE", PATH_MIG_STATE),
    ("CAP", CAP),
    ("DEST_QPN", DEST_QPN),
    ("a bit that nobody knows", 1 << 30),
];

fn bits(names: &str) -> u32 {
    let bit = |name| BITS.iter().find(|(n, _)| *n == name).expect("a known one").1;
    names.split_whitespace().map(bit).sum()
}

fn row(from: QpState, to: QpState, kind: QpType) -> Option<(u32, u32)> {
    let found = TABLE.iter().find(|(f, t, of, ..)| {
        (*f, *t) == (from.text(), to.text()) && of.split(' ').any(|k| k == kind.text())
    })?;
    Some((bits(found.3), bits(found.4)))
}

/// A queue pair in a state.
fn in_state(lab: &mut Lab, app: &App, kind: QpType, state: QpState) -> Option<End> {
    let mut qp = lab.qp(app, kind);
    let set = attributes(app, &qp);
    let way = [QpState::Init, QpState::Rtr, QpState::Rts];
    let upto = match state {
        QpState::Reset => 0,
        QpState::Init => 1,
        QpState::Rtr => 2,
        _ => 3,
    };
    let mut from = QpState::Reset;
    for to in &way[..upto] {
        let required = row(from, *to, kind).expect("the usual way").0;
        lab.modify(app, &qp, STATE | required, *to, &set).unwrap();
        from = *to;
    }
    match state {
        QpState::Sqd | QpState::Error => lab.modify(app, &qp, STATE, state, &set).unwrap(),
        QpState::Sqe if kind == QpType::Rc => return None,
        QpState::Sqe => {
            let bad = head(SendOpcode::Read, 1, 0, 0);
            qp.send(app, &bad, SendBody::Gather(&[]));
            lab.run();
        }
        _ => {}
    }
    assert_eq!(lab.nic.state(app.program, qp.id), Ok(state));
    Some(qp)
}

/// Tries a change: whether it was made. What was refused changed nothing.
fn changes(kind: QpType, (from, to): (QpState, QpState), mask: u32) -> Option<bool> {
    let mut lab = Lab::new();
    let app = lab.app(1);
    let qp = in_state(&mut lab, &app, kind, from)?;
    let set = attributes(&app, &qp);
    let made = lab.modify(&app, &qp, STATE | mask, to, &set).is_ok();
    let now = lab.nic.state(app.program, qp.id).unwrap();
    assert_eq!(now, if made { to } else { from });
    Some(made)
}

#[test]
fn every_change_of_state_is_as_in_the_specification() {
    let mut seen = 0;
    for kind in QpType::ALL {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let row = row(*from, *to, *kind);
                let required = row.map_or(0, |r| r.0);
                let name = format!("{kind} from {from} to {to}");
                let Some(made) = changes(*kind, (*from, *to), required) else { continue };
                assert_eq!(made, row.is_some(), "{name}");
                seen += 1;
                let Some((required, optional)) = row else { continue };
                for (bit_name, bit) in BITS {
                    let with = changes(*kind, (*from, *to), required | bit).unwrap();
                    let may = (required | optional) & bit != 0;
                    assert_eq!(with, may, "{name} with {bit_name}");
                    if required & bit != 0 {
                        let without = changes(*kind, (*from, *to), required & !bit).unwrap();
                        assert!(!without, "{name} without {bit_name}");
                    }
                }
            }
        }
    }
    assert_eq!(seen, 7 * 7 * 3 - 7, "all, but those from a state that RC does not have");
}

#[test]
fn a_mask_without_a_state_keeps_it() {
    let mut lab = Lab::new();
    let app = lab.app(1);
    let qp = in_state(&mut lab, &app, QpType::Rc, QpState::Rts).unwrap();
    let set = attributes(&app, &qp);
    lab.modify(&app, &qp, MIN_RNR_TIMER, QpState::Reset, &set).unwrap();
    assert_eq!(lab.nic.state(app.program, qp.id), Ok(QpState::Rts));
    assert!(lab.modify(&app, &qp, TIMEOUT, QpState::Reset, &set).is_err());
}

#[test]
fn attributes_that_are_not_possible_are_refused() {
    let mut lab = Lab::new();
    let app = lab.app(1);
    let qp = in_state(&mut lab, &app, QpType::Rc, QpState::Init).unwrap();
    let right = attributes(&app, &qp);
    let required = STATE | row(QpState::Init, QpState::Rtr, QpType::Rc).unwrap().0;
    for wrong in [
        Attributes { access: 1 << 6, ..right },
        Attributes { dest_qpn: 1 << 24, ..right },
        Attributes { min_rnr_timer: 32, ..right },
    ] {
        let mask = required | ACCESS_FLAGS;
        assert!(lab.modify(&app, &qp, mask, QpState::Rtr, &wrong).is_err(), "{wrong:?}");
        assert_eq!(lab.nic.state(app.program, qp.id), Ok(QpState::Init));
    }
    lab.modify(&app, &qp, required, QpState::Rtr, &right).unwrap();
}

/// Entries that a state does not do wait for it.
#[test]
fn nothing_is_sent_before_the_queue_pair_may_send() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Sqd] {
        let mut lab = Lab::new();
        let app = lab.app(1);
        let mut qp = in_state(&mut lab, &app, QpType::Rc, state).unwrap();
        qp.send(&app, &head(SendOpcode::Write, 1, 0, 0), SendBody::Gather(&[]));
        lab.run();
        assert_eq!(qp.ended(), [], "{state}");
    }
}

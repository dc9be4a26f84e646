//! Attributes of queue pairs: what the engine takes of them, and what is only said again.

use crate::errno::Errno;
use crate::generated::{vfun_nic_path, vfun_nic_qp_attr};
use crate::limits::READS;
use vfun_verbs::QpState;
use vfun_verbs::flags::attribute::*;
use vfun_verbs_nic::{Attributes, Path};

/// `IBV_QP_RATE_LIMIT`.
const RATE_LIMIT: u32 = 1 << 25;
/// Bits of what this NIC does not offer.
const UNSUPPORTED: u32 = ALT_PATH | PATH_MIG_STATE | CAP | RATE_LIMIT;
/// The only port, the only key, the only address.
const PORT_NUMBER: u8 = 1;
/// `IBV_MTU_256` to `IBV_MTU_4096`.
const MTUS: std::ops::RangeInclusive<u32> = 1..=5;

/// What a call of `vfun_nic_qp_modify` changes.
pub struct QpChange {
    pub to: QpState,
    pub set: Attributes,
}

const fn zero() -> vfun_nic_qp_attr {
    vfun_nic_qp_attr {
        path: vfun_nic_path {
            gid: [0; 16],
            flow_label: 0,
            lid: 0,
            is_global: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            port: 0,
        },
        state: 0,
        current_state: 0,
        path_mtu: 0,
        qkey: 0,
        rq_psn: 0,
        sq_psn: 0,
        dest_qpn: 0,
        access: 0,
        pkey_index: 0,
        port: 0,
        sqd_notify: 0,
        sq_draining: 0,
        reads: 0,
        reads_of_peer: 0,
        min_rnr_timer: 0,
        timeout: 0,
        retry_count: 0,
        rnr_retry: 0,
        reserved: 0,
    }
}

/// Those of a new queue pair.
pub const fn fresh() -> vfun_nic_qp_attr {
    zero()
}

fn state(number: u32) -> Result<QpState, Errno> {
    u8::try_from(number).ok().and_then(QpState::from_wire).ok_or(Errno::INVALID)
}

/// Where a path leads.
pub fn path(path: &vfun_nic_path) -> Result<Path, Errno> {
    if path.port != PORT_NUMBER || path.sgid_index != 0 {
        return Err(Errno::INVALID);
    }
    Ok(Path { gid: (path.is_global != 0).then_some(path.gid), lid: path.lid })
}

/// Checks what the engine does not know of, and finds what it does.
pub fn read(mask: u32, attr: &vfun_nic_qp_attr, from: QpState) -> Result<QpChange, Errno> {
    let is = |bit: u32| mask & bit != 0;
    if is(UNSUPPORTED) {
        return Err(Errno::UNSUPPORTED);
    }
    let wrong = [
        is(CUR_STATE) && state(attr.current_state)? != from,
        is(PKEY_INDEX) && attr.pkey_index != 0,
        is(PORT) && attr.port != PORT_NUMBER,
        is(PATH_MTU) && !MTUS.contains(&attr.path_mtu),
        is(MAX_QP_RD_ATOMIC) && attr.reads > READS,
        is(MAX_DEST_RD_ATOMIC) && attr.reads_of_peer > READS,
    ];
    if wrong.contains(&true) {
        return Err(Errno::INVALID);
    }
    let set = Attributes {
        access: attr.access,
        qkey: attr.qkey,
        path: if is(AV) { path(&attr.path)? } else { Path::default() },
        dest_qpn: attr.dest_qpn,
        timeout: attr.timeout,
        retry_cnt: attr.retry_count,
        rnr_retry: attr.rnr_retry,
        min_rnr_timer: attr.min_rnr_timer,
        tell_drained: attr.sqd_notify != 0,
    };
    Ok(QpChange { to: if is(STATE) { state(attr.state)? } else { from }, set })
}

/// Keeps what was set, to say it again.
pub fn keep(kept: &mut vfun_nic_qp_attr, (mask, to): (u32, QpState), set: &vfun_nic_qp_attr) {
    if to == QpState::Reset {
        *kept = zero();
        return;
    }
    macro_rules! keep {
        ($($bit:ident $field:ident,)*) => {
            $(if mask & $bit != 0 { kept.$field = set.$field; })*
        };
    }
    keep! {
        ACCESS_FLAGS access,
        PKEY_INDEX pkey_index,
        PORT port,
        QKEY qkey,
        AV path,
        PATH_MTU path_mtu,
        TIMEOUT timeout,
        RETRY_CNT retry_count,
        RNR_RETRY rnr_retry,
        RQ_PSN rq_psn,
        MAX_QP_RD_ATOMIC reads,
        MIN_RNR_TIMER min_rnr_timer,
        SQ_PSN sq_psn,
        MAX_DEST_RD_ATOMIC reads_of_peer,
        DEST_QPN dest_qpn,
        EN_SQD_ASYNC_NOTIFY sqd_notify,
    }
}

/// What is set, and the state that the engine says.
pub fn say(kept: &vfun_nic_qp_attr, state: QpState, draining: bool) -> vfun_nic_qp_attr {
    let state = state.to_wire().into();
    vfun_nic_qp_attr { state, current_state: state, sq_draining: draining.into(), ..*kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_offered_and_what_is_wrong_is_told_apart() {
        let good = vfun_nic_qp_attr { state: 1, port: 1, ..zero() };
        let at = |mask, attr: &vfun_nic_qp_attr| read(mask, attr, QpState::Reset).map(|c| c.to);
        assert_eq!(at(STATE | PORT, &good), Ok(QpState::Init));
        assert_eq!(at(0, &good), Ok(QpState::Reset), "no state is named");
        assert_eq!(at(STATE | ALT_PATH, &good), Err(Errno::UNSUPPORTED));
        for (mask, attr) in [
            (STATE, vfun_nic_qp_attr { state: 7, ..good }),
            (STATE, vfun_nic_qp_attr { state: 257, ..good }),
            (CUR_STATE, vfun_nic_qp_attr { current_state: 1, ..good }),
            (PORT, vfun_nic_qp_attr { port: 2, ..good }),
            (PKEY_INDEX, vfun_nic_qp_attr { pkey_index: 1, ..good }),
            (PATH_MTU, vfun_nic_qp_attr { path_mtu: 0, ..good }),
            (PATH_MTU, vfun_nic_qp_attr { path_mtu: 6, ..good }),
            (MAX_QP_RD_ATOMIC, vfun_nic_qp_attr { reads: READS + 1, ..good }),
            (MAX_DEST_RD_ATOMIC, vfun_nic_qp_attr { reads_of_peer: READS + 1, ..good }),
            (AV, good),
        ] {
            assert_eq!(at(mask, &attr), Err(Errno::INVALID), "{mask:#x}");
        }
    }

    #[test]
    fn what_was_set_is_said_again_until_reset() {
        let mut kept = fresh();
        let set = vfun_nic_qp_attr { qkey: 9, rq_psn: 5, timeout: 14, ..zero() };
        keep(&mut kept, (QKEY | RQ_PSN, QpState::Init), &set);
        let said = say(&kept, QpState::Init, true);
        assert_eq!((said.qkey, said.rq_psn, said.timeout), (9, 5, 0));
        assert_eq!((said.state, said.current_state, said.sq_draining), (1, 1, 1));
        keep(&mut kept, (STATE, QpState::Reset), &set);
        assert_eq!(say(&kept, QpState::Reset, false).qkey, 0);
    }
}

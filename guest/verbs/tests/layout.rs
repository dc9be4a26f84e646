//! The structs that programs were compiled with are those of this library: each size and each offset, as the
//! installed headers have it.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;
use vfunverbs::abi::*;
use vfunverbs::rdmacm::abi::*;

/// Headers that say it (Debian's libibverbs-dev and librdmacm-dev).
const HEADERS: [&str; 2] = ["/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"];

/// An expression of C, and its value here.
type Row = (String, usize);

macro_rules! rows {
    ($($name:ident: $($member:ident $(= $c:literal)?),*;)*) => {{
        let mut rows: Vec<Row> = vec![];
        $(
            rows.push((format!("sizeof(struct {})", stringify!($name)), size_of::<$name>()));
            $(
                #[allow(unused_mut, unused_assignments)]
                let mut c = stringify!($member);
                $(c = $c;)?
                let of = format!("offsetof(struct {}, {c})", stringify!($name));
                rows.push((of, offset_of!($name, $member)));
            )*
        )*
        rows
    }};
}

fn of_verbs() -> Vec<Row> {
    rows! {
        ibv_device: node_type, transport_type, name, dev_name, dev_path, ibdev_path;
        ibv_context: device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat;
        ibv_context_ops: alloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv;
        verbs_context: query_port, create_cq_ex, query_device_ex, create_qp_ex, get_srq_num,
            create_srq_ex, size = "sz", context;
        ibv_device_attr: node_guid, max_mr_size, vendor_id, hw_ver, max_qp, device_cap_flags,
            max_sge, max_cqe, atomic_cap, max_srq_sge, max_pkeys, phys_port_cnt;
        ibv_device_attr_ex: comp_mask, odp_general_caps = "odp_caps", completion_timestamp_mask,
            device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps,
            raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps,
            phys_port_cnt_ex;
        ibv_port_attr: state, gid_tbl_len, max_msg_sz, pkey_tbl_len, lid, phys_state, link_layer,
            flags, port_cap_flags2;
        ibv_gid_entry: gid, gid_index, port_num, gid_type, ndev_ifindex;
        ibv_pd: context, handle;
        ibv_mr: context, pd, addr, length, handle, lkey, rkey;
        ibv_ah: context, pd, handle;
        ibv_comp_channel: context, fd, refcnt;
        ibv_cq: context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed;
        ibv_cq_ex: comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode,
            read_imm_data, read_slid, read_dlid_path_bits, read_completion_wallclock_ns;
        ibv_srq: context, srq_context, pd, handle, events_completed;
        ibv_qp: context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type,
            mutex, cond, events_completed;
        ibv_qp_ex: comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_rdma_write, wr_send,
            wr_set_ud_addr, wr_set_inline_data_list, wr_set_sge, wr_start, wr_complete, wr_abort,
            wr_atomic_write;
        ibv_async_event: element, event_type;
        ibv_sge: addr, length, lkey;
        ibv_data_buf: addr, length;
        ibv_send_wr: wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr,
            remote_srqn = "qp_type", bind_or_tso = "bind_mw";
        ibv_recv_wr: wr_id, next, sg_list, num_sge;
        ibv_wc: wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
            pkey_index, slid, sl, dlid_path_bits;
        ibv_qp_init_attr: qp_context, send_cq, srq, cap, qp_type, sq_sig_all;
        ibv_qp_init_attr_ex: qp_context, cap, sq_sig_all, comp_mask, pd, create_flags, source_qpn,
            send_ops_flags;
        ibv_ah_attr: grh, dlid, sl, is_global, port_num;
        ibv_grh: version_tclass_flow, hop_limit, sgid, dgid;
        ibv_qp_attr: qp_state, qkey, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index,
            sq_draining, max_rd_atomic, timeout, rate_limit;
        ibv_srq_init_attr: srq_context, attr;
        ibv_srq_init_attr_ex: srq_context, attr, comp_mask, srq_type, pd, cq, tm_cap;
        ibv_cq_init_attr_ex: cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags,
            parent_domain;
    }
}

fn of_rdmacm() -> Vec<Row> {
    rows! {
        rdma_event_channel: fd;
        rdma_addr: src = "src_addr", dst = "dst_addr", sgid = "addr", dgid = "addr.ibaddr.dgid",
            pkey = "addr.ibaddr.pkey";
        rdma_route: addr, path_rec, num_paths;
        rdma_cm_id: verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel,
            send_cq, recv_cq_channel, recv_cq, srq, pd, qp_type;
        rdma_conn_param: private_data, private_data_len, responder_resources, rnr_retry_count, srq,
            qp_num;
        rdma_ud_param: private_data, private_data_len, ah_attr, qp_num, qkey;
        rdma_cm_event: id, listen_id, event, status, param;
        rdma_addrinfo: ai_flags, ai_port_space, ai_src_len, ai_src_addr, ai_dst_addr, ai_route_len,
            ai_connect, ai_next;
        ibv_sa_path_rec: dgid, sgid, dlid, flow_label, hop_limit, reversible, pkey, mtu, preference;
    }
}

/// What the headers say.
fn by_c(rows: &[Row]) -> Vec<usize> {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    let lines = rows.iter().map(|(c, _)| format!("\tprintf(\"%zu\\n\", (size_t)({c}));\n"));
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         #include <rdma/rdma_cma.h>\nint main(void) {{\n{}\treturn 0;\n}}\n",
        lines.collect::<String>()
    );
    std::fs::write(&source, text).expect("ours");
    let built = Command::new("cc").arg(&source).arg("-o").arg(&program).status();
    assert!(built.expect("cc runs").success(), "the program of the headers does not compile");
    let out = Command::new(&program).output().expect("it runs");
    let text = String::from_utf8(out.stdout).expect("numbers");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

#[test]
fn structs_are_those_of_the_installed_headers() {
    if let Some(missing) = HEADERS.into_iter().find(|header| !Path::new(header).exists()) {
        eprintln!("not tried: there is no {missing}");
        return;
    }
    let rows: Vec<Row> = of_verbs().into_iter().chain(of_rdmacm()).collect();
    let theirs = by_c(&rows);
    assert_eq!(theirs.len(), rows.len());
    let differ: Vec<String> = rows
        .iter()
        .zip(&theirs)
        .filter(|((_, ours), theirs)| ours != *theirs)
        .map(|((c, ours), theirs)| format!("{c}: {ours} here, {theirs} in the header"))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

//! What calls carry of the API `verbs`.
//!
//! Made by `vfun-apigen generate verbs`; change tools/apigen/apis/verbs and make it again.
#![allow(dead_code, unused_imports)]

use vfun_remoting_host::fuzz::{Api, Call, Case, Shape};

/// Kinds of objects.
pub mod kinds {
    pub const AH: u16 = 7;
    pub const CM: u16 = 8;
    pub const CONTEXT: u16 = 1;
    pub const CQ: u16 = 4;
    pub const MR: u16 = 3;
    pub const PD: u16 = 2;
    pub const QP: u16 = 6;
    pub const SRQ: u16 = 5;
}

/// The API `verbs`.
pub const API: Api = Api {
    calls: &[
        Call {
            number: 16,
            name: "vfun_nic_open",
            secret: false,
            frees: None,
            carries: &[
                Shape::Number { bits: 32, signed: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Number { bits: 64, signed: false },
                Shape::New(kinds::CONTEXT),
            ],
        },
        Call {
            number: 17,
            name: "vfun_nic_close",
            secret: false,
            frees: Some(kinds::CONTEXT),
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 18,
            name: "vfun_nic_info",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 19,
            name: "vfun_nic_port",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 20,
            name: "vfun_nic_gid",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::Number { bits: 32, signed: false },
            ],
        },
        Call {
            number: 21,
            name: "vfun_nic_pd_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::New(kinds::PD),
            ],
        },
        Call {
            number: 22,
            name: "vfun_nic_pd_end",
            secret: false,
            frees: Some(kinds::PD),
            carries: &[Shape::Object { kind: kinds::PD, number: false }],
        },
        Call {
            number: 23,
            name: "vfun_nic_mr_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::PD, number: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Number { bits: 32, signed: false },
                Shape::Bytes,
                Shape::New(kinds::MR),
            ],
        },
        Call {
            number: 24,
            name: "vfun_nic_mr_add",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::MR, number: false }, Shape::Bytes],
        },
        Call {
            number: 25,
            name: "vfun_nic_mr_end",
            secret: false,
            frees: Some(kinds::MR),
            carries: &[Shape::Object { kind: kinds::MR, number: false }],
        },
        Call {
            number: 26,
            name: "vfun_nic_cq_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::Number { bits: 32, signed: false },
                Shape::New(kinds::CQ),
            ],
        },
        Call {
            number: 27,
            name: "vfun_nic_cq_end",
            secret: false,
            frees: Some(kinds::CQ),
            carries: &[Shape::Object { kind: kinds::CQ, number: false }],
        },
        Call {
            number: 28,
            name: "vfun_nic_srq_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::PD, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::Number { bits: 32, signed: false },
                Shape::New(kinds::SRQ),
            ],
        },
        Call {
            number: 29,
            name: "vfun_nic_srq_limit",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::SRQ, number: false },
                Shape::Number { bits: 32, signed: false },
            ],
        },
        Call {
            number: 30,
            name: "vfun_nic_srq_query",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::SRQ, number: false }],
        },
        Call {
            number: 31,
            name: "vfun_nic_srq_end",
            secret: false,
            frees: Some(kinds::SRQ),
            carries: &[Shape::Object { kind: kinds::SRQ, number: false }],
        },
        Call {
            number: 32,
            name: "vfun_nic_qp_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::PD, number: false },
                Shape::All(&[
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                ]),
                Shape::Object { kind: kinds::CQ, number: false },
                Shape::Object { kind: kinds::CQ, number: false },
                Shape::Object { kind: kinds::SRQ, number: false },
                Shape::New(kinds::QP),
            ],
        },
        Call {
            number: 33,
            name: "vfun_nic_qp_modify",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::QP, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::All(&[
                    Shape::All(&[
                        Shape::Raw(16),
                        Shape::Number { bits: 32, signed: false },
                        Shape::Number { bits: 16, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                        Shape::Number { bits: 8, signed: false },
                    ]),
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 16, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                ]),
            ],
        },
        Call {
            number: 34,
            name: "vfun_nic_qp_query",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::QP, number: false }],
        },
        Call {
            number: 35,
            name: "vfun_nic_qp_end",
            secret: false,
            frees: Some(kinds::QP),
            carries: &[Shape::Object { kind: kinds::QP, number: false }],
        },
        Call {
            number: 36,
            name: "vfun_nic_ah_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::PD, number: false },
                Shape::All(&[
                    Shape::Raw(16),
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 16, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                ]),
                Shape::New(kinds::AH),
            ],
        },
        Call {
            number: 37,
            name: "vfun_nic_ah_end",
            secret: false,
            frees: Some(kinds::AH),
            carries: &[Shape::Object { kind: kinds::AH, number: false }],
        },
        Call {
            number: 66,
            name: "vfun_nic_cm_make",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::New(kinds::CM),
            ],
        },
        Call {
            number: 67,
            name: "vfun_nic_cm_take",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::New(kinds::CM),
            ],
        },
        Call {
            number: 68,
            name: "vfun_nic_cm_bind",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CM, number: false },
                Shape::Number { bits: 32, signed: false },
            ],
        },
        Call {
            number: 69,
            name: "vfun_nic_cm_listen",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CM, number: false },
                Shape::Number { bits: 32, signed: false },
            ],
        },
        Call {
            number: 70,
            name: "vfun_nic_cm_connect",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CM, number: false },
                Shape::All(&[
                    Shape::Raw(16),
                    Shape::Number { bits: 16, signed: false },
                    Shape::Number { bits: 16, signed: false },
                ]),
                Shape::All(&[
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 16, signed: false },
                ]),
                Shape::All(&[Shape::Number { bits: 32, signed: false }, Shape::Raw(196)]),
            ],
        },
        Call {
            number: 71,
            name: "vfun_nic_cm_accept",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CM, number: false },
                Shape::All(&[
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 32, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 8, signed: false },
                    Shape::Number { bits: 16, signed: false },
                ]),
                Shape::All(&[Shape::Number { bits: 32, signed: false }, Shape::Raw(196)]),
            ],
        },
        Call {
            number: 72,
            name: "vfun_nic_cm_establish",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CM, number: false }],
        },
        Call {
            number: 73,
            name: "vfun_nic_cm_reject",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CM, number: false },
                Shape::All(&[Shape::Number { bits: 32, signed: false }, Shape::Raw(196)]),
            ],
        },
        Call {
            number: 74,
            name: "vfun_nic_cm_disconnect",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CM, number: false }],
        },
        Call {
            number: 75,
            name: "vfun_nic_cm_end",
            secret: false,
            frees: Some(kinds::CM),
            carries: &[Shape::Object { kind: kinds::CM, number: false }],
        },
    ],
};

//! What calls carry of the API `gdma`.
//!
//! Made by `vfun-apigen generate gdma`; change tools/apigen/apis/gdma and make it again.
#![allow(dead_code, unused_imports)]

use vfun_remoting_host::fuzz::{Api, Call, Case, Shape};

/// Kinds of objects.
pub mod kinds {
    pub const BUFFER: u16 = 3;
    pub const CONTEXT: u16 = 1;
    pub const NODE: u16 = 2;
    pub const TRANSFER: u16 = 4;
}

/// The API `gdma`.
pub const API: Api = Api {
    calls: &[
        Call {
            number: 16,
            name: "gdma_init",
            secret: false,
            frees: None,
            carries: &[
                Shape::Number { bits: 32, signed: false },
                Shape::Lent,
                Shape::New(kinds::CONTEXT),
            ],
        },
        Call {
            number: 17,
            name: "gdma_exit",
            secret: false,
            frees: Some(kinds::CONTEXT),
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 36,
            name: "gdma_abort",
            secret: false,
            frees: Some(kinds::CONTEXT),
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 18,
            name: "gdma_device_info",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 19,
            name: "gdma_node_count",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::CONTEXT, number: false }],
        },
        Call {
            number: 20,
            name: "gdma_node_local",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::New(kinds::NODE),
            ],
        },
        Call {
            number: 21,
            name: "gdma_node_by_id",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::CONTEXT, number: false },
                Shape::Number { bits: 32, signed: false },
                Shape::New(kinds::NODE),
            ],
        },
        Call {
            number: 22,
            name: "gdma_node_id",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::NODE, number: false }],
        },
        Call {
            number: 23,
            name: "gdma_buffer_alloc",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::NODE, number: false },
                Shape::Number { bits: 64, signed: false },
                Shape::New(kinds::BUFFER),
            ],
        },
        Call {
            number: 24,
            name: "gdma_buffer_free",
            secret: false,
            frees: Some(kinds::BUFFER),
            carries: &[Shape::Object { kind: kinds::BUFFER, number: false }],
        },
        Call {
            number: 28,
            name: "gdma_transfer_start",
            secret: false,
            frees: None,
            carries: &[
                Shape::Object { kind: kinds::BUFFER, number: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Object { kind: kinds::BUFFER, number: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Number { bits: 64, signed: false },
                Shape::Flag,
                Shape::New(kinds::TRANSFER),
            ],
        },
        Call {
            number: 31,
            name: "gdma_transfer_query",
            secret: false,
            frees: None,
            carries: &[Shape::Object { kind: kinds::TRANSFER, number: false }],
        },
        Call {
            number: 32,
            name: "gdma_transfer_release",
            secret: false,
            frees: Some(kinds::TRANSFER),
            carries: &[Shape::Object { kind: kinds::TRANSFER, number: false }],
        },
    ],
};

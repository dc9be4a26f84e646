//! The proxy with what it stands between: played, and real.

mod openvswitch;
mod played;
mod relay;
#[path = "../../../links/tests/openvswitch/switch.rs"]
#[expect(dead_code, reason = "tests of the detector need more of it")]
mod switch;

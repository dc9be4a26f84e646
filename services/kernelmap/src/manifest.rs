//! The `[opencl]` section of a manifest, as it is written.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The section `[opencl]` of a manifest: how arguments become the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// The kernel's name in its source.
    pub kernel: String,
    /// Whether the library holds a device's own binary, not source.
    #[serde(default)]
    pub binary: bool,
    /// Options for the device's compiler.
    #[serde(default)]
    pub options: String,
    /// On what kind of device the kernel runs.
    #[serde(default)]
    pub device: DeviceChoice,
    /// Work-items in each dimension: formulas.
    pub global: Vec<String>,
    /// Work-items of a work-group in each dimension; empty: the device's choice.
    #[serde(default)]
    pub local: Vec<String>,
    /// The kernel's arguments, in order.
    pub args: Vec<Argument>,
    /// Conditions on a call's sizes, such as `count(data) == m * k`.
    #[serde(default)]
    pub require: Vec<String>,
    /// Numbers of the trial call at the start; 1 where nothing is said.
    #[serde(default)]
    pub trial: BTreeMap<String, u64>,
    /// Copies arguments and results even where the device could use them in place.
    #[serde(default)]
    pub copy: bool,
}

/// Which device: the first of those that fit all that is said, or the
/// `index`-th of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceChoice {
    /// What kind of device; the one of the function's location where nothing is said.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DeviceKind>,
    /// A part of its platform's name, whatever the case of letters.
    #[serde(default)]
    pub platform: String,
    /// A part of its name, whatever the case of letters.
    #[serde(default)]
    pub name: String,
    /// Which of them, from 0.
    #[serde(default)]
    pub index: u32,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The host's processors, as an OpenCL device.
    Cpu,
    Gpu,
    /// An FPGA or the like.
    Accelerator,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Accelerator => "accelerator",
        })
    }
}

/// One of a kernel's arguments: exactly one of `value`, `input`, `output`, `local`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// A number: an argument of the call by its name, or a formula with a `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The scalar type of a `value` that is a formula.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub scalar: Option<String>,
    /// A buffer of an array of the call's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A buffer of an array, or a number, of the call's results; empty for a
    /// result without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Memory of each work-group, of elements of this scalar type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// First element of the array; 0 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How many elements; all from `at` on where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// Bytes to which its address must be aligned for the kernel to use it in
    /// place: the size of the largest vector it is read or written by. Else it
    /// is copied. The element's own alignment where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u32>,
}

//! A machine that there is not, and settings.

use vfun_bench::report::machine::Noise;
use vfun_bench::report::{Machine, Settings};

pub fn machine() -> Machine {
    Machine {
        taken_at: "2026-11-21T10:21:02Z".to_owned(),
        cpu_model: Some("Sample CPU".to_owned()),
        cores: Some(2),
        cores_usable: Some(2),
        kernel: Some("6.12.0".to_owned()),
        memory_bytes: Some(24 << 30),
        qemu_version: Some("7.2.19".to_owned()),
        accel: Some("tcg".to_owned()),
        noise: Noise {
            loadavg: Some([0.1, 0.2, 0.3]),
            virtualized: Some(true),
            steal: Some(0.012),
            governor: None,
        },
    }
}

pub fn settings(scale: f64) -> Settings {
    let pinning = Some("caller on core 0, service on core 1".to_owned());
    Settings { scale, repeats: 5, pinning, ..Settings::default() }.with("warm_up_calls", 1000)
}

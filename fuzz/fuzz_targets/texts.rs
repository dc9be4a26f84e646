//! Texts that people and processes write: manifests, policy, sizes, versions,
//! lines of the admin interface, messages between manager and services. They
//! parse or are refused with a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use vfun_admin::{Ask, Reply};
use vfun_core::submitted::Wanted;
use vfun_core::{manifest, policy};
use vfun_supervise::{FromService, ToService};
use vfun_wire::header::check_size;
use vfun_wire::version::FunctionVersion;

fn same<T: serde_json_like::Both>(text: &str) {
    T::there_and_back(text);
}

/// What parses is written and read back as the same text.
mod serde_json_like {
    pub trait Both {
        fn there_and_back(text: &str);
    }
    impl<T: serde::Serialize + serde::de::DeserializeOwned> Both for T {
        fn there_and_back(text: &str) {
            let Ok(value) = serde_json::from_str::<T>(text) else { return };
            let once = serde_json::to_string(&value).expect("plain data");
            let again: T = serde_json::from_str(&once).expect("its own text");
            assert_eq!(serde_json::to_string(&again).expect("plain data"), once);
        }
    }
}

/// A manifest up to its kernel's section; its file only has to be one.
const KERNEL: &str = r#"
name = "f"
version = "1.0"
kind = "opencl"
library = "/proc/self/exe"
signature = "(m: u32, n: u32, k: i64, x: f32, data: [f32]) -> (s: u64, f: u8, data: [u8])"
[opencl]
"#;

/// A kernel's section: taken, or refused with a reason.
fn kernel(section: &str) {
    let text = format!("{KERNEL}{section}");
    match manifest::function(Path::new("f.toml"), &text, Path::new("/"), 1) {
        Ok(f) => assert!(f.deadline_ms > 0),
        Err(e) => assert!(!e.reason.is_empty()),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (file, dir) = (Path::new("f.toml"), Path::new("/"));
    match which % 11 {
        10 => {
            // What a service says of a module: refused, or a function.
            let Ok(offered) = serde_json::from_str(text) else { return };
            match Wanted::check(offered) {
                Ok(w) => assert!(w.offered.name.starts_with("my.") && w.offered.deadline_ms > 0),
                Err(e) => assert!(!e.sentence.is_empty()),
            }
        }
        0 => match manifest::function(file, text, dir, 1) {
            Ok(f) => assert!(f.deadline_ms > 0 && vfun_wire::names::check(&f.name).is_ok()),
            Err(e) => assert!(!e.reason.is_empty()),
        },
        1 => match manifest::client(file, text, 1) {
            Ok(c) => assert!(check_size(c.window_bytes).is_ok() && c.max_grants > 0),
            Err(e) => assert!(!e.reason.is_empty()),
        },
        2 => match policy::parse(file, text) {
            Ok(p) => drop(p.of("vm1", "add")),
            Err(e) => assert!(!e.reason.is_empty()),
        },
        3 => drop(manifest::size(text).map_err(|e| assert!(!e.is_empty()))),
        4 => same::<Ask>(text),
        5 => same::<Reply>(text),
        6 => {
            same::<FromService>(text);
            same::<ToService>(text);
        }
        7 => kernel(text),
        // A formula by itself; quotes would end it.
        8 => kernel(&format!(
            "kernel = \"f\"\nglobal = ['''{}''']\nargs = [{{ value = \"m\" }}, {{ output = \"data\", count = '''{0}''' }}]",
            text.replace('\'', "")
        )),
        _ => drop(text.parse::<FunctionVersion>()),
    }
});

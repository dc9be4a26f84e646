//! An agent whose orders come from a file, for a guest without a host that gives some.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vfun_agent::agent::{Settings, run};
use vfun_agent::mailbox::Mailbox;
use vfun_bond::{Order, Path};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(50);

/// Runs until the process is killed. The file has `vf`, `paravirtual` or nothing; each
/// report is a line of JSON on standard output.
pub fn agent(bond: &str, file: PathBuf) -> ! {
    let mailbox = Arc::new(Mailbox::new().expect("descriptors"));
    let letters = mailbox.clone();
    std::thread::spawn(move || carry(&letters, &file));
    let Err(why) = run(&Settings::new(bond), &mailbox);
    panic!("{why}");
}

fn carry(mailbox: &Mailbox, file: &std::path::Path) {
    let mut number = 0;
    let mut last = None;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let path = match text.trim() {
            "vf" => Some(Path::Vf),
            "paravirtual" => Some(Path::Paravirtual),
            _ => None,
        };
        if let (Some(path), true) = (path, path != last) {
            number += 1;
            mailbox.put_order(Order { number, path, report_ms: 200 });
        }
        last = path;
        if let Some(report) = mailbox.take_report() {
            println!("{}", serde_json::to_string(&report).expect("plain data"));
        }
        std::thread::sleep(EVERY);
    }
}

//! Windows in and out of a libvirt domain, by virsh.

use super::{Goes, Plugged};
use crate::fail::{Exit, Failure, Result};
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A domain and how to reach it.
pub struct Domain<'a> {
    pub name: &'a str,
    pub connect: Option<&'a str>,
    /// Change its stored description too.
    pub persistent: bool,
}

/// What `virsh` printed, and whether it succeeded.
struct Said {
    ok: bool,
    stdout: String,
    stderr: String,
}

impl Domain<'_> {
    fn virsh(&self, words: &[&str], stdin: &str) -> Result<Said> {
        let mut command = Command::new("virsh");
        // Its sentences are looked at: they are to be in one language.
        command.env("LC_ALL", "C").arg("--quiet");
        if let Some(uri) = self.connect {
            command.args(["--connect", uri]);
        }
        let mut child = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => {
                    Failure::new(Exit::Failed, "virsh is not here: libvirt is asked through it")
                        .advise("install it (apt install libvirt-clients), or reach QEMU itself with --qmp SOCKET")
                }
                _ => Failure::new(Exit::Failed, format!("virsh could not be started: {e}")),
            })?;
        let failed = |e: io::Error| Failure::new(Exit::Failed, format!("virsh broke off: {e}"));
        // A descriptor is a few hundred bytes: the pipe takes it at once.
        let mut pipe = child.stdin.take().expect("asked for");
        match pipe.write_all(stdin.as_bytes()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(failed(e)),
            _ => drop(pipe),
        }
        let output = child.wait_with_output().map_err(failed)?;
        Ok(Said {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    fn must(&self, words: &[&str], stdin: &str) -> Result<String> {
        let said = self.virsh(words, stdin)?;
        match said.ok {
            true => Ok(said.stdout),
            false => Err(refusal(self, &said.stderr)),
        }
    }

    /// The running domain's description.
    fn xml(&self) -> Result<String> {
        let state = self.must(&["domstate", self.name], "")?;
        if !["running", "paused", "idle", "pmsuspended"].contains(&state.trim()) {
            return Err(Failure::new(
                Exit::Failed,
                format!("domain {} is not running: it is {}", self.name, state.trim()),
            )
            .advise(format!(
                "start it (virsh start {0}), or put what `vfun client show` prints into it with virsh edit {0}",
                self.name
            )));
        }
        self.must(&["dumpxml", self.name], "")
    }

    fn scope(&self) -> &'static str {
        if self.persistent { "--persistent" } else { "--live" }
    }

    /// Plugs a window in.
    pub fn attach(&self, window: &dyn Goes) -> Result<Plugged> {
        let of_vmm = window.of_vmm()?;
        let shmem = of_vmm.libvirt().ok_or_else(|| {
            let path = of_vmm.path.display();
            Failure::new(Exit::Failed, format!("libvirt cannot give a domain the window {path}"))
                .advise(of_vmm.not_by_libvirt().replace('\n', " ").trim())
        })?;
        let before = self.xml()?;
        if let Some(element) = element(&before, &of_vmm.name) {
            let pci = address(&element);
            return Ok(Plugged { already: true, pci, port: None, took: None });
        }
        window.is_free()?;
        // libvirt takes this device for one of conventional PCI and would not give
        // it a port of PCI Express by itself.
        let shmem = match free_port(&before) {
            Some(bus) => shmem.replace(
                "</shmem>",
                &format!("  <address type='pci' domain='0x0000' bus='{bus:#04x}' slot='0x00' function='0x0'/>\n</shmem>"),
            ),
            None => shmem,
        };
        let began = Instant::now();
        self.must(&["attach-device", self.name, "/dev/stdin", self.scope()], &shmem)?;
        let took = Some(began.elapsed());
        let pci = element(&self.xml()?, &of_vmm.name).and_then(|e| address(&e));
        Ok(Plugged { already: false, pci, port: None, took })
    }

    /// Takes a window out.
    pub fn detach(&self, name: &str, at_most: Duration) -> Result<Plugged> {
        let Some(shmem) = element(&self.xml()?, name) else {
            return Ok(Plugged { already: true, pci: None, port: None, took: None });
        };
        let began = Instant::now();
        self.must(&["detach-device", self.name, "/dev/stdin", self.scope()], &shmem)?;
        // libvirt asks the guest and does not wait for long.
        while element(&self.xml()?, name).is_some() {
            if began.elapsed() >= at_most {
                return Err(Failure::new(
                    Exit::Failed,
                    format!(
                        "domain {} has not let go of the device within {} s",
                        self.name,
                        at_most.as_secs()
                    ),
                )
                .advise("a VM without an operating system that runs cannot; otherwise ask again: it may only be slow"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Plugged {
            already: false,
            pci: address(&shmem),
            port: None,
            took: Some(began.elapsed()),
        })
    }
}

/// What libvirt's refusal means, and what to do.
fn refusal(domain: &Domain, stderr: &str) -> Failure {
    let sentence = stderr
        .lines()
        .filter(|l| !l.trim().is_empty())
        .map(|l| l.trim().trim_start_matches("error: "))
        .collect::<Vec<_>>()
        .join("; ");
    let has = |part: &str| sentence.contains(part);
    if has("failed to connect") || has("Failed to connect socket to '/") {
        return Failure::new(Exit::Unreachable, format!("libvirt cannot be reached: {sentence}"))
            .advise("start libvirtd, or name another with --connect URI (virsh's own default is qemu:///system for root)");
    }
    let failure = Failure::new(Exit::Failed, format!("libvirt refused: {sentence}"));
    if has("failed to get domain") || has("Domain not found") {
        return failure.advise(match domain.connect {
            Some(uri) => format!("`virsh -c {uri} list` shows the domains there"),
            None => "`virsh list` shows the domains; --connect names another libvirt".into(),
        });
    }
    if has("No more available PCI slots") || has("no available PCI slots") {
        return failure.advise(format!(
            "the domain needs a free port: virsh edit {}, add <controller type='pci' model='pcie-root-port'/>, and start it again",
            domain.name
        ));
    }
    if has("Permission denied") || has("Failed to connect to '") || has("Failed to connect socket")
    {
        return failure.advise(
            "QEMU's user must be let at the socket or file and its folders: `vfun client show NAME` says how",
        );
    }
    failure
}

/// The `<shmem>` element of this name, as libvirt prints it.
fn element(xml: &str, id: &str) -> Option<String> {
    let at = xml.find(&format!("<shmem name='{id}'"))?;
    let end = xml[at..].find("</shmem>")?;
    Some(format!("{}</shmem>", &xml[at..at + end]))
}

/// The bus of a port for PCI Express that nothing is plugged into.
fn free_port(xml: &str) -> Option<u32> {
    let used = |bus: u32| xml.contains(&format!("bus='{bus:#04x}' slot="));
    xml.split("<controller type='pci' index='").skip(1).find_map(|c| {
        let (index, rest) = c.split_once('\'')?;
        let index = index.parse().ok()?;
        (rest.trim_start().starts_with("model='pcie-root-port'") && !used(index)).then_some(index)
    })
}

/// The PCI address in an element.
fn address(element: &str) -> Option<String> {
    let rest = element.split("<address type='pci'").nth(1)?.split("/>").next()?;
    let part = |name: &str| {
        let value = rest.split(&format!("{name}='0x")).nth(1)?.split('\'').next()?;
        u32::from_str_radix(value, 16).ok()
    };
    Some(format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        part("domain")?,
        part("bus")?,
        part("slot")?,
        part("function")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<domain>\n  <devices>\n    <shmem name='virtfun-vm10' role='peer'>\n      <x/>\n    </shmem>\n    <shmem name='virtfun-vm1'>\n      <model type='ivshmem-doorbell'/>\n      <address type='pci' domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/>\n    </shmem>\n  </devices>\n</domain>";

    #[test]
    fn the_right_element_is_found() {
        let e = element(XML, "virtfun-vm1").unwrap();
        assert!(e.contains("doorbell") && e.ends_with("</shmem>"));
        assert_eq!(address(&e).unwrap(), "0000:0a:00.0");
        assert_eq!(address(&element(XML, "virtfun-vm10").unwrap()), None);
        assert_eq!(element(XML, "virtfun-vm"), None);
    }

    #[test]
    fn a_free_port_is_found() {
        let port = |i| {
            format!(
                "<controller type='pci' index='{i}' model='pcie-root-port'>\n<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>\n</controller>\n"
            )
        };
        let disk = "<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>";
        let root = "<controller type='pci' index='0' model='pcie-root'/>";
        assert_eq!(free_port(&format!("{root}{}{}{disk}", port(1), port(16))), Some(16));
        assert_eq!(free_port(&format!("{root}{}{disk}", port(1))), None);
        assert_eq!(free_port("<controller type='pci' index='0' model='pci-root'/>"), None);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let d = Domain { name: "vm1", connect: None, persistent: false };
        let f = refusal(
            &d,
            "error: failed to connect to the hypervisor\nerror: Failed to connect socket to '/run/libvirt/libvirt-sock': No such file or directory\n",
        );
        assert_eq!(f.exit, Exit::Unreachable);
        let f = refusal(&d, "error: failed to get domain 'vm1'");
        assert!(f.exit == Exit::Failed && f.advice.unwrap().contains("virsh list"));
        let f = refusal(
            &d,
            "error: Failed to attach device from /dev/stdin\nerror: internal error: No more available PCI slots",
        );
        assert!(
            f.what.contains("; internal error") && f.advice.unwrap().contains("pcie-root-port")
        );
    }
}

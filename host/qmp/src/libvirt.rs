//! Windows in and out of a libvirt domain, by `virsh`: libvirt then knows of the device.

use crate::Fault;
use crate::limits::{VIRSH_AGAIN, VIRSH_CHANGE, VIRSH_LOOK};
use crate::plug::Plugged;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_hostnet::child::{self, ChildTrouble, Said};

/// A domain and how to reach it.
pub struct Domain<'a> {
    pub name: &'a str,
    /// Where libvirt is, as virsh takes it; else virsh's own default.
    pub connect: Option<&'a str>,
    /// Change its stored description too.
    pub persistent: bool,
}

/// What goes into a domain that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shmem {
    /// What it is called in libvirt.
    pub name: String,
    /// libvirt's element for it.
    pub xml: String,
}

impl Shmem {
    /// What a server at this socket gives, as an ivshmem device with so many doorbells.
    pub fn ivshmem_doorbell(name: &str, socket: &Path, vectors: u16) -> Self {
        let socket = attribute(&socket.display().to_string());
        let xml = format!(
            "<shmem name='{name}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{socket}'/>\n  <msi vectors='{vectors}' ioeventfd='on'/>\n</shmem>"
        );
        Shmem { name: name.to_owned(), xml }
    }

    /// The file of this name in the only folder in which libvirt looks for one, [`FOLDER`].
    pub fn ivshmem_plain(name: &str, bytes: u64) -> Self {
        let (unit, size) = match bytes {
            b if b.is_multiple_of(1 << 20) => ("M", b >> 20),
            b => ("B", b),
        };
        let xml = format!(
            "<shmem name='{name}'>\n  <model type='ivshmem-plain'/>\n  <size unit='{unit}'>{size}</size>\n</shmem>"
        );
        Shmem { name: name.to_owned(), xml }
    }
}

/// The only folder in which libvirt looks for the memory of an ivshmem-plain device.
pub const FOLDER: &str = "/dev/shm";

/// A value within an attribute in single quotes.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

impl Domain<'_> {
    fn virsh(&self, words: &[&str], stdin: &str, at_most: Duration) -> Result<Said, Fault> {
        let mut all = vec!["--quiet"];
        if let Some(uri) = self.connect {
            all.extend(["--connect", uri]);
        }
        all.extend(words);
        child::run("virsh", &all, stdin, at_most).map_err(|trouble| match trouble {
            ChildTrouble::NotHere(_) => {
                Fault::failed("virsh is not here: libvirt is asked through it").advise(
                    "install it (apt install libvirt-clients), or reach QEMU itself by its control socket",
                )
            }
            ChildTrouble::NotStarted(why) => Fault::failed(why),
            // libvirt hangs: that says nothing of the domain.
            ChildTrouble::Killed(why) => Fault::failed(why),
        })
    }

    fn must(&self, words: &[&str], stdin: &str, at_most: Duration) -> Result<String, Fault> {
        let said = self.virsh(words, stdin, at_most)?;
        match said.ok {
            true => Ok(said.stdout),
            false => Err(self.refusal(&said.stderr)),
        }
    }

    /// Whether it runs, or its state.
    fn state(&self) -> Result<Result<(), String>, Fault> {
        let state = self.must(&["domstate", "--", self.name], "", VIRSH_LOOK)?;
        match ["running", "paused", "idle", "pmsuspended"].contains(&state.trim()) {
            true => Ok(Ok(())),
            false => Ok(Err(state.trim().to_owned())),
        }
    }

    /// The running domain's description.
    fn xml(&self) -> Result<String, Fault> {
        if let Err(state) = self.state()? {
            return Err(Fault::failed(format!(
                "domain {} is not running: it is {state}",
                self.name
            ))
            .advise(format!(
                "start it (virsh start {0}), or put what `vfun client show` prints into it with virsh edit {0}",
                self.name
            )));
        }
        self.must(&["dumpxml", "--", self.name], "", VIRSH_LOOK)
    }

    fn change(&self, what: &str, xml: &str) -> Result<(), Fault> {
        let scope = if self.persistent { "--persistent" } else { "--live" };
        self.must(&[what, scope, "--", self.name, "/dev/stdin"], xml, VIRSH_CHANGE).map(drop)
    }

    /// Plugs a window in. `is_free` is as in [`plug::attach`](crate::plug::attach).
    ///
    /// # Errors
    /// libvirt cannot be reached, or refuses; or `is_free` refuses.
    pub fn attach<E: From<Fault>>(
        &self,
        window: &Shmem,
        is_free: impl FnOnce() -> Result<(), E>,
    ) -> Result<Plugged, E> {
        let before = self.xml()?;
        if let Some(element) = element(&before, &window.name) {
            let pci = address(&element);
            return Ok(Plugged { already: true, pci, port: None, took: None });
        }
        is_free()?;
        // libvirt takes this device for one of conventional PCI and would not give
        // it a port of PCI Express by itself.
        let shmem = match free_port(&before) {
            Some(bus) => window.xml.replace(
                "</shmem>",
                &format!("  <address type='pci' domain='0x0000' bus='{bus:#04x}' slot='0x00' function='0x0'/>\n</shmem>"),
            ),
            None => window.xml.clone(),
        };
        let began = Instant::now();
        self.change("attach-device", &shmem)?;
        let took = Some(began.elapsed());
        let pci = element(&self.xml()?, &window.name).and_then(|e| address(&e));
        Ok(Plugged { already: false, pci, port: None, took })
    }

    /// Takes a window out. A domain that does not run has none.
    ///
    /// # Errors
    /// libvirt cannot be reached, or refuses; or the VM does not let go of it in time.
    pub fn detach(&self, name: &str, at_most: Duration) -> Result<Plugged, Fault> {
        let already = Plugged { already: true, pci: None, port: None, took: None };
        if !self.persistent && self.state()?.is_err() {
            return Ok(already);
        }
        let Some(shmem) = element(&self.xml()?, name) else {
            return Ok(already);
        };
        let began = Instant::now();
        self.change("detach-device", &shmem)?;
        // libvirt asks the guest and does not wait for long.
        while element(&self.xml()?, name).is_some() {
            if began.elapsed() >= at_most {
                return Err(Fault::kept(&format!("domain {}", self.name), at_most));
            }
            std::thread::sleep(VIRSH_AGAIN);
        }
        let took = Some(began.elapsed());
        Ok(Plugged { already: false, pci: address(&shmem), port: None, took })
    }

    /// What libvirt's refusal means, and what to do.
    fn refusal(&self, stderr: &str) -> Fault {
        let sentence = stderr.trim().trim_start_matches("error: ");
        let has = |part: &str| sentence.contains(part);
        if has("failed to connect") || has("Failed to connect socket to '/") {
            return Fault::unreachable(format!("libvirt cannot be reached: {sentence}"))
                .advise("start libvirtd, or name another with --connect URI (virsh's own default is qemu:///system for root)");
        }
        let refused = format!("libvirt refused: {sentence}");
        if has("failed to get domain") || has("Domain not found") {
            return Fault::gone(refused).advise(match self.connect {
                Some(uri) => format!("`virsh -c {uri} list` shows the domains there"),
                None => "`virsh list` shows the domains; --connect names another libvirt".into(),
            });
        }
        let fault = Fault::failed(refused);
        if has("No more available PCI slots") || has("no available PCI slots") {
            return fault.advise(format!(
                "the domain needs a free port: virsh edit {}, add <controller type='pci' model='pcie-root-port'/>, and start it again",
                self.name
            ));
        }
        if has("Permission denied")
            || has("Failed to connect to '")
            || has("Failed to connect socket")
        {
            return fault.advise(
                "QEMU's user must be let at the socket or file and its folders: `vfun client show NAME` says how",
            );
        }
        fault
    }
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
    use crate::FaultKind;

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
        let f = d.refusal(
            "error: failed to connect to the hypervisor error: Failed to connect socket to '/run/libvirt/libvirt-sock': No such file or directory",
        );
        assert_eq!(f.kind, FaultKind::Unreachable);
        let f = d.refusal("error: failed to get domain 'vm1'");
        assert!(f.kind == FaultKind::Gone && f.advice.unwrap().contains("virsh list"));
        let f = d.refusal(
            "error: Failed to attach device from /dev/stdin error: internal error: No more available PCI slots",
        );
        assert!(f.what.contains("internal error") && f.advice.unwrap().contains("pcie-root-port"));
    }

    #[test]
    fn a_path_is_an_attribute_whatever_is_in_it() {
        let shmem = Shmem::ivshmem_doorbell("w", Path::new("/run/a'b&c<d"), 1);
        assert!(shmem.xml.contains("path='/run/a&apos;b&amp;c&lt;d'"), "{}", shmem.xml);
        assert!(shmem.xml.contains("vectors='1'"), "{}", shmem.xml);
    }
}

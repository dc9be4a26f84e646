//! A client's manifest, made from options.

use crate::fail::{Failure, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::IpAddr;
use vfun_admin::ClientRow;
use vfun_admin::links::{LinksOfClient, VmmAt};
use vfun_admin::ports::PortsOfClient;
use vfun_admin::rdma::RdmaView;
use vfun_wire::limits::CREDENTIAL_BYTES;
use vfun_wire::{header, names};

/// What the options say.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    pub kind: String,
    pub window: Option<String>,
    pub functions: Option<Vec<String>>,
    pub max_grants: Option<u32>,
    /// Callers over TCP, as a manifest says it: nobody, `true`, or `"open"`.
    pub tcp: Option<toml::Value>,
    pub secret: Option<Vec<u8>>,
    pub hardware: bool,
    pub uids: Vec<u32>,
    /// Its transport's name; the manager's default if none.
    pub transport: Option<String>,
    pub spin: bool,
    /// Its VMs; the one of a manifest that names none, if it is empty.
    pub vms: Vec<WantedVm>,
    /// Addresses, memory and ports of VMs, and what `[rdma]` and `links` say, which no option
    /// changes.
    pub addresses: BTreeMap<String, IpAddr>,
    pub shared_memory: BTreeMap<String, String>,
    pub vmms: BTreeMap<String, VmmAt>,
    pub ports: PortsOfClient,
    pub rdma: RdmaView,
    pub links: LinksOfClient,
}

/// A VM: what is not said is as the client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedVm {
    pub name: String,
    pub window: Option<String>,
    pub transport: Option<String>,
}

impl WantedVm {
    /// One that is wired as its client says.
    pub fn named(name: &str) -> Self {
        WantedVm { name: name.to_owned(), window: None, transport: None }
    }

    /// The VMs that a client has, as they are; none if it has the one that needs no table.
    pub fn all_of(row: &ClientRow) -> Vec<Self> {
        let needs_none = row.vms.len() == 1 && row.vms[0].vm == row.name;
        let vms = row.vms.iter().filter(|_| !needs_none).map(|vm| WantedVm {
            name: vm.vm.clone(),
            window: Some(vm.window_bytes.to_string()),
            transport: Some(vm.transport.name().into()),
        });
        vms.collect()
    }

    fn table(&self, of: &Wanted) -> Result<toml::Table> {
        names::check(&self.name)
            .map_err(|e| Failure::usage(format!("--vm: the name '{}': {e}", self.name)))?;
        let mut t = toml::Table::new();
        wiring(&mut t, self.window.as_deref(), self.transport.as_deref())?;
        of.add_facts(&mut t, &self.name);
        Ok(t)
    }
}

/// `[rdma]`, if it says anything.
fn rdma(of: &RdmaView) -> Option<toml::Table> {
    let mut t = toml::Table::new();
    if let Some(network) = &of.network {
        t.insert("network".into(), network.clone().into());
    }
    for (key, most) in
        [("programs", of.programs), ("queue_pairs", of.queue_pairs), ("regions", of.regions)]
    {
        if let Some(most) = most.and_then(|most| i64::try_from(most).ok()) {
            t.insert(key.into(), most.into());
        }
    }
    if let Some(bytes) = of.memory {
        t.insert("memory".into(), bytes.to_string().into());
    }
    (!t.is_empty()).then_some(t)
}

/// Size of a window and transport, as keys of a table.
fn wiring(t: &mut toml::Table, window: Option<&str>, transport: Option<&str>) -> Result<()> {
    if let Some(window) = window {
        let bad = |e: String| Failure::usage(format!("--window: {e}"));
        let bytes = vfun_policy::size(window).map_err(bad)?;
        header::check_size(bytes).map_err(|e| bad(e.to_string()))?;
        t.insert("window".into(), bytes.to_string().into());
    }
    if let Some(transport) = transport {
        t.insert("transport".into(), transport.into());
    }
    Ok(())
}

impl Wanted {
    /// What no option changes of a VM, as keys of a table.
    fn add_facts(&self, t: &mut toml::Table, vm: &str) {
        if let Some(ports) = self.ports.get(vm) {
            let table = toml::Table::try_from(ports).expect("plain data");
            t.insert("ports".into(), table.into());
        }
        if let Some(address) = self.addresses.get(vm) {
            t.insert("address".into(), address.to_string().into());
        }
        if let Some(file) = self.shared_memory.get(vm) {
            t.insert("shared_memory".into(), file.clone().into());
        }
        match self.vmms.get(vm) {
            Some(VmmAt::Qmp(socket)) => {
                drop(t.insert("qmp".into(), socket.display().to_string().into()));
            }
            Some(VmmAt::Libvirt(domain)) => drop(t.insert("libvirt".into(), domain.clone().into())),
            None => {}
        }
    }

    /// A VM's client with the defaults.
    pub fn vm(name: &str) -> Self {
        Wanted {
            name: name.to_owned(),
            kind: "vm".into(),
            window: None,
            functions: None,
            max_grants: None,
            tcp: None,
            secret: None,
            hardware: true,
            uids: vec![],
            transport: None,
            spin: false,
            vms: vec![],
            addresses: BTreeMap::new(),
            shared_memory: BTreeMap::new(),
            vmms: BTreeMap::new(),
            ports: BTreeMap::new(),
            rdma: RdmaView::default(),
            links: LinksOfClient::default(),
        }
    }
}

/// The manifest. What the manager would refuse by line and column is refused
/// here by the name of its option.
pub fn text(w: &Wanted) -> Result<String> {
    let mut t = toml::Table::new();
    names::check(&w.name)
        .map_err(|e| Failure::usage(format!("the client's name '{}': {e}", w.name)))?;
    t.insert("name".into(), w.name.clone().into());
    t.insert("kind".into(), w.kind.clone().into());
    wiring(&mut t, w.window.as_deref(), w.transport.as_deref())?;
    if let Some(functions) = &w.functions {
        let bad = functions
            .iter()
            .find_map(|f| names::check(f).err().filter(|_| f != "*").map(|e| (f, e)));
        if let Some((f, e)) = bad {
            return Err(Failure::usage(format!("--functions: '{f}': {e}")));
        }
        t.insert("functions".into(), functions.clone().into());
    }
    if let Some(n) = w.max_grants {
        t.insert("max_grants".into(), i64::from(n).into());
    }
    if let Some(secret) = &w.secret {
        if secret.is_empty() || secret.len() > CREDENTIAL_BYTES {
            return Err(Failure::usage(format!(
                "a credential has 1 to {CREDENTIAL_BYTES} bytes, not {}",
                secret.len()
            )));
        }
        let hex: String = Sha256::digest(secret).iter().map(|b| format!("{b:02x}")).collect();
        t.insert("credential_sha256".into(), hex.into());
    }
    if let Some(tcp) = &w.tcp {
        t.insert("tcp".into(), tcp.clone());
    }
    if !w.hardware {
        t.insert("hardware".into(), false.into());
    }
    if w.spin {
        t.insert("spin".into(), true.into());
    }
    if !w.uids.is_empty() {
        let uids: Vec<i64> = w.uids.iter().map(|u| i64::from(*u)).collect();
        t.insert("uids".into(), uids.into());
    }
    if let Some(rdma) = rdma(&w.rdma) {
        t.insert("rdma".into(), rdma.into());
    }
    if w.links.off {
        t.insert("links".into(), false.into());
    }
    if !w.links.with.is_empty() {
        t.insert("links_with".into(), w.links.with.clone().into());
    }
    if w.vms.is_empty() {
        w.add_facts(&mut t, &w.name);
    } else {
        let table = |vm: &WantedVm| vm.table(w);
        let vms = w.vms.iter().map(|vm| Ok((vm.name.clone(), table(vm)?.into())));
        t.insert("vm".into(), toml::Value::Table(vms.collect::<Result<_>>()?));
    }
    Ok(t.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vfun_core::catalog::OverTcp;

    #[test]
    fn the_manager_reads_what_is_made_here() {
        let w = Wanted {
            window: Some("128MiB".into()),
            transport: Some("ivshmem-plain".into()),
            functions: Some(vec!["echo".into(), "sum".into()]),
            max_grants: Some(5),
            tcp: Some(true.into()),
            secret: Some(b"s3cret".to_vec()),
            hardware: false,
            uids: vec![1000, 64055],
            ..Wanted::vm("vm-1")
        };
        let c = vfun_core::manifest::client(Path::new("x"), &text(&w).unwrap(), 1).unwrap();
        assert_eq!((c.name.as_str(), c.window_bytes, c.max_grants), ("vm-1", 128 << 20, 5));
        assert_eq!(
            (c.tcp, c.hardware, c.uids.as_slice()),
            (OverTcp::Proven, false, &[1000, 64055][..])
        );
        assert_eq!(c.functions, ["echo", "sum"]);
        assert_eq!(c.vms[0].transport.name(), "ivshmem-plain");
        assert_eq!(c.credential_sha256.unwrap()[..2], [0x1e, 0xc1]);
        let c = vfun_core::manifest::client(Path::new("x"), &text(&Wanted::vm("a")).unwrap(), 1)
            .unwrap();
        assert_eq!(c.vms[0].transport.name(), "ivshmem-doorbell", "unless told otherwise");
        assert!(
            c.hardware
                && c.tcp == OverTcp::Nobody
                && c.credential_sha256.is_none()
                && c.may_use("echo")
        );
    }

    #[test]
    fn what_no_option_changes_is_kept() {
        let rdma = RdmaView {
            backend: "software".into(),
            network: Some("10.0.0.0/24".into()),
            programs: Some(3),
            queue_pairs: None,
            regions: Some(7),
            memory: Some(1 << 20),
        };
        let read =
            |w: &Wanted| vfun_core::manifest::client(Path::new("x"), &text(w).unwrap(), 1).unwrap();
        let addresses = BTreeMap::from([("a".to_owned(), "10.0.0.5".parse().unwrap())]);
        let shared_memory = BTreeMap::from([("a".to_owned(), "/dev/shm/a".to_owned())]);
        let vmms = BTreeMap::from([("a".to_owned(), VmmAt::Qmp("/run/a.qmp".into()))]);
        let own = Wanted { rdma, addresses, shared_memory, vmms, ..Wanted::vm("a") };
        let c = read(&own);
        assert_eq!(c.addresses, own.addresses);
        assert_eq!(c.shared_memory["a"].to_string(), "/dev/shm/a");
        assert_eq!(c.vmms, own.vmms);
        let domain = BTreeMap::from([("a".to_owned(), VmmAt::Libvirt("web-a".into()))]);
        assert_eq!(read(&Wanted { vmms: domain.clone(), ..Wanted::vm("a") }).vmms, domain);
        assert_eq!(c.rdma.network.unwrap().to_string(), "10.0.0.0/24");
        let settings: Vec<_> =
            c.rdma.settings().map(|(name, most)| format!("{name}={most}")).collect();
        assert_eq!(settings, ["programs=3", "regions=7", "memory=1048576"]);
        assert!(c.links.on && c.links.with.is_empty());
        let with = LinksOfClient { off: false, with: vec!["db".into()] };
        assert_eq!(read(&Wanted { links: with, ..Wanted::vm("a") }).links.with, ["db"]);
        let off = LinksOfClient { off: true, with: vec![] };
        assert!(!read(&Wanted { links: off, ..Wanted::vm("a") }).links.on);
        let named = Wanted { vms: vec![WantedVm::named("a"), WantedVm::named("b")], ..own };
        assert_eq!(read(&named).addresses, named.addresses);
    }

    #[test]
    fn vms_are_tables_and_are_kept_as_they_are() {
        let b = WantedVm { window: Some("2MiB".into()), ..WantedVm::named("b.1") };
        let w = Wanted { vms: vec![WantedVm::named("vm-1"), b], ..Wanted::vm("vm-1") };
        let read = |w: &Wanted| {
            let text = text(w).unwrap();
            vfun_core::manifest::client(Path::new("x"), &text, 1).unwrap().vms
        };
        let vms = read(&w);
        let shown = |v: &vfun_core::catalog::Vm| (v.name.clone(), v.window_bytes >> 20);
        assert_eq!(
            vms.iter().map(shown).collect::<Vec<_>>(),
            [("vm-1".into(), 64), ("b.1".into(), 2)]
        );
        let row = |v: &vfun_core::catalog::Vm| vfun_admin::VmRow {
            vm: v.name.clone(),
            window_bytes: v.window_bytes,
            transport: v.transport,
            window_file: None,
            socket: None,
            connected: false,
        };
        let mut client = super::super::wiring::tests::row("ivshmem-doorbell", "/w", 1 << 20);
        (client.name, client.vms) = ("vm-1".into(), vms.iter().map(row).collect());
        let again = Wanted { vms: WantedVm::all_of(&client), ..w };
        assert_eq!(read(&again), vms);
        client.vms.truncate(1);
        assert_eq!(WantedVm::all_of(&client), []);
    }

    #[test]
    fn wrong_options_are_named() {
        let why = |w: Wanted| text(&w).unwrap_err().what;
        assert!(why(Wanted::vm("a/b")).contains("'a/b'"));
        let vms = vec![WantedVm::named("a@b")];
        assert!(why(Wanted { vms, ..Wanted::vm("a") }).starts_with("--vm: the name 'a@b'"));
        assert!(
            why(Wanted { window: Some("3MiB".into()), ..Wanted::vm("a") }).starts_with("--window")
        );
        assert!(
            why(Wanted { window: Some("lots".into()), ..Wanted::vm("a") }).starts_with("--window")
        );
        assert!(
            why(Wanted { functions: Some(vec!["a b".into()]), ..Wanted::vm("a") })
                .contains("'a b'")
        );
        assert!(
            why(Wanted { secret: Some(vec![b'x'; 65]), ..Wanted::vm("a") }).contains("1 to 64")
        );
    }
}

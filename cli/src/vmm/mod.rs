//! What a VMM is told so that its VM gets its window: a file for each
//! transport of `vfun_admin::transport`.

mod dir;
mod ivshmem_doorbell;
mod ivshmem_plain;
mod pmem;

use std::path::Path;
use vfun_admin::{ClientRow, Transport, VmName, WindowRow};
use vfun_qmp::libvirt::Shmem;
use vfun_qmp::plug::HotPlug;

/// A VM's window, for its VMM.
pub struct Window<'a> {
    /// What its device, character device and memory are called in QEMU.
    pub id: String,
    /// What it is called in libvirt, and in the folder of windows.
    pub name: String,
    /// The socket or file.
    pub path: &'a Path,
    /// Size of the window, bytes.
    pub bytes: u64,
    vmm: &'static dyn Vmm,
}

/// What VMMs are told for one transport.
trait Vmm: Sync {
    /// QEMU's arguments: what stands behind the device, and the device; none if QEMU
    /// has no such device.
    fn qemu(&self, w: &Window<'_>) -> Option<[String; 4]>;
    /// The same for a QEMU that runs.
    fn hot_plug(&self, w: &Window<'_>) -> Option<HotPlug>;
    /// libvirt's element; none if libvirt cannot give this window to a domain.
    fn libvirt(&self, w: &Window<'_>) -> Option<Shmem>;
    /// Why there is none, and what to do.
    fn not_by_libvirt(&self) -> &'static str {
        ""
    }
    /// What libvirt's user must be allowed, for people.
    fn permission(&self, w: &Window<'_>) -> String;
    /// What else people should know, and other VMMs; may be empty.
    fn others(&self, _: &Window<'_>) -> String {
        String::new()
    }
}

/// The window of the VM whose wiring a row shows; none on the host.
pub fn window(c: &ClientRow) -> Option<Window<'_>> {
    let vm = c.vm_name()?;
    let path = c.socket.as_deref().or(c.window_file.as_deref())?;
    let vmm: &'static dyn Vmm = match c.transport {
        Transport::Host => return None,
        Transport::IvshmemDoorbell => &ivshmem_doorbell::Doorbell,
        Transport::IvshmemPlain => &ivshmem_plain::Plain,
        Transport::Pmem => &pmem::Pmem,
        Transport::Dir => &dir::Dir,
    };
    Some(Window { id: vm.device_id(), name: name(&vm), path, bytes: c.window_bytes, vmm })
}

/// A further window, for its VMM: memory, and no doorbells.
pub fn further(w: &WindowRow) -> Window<'_> {
    let id = w.device_id();
    Window { name: id.clone(), id, path: &w.file, bytes: w.bytes, vmm: &ivshmem_plain::Plain }
}

/// What a VM's window is called in libvirt.
pub fn name(vm: &VmName) -> String {
    format!("virtfun-{}", vm.file_name())
}

impl Window<'_> {
    /// QEMU's arguments.
    pub fn qemu(&self) -> Option<[String; 4]> {
        self.vmm.qemu(self)
    }
    /// The same for a QEMU that runs.
    pub fn hot_plug(&self) -> Option<HotPlug> {
        self.vmm.hot_plug(self)
    }
    /// libvirt's element for it, if there is one.
    pub fn libvirt(&self) -> Option<Shmem> {
        self.vmm.libvirt(self)
    }
    /// Why there is none, and what to do.
    pub fn not_by_libvirt(&self) -> &'static str {
        self.vmm.not_by_libvirt()
    }
    /// What libvirt's user must be allowed, for people.
    pub fn permission(&self) -> String {
        self.vmm.permission(self)
    }
    /// What else people should know, and other VMMs; may be empty.
    pub fn others(&self) -> String {
        self.vmm.others(self)
    }
    /// The path as QEMU's options take it: a comma is doubled.
    fn qemu_path(&self) -> String {
        self.path.display().to_string().replace(',', ",,")
    }
}

/// A size as QEMU takes it.
fn qemu_size(bytes: u64) -> String {
    match bytes {
        b if b.is_multiple_of(1 << 20) => format!("{}M", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}

/// Memory of a file, as the argument of `-object`.
fn memory_argument(w: &Window<'_>, bytes: u64) -> String {
    let (id, path) = (&w.id, w.qemu_path());
    format!("memory-backend-file,id={id},share=on,mem-path={path},size={}", qemu_size(bytes))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

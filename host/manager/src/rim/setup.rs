//! Brings a manager up.

use super::helpers::Helper;
use super::{Daemon, Kind, clock};
use crate::core::catalog::Client;
use crate::core::{Catalog, Core};
use crate::fair::Rates;
use crate::limits::CONNECTS;
#[cfg(test)]
use crate::limits::LINK_IDLE;
use crate::numbers::{self, Found};
use crate::process;
use crate::record::{LeftService, Records};
use crate::tree::{self, Tree};
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use vfun_admin::links::LinkSettings;
use vfun_keeper::{Keeper, Kept};
use vfun_kinds::Program;
use vfun_rim::Rim;
use vfun_rim::methods::*;
use vfun_rim::take_up::EarlierManager;
use vfun_supervise::Driver;

/// How a manager is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// How VFs are leased.
    pub leases: vfun_leases::Settings,
    /// Root of the published tree.
    pub root: PathBuf,
    /// Directories of functions' manifests, besides those that were added.
    pub functions: Vec<PathBuf>,
    /// Where driver libraries are that a manifest names without a path.
    pub drivers: PathBuf,
    /// Below which services may write.
    pub writes: PathBuf,
    /// The program that serves functions.
    pub service_program: PathBuf,
    /// The folder of the programs that serve other kinds; each may be missing.
    pub service_programs: PathBuf,
    /// The program that puts them into their sandbox.
    pub jail_program: PathBuf,
    /// Layers of the sandbox to leave out, to measure what they cost.
    pub without: std::collections::BTreeSet<vfun_jail::Layer>,
    /// Where VMs' windows are.
    pub window_dir: PathBuf,
    /// Address for callers over TCP, if any.
    pub tcp: Option<String>,
    /// What these callers' gateway shows them by TLS, if anything.
    pub tcp_tls: TlsFiles,
    /// Path of `vfun-gateway`.
    pub gateway_program: PathBuf,
    /// Path of `vfun-keeper`.
    pub keeper_program: PathBuf,
    /// Address on which Prometheus finds the counters, if any.
    pub metrics: Option<String>,
    /// The program that shows them.
    pub metrics_program: PathBuf,
    /// Whether VFs of network cards are lent to VMs.
    pub nics: bool,
    /// The tap devices of VMs' ports are made here.
    pub ports: bool,
    /// Whether switches are watched for direct links between VMs.
    pub links: bool,
    /// How these are made.
    pub link_settings: LinkSettings,
    /// The program that watches them.
    pub links_program: PathBuf,
    /// The program that lends them.
    pub nics_program: PathBuf,
}

/// Files of the gateway's TLS, which it alone reads.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// File (PEM) of the gateway's certificate.
    pub cert: Option<PathBuf>,
    /// File (PEM) of the gateway's private key.
    pub key: Option<PathBuf>,
    /// Issuers of callers' certificates.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// As arguments of the gateway.
    fn arguments(&self) -> Vec<OsString> {
        let all = [
            ("--tls-cert", &self.cert),
            ("--tls-key", &self.key),
            ("--tls-client-ca", &self.client_ca),
        ];
        all.into_iter()
            .filter_map(|(option, file)| Some([option.into(), file.clone()?.into_os_string()]))
            .flatten()
            .collect()
    }

    /// That they will not do is said at the start, not by a gateway that keeps
    /// ending. It looks for itself, as the user and with the rights that it will
    /// have: the manager has no part in keys.
    pub(super) fn check(&self, gateway: &Path) -> Result<(), StartError> {
        let arguments = self.arguments();
        if arguments.is_empty() {
            return Ok(());
        }
        let out = Command::new(gateway)
            .args(arguments)
            .args(["--listen", "none", "--check"])
            .output()
            .map_err(file(gateway))?;
        match out.status.success() {
            true => Ok(()),
            false => Err(StartError::Tls(String::from_utf8_lossy(&out.stderr).trim().to_owned())),
        }
    }
}

impl Config {
    /// Where a kind's program is, whether it is there or not.
    pub(super) fn path_of(&self, program: &Program) -> PathBuf {
        match *program == vfun_kinds::NATIVE_PROGRAM {
            true => self.service_program.clone(),
            false => self.service_programs.join(program.name),
        }
    }

    /// The program that serves functions with such a driver, or why there is none.
    pub(super) fn program(&self, driver: &Driver) -> Result<PathBuf, String> {
        let program = vfun_kinds::of(driver).program;
        let path = self.path_of(program);
        // Without the native one no manager starts; a later fault is the launcher's to tell.
        match path.is_file() || *program == vfun_kinds::NATIVE_PROGRAM {
            true => Ok(path),
            // Callers are not told where this host has its programs.
            false => Err(format!(
                "{} are served by {}, which this host does not have: `{}` builds it",
                program.serves, program.name, program.made_by
            )),
        }
    }
}

/// Why a manager did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or directory.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Another manager has this root.
    #[error("another manager already serves {}: stop it, or choose another --root", .0.display())]
    Running(PathBuf),
    /// The database cannot be opened or read.
    #[error("the database {}: {source}", path.display())]
    Database {
        path: PathBuf,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// A program is where this user may not look.
    #[error("the {what} {} cannot be reached: {source}. As root vfund gives up the right to pass where only another user may: run it as that user, install it (`make install`), or let others pass through the folders above it (`chmod o+x`)", program.display())]
    HiddenProgram {
        /// What it is for.
        what: &'static str,
        /// Where it should be.
        program: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A program is missing.
    #[error("the {what} {} is not there: build it (`cargo build --release`), or install it beside vfund", program.display())]
    NoProgram {
        /// What it is for.
        what: &'static str,
        /// Where it was looked for.
        program: PathBuf,
    },
    /// The gateway cannot use its files for TLS.
    #[error("callers over TCP would get no TLS: {0}")]
    Tls(String),
    /// The root is another user's.
    #[error("the root {}: {source}. Run vfund as root, or choose a folder of your own with --root DIR (or VFUN_ROOT)", root.display())]
    Root {
        root: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A folder that was named cannot be used.
    #[error("{option} {}: {source}. Name a folder that is there and that this user may {}", path.display(), match *option { "--functions" | "--drivers" => "read", _ => "write into" })]
    Folder {
        /// The option of `vfund` that named it.
        option: &'static str,
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// An address that was named cannot be had.
    #[error(
        "{option} {address}: {source}. Name an address of this machine and a port that is free, such as 127.0.0.1:7733 (`ss -ltnp` shows who has which)"
    )]
    Address {
        /// The option of `vfund` that named it.
        option: &'static str,
        address: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// The system refused something that every manager needs.
    #[error("the manager could not be set up: {0}")]
    Os(#[from] std::io::Error),
}

impl StartError {
    /// The exit status that tells it: 2 where the command line, or what it names, is
    /// to be corrected.
    pub fn exit_status(&self) -> u8 {
        match self {
            StartError::Database { .. } | StartError::Os(_) | StartError::File { .. } => 1,
            _ => 2,
        }
    }

    pub(super) fn root(root: &Path, source: std::io::Error) -> Self {
        let root = root.to_owned();
        match source.kind() {
            std::io::ErrorKind::PermissionDenied => StartError::Root { root, source },
            _ => StartError::File { path: root, source },
        }
    }

    pub(super) fn folder(option: &'static str, path: &Path, source: std::io::Error) -> Self {
        StartError::Folder { option, path: path.to_owned(), source }
    }

    pub(super) fn address(option: &'static str, address: &str, source: std::io::Error) -> Self {
        StartError::Address { option, address: address.to_owned(), source }
    }
}

fn file<'a>(path: &'a Path) -> impl FnOnce(std::io::Error) -> StartError + 'a {
    move |source| StartError::File { path: path.to_owned(), source }
}

/// Whether it failed as nobody serves the keeper's socket, or there is none.
fn no_keeper(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(e.kind(), ConnectionRefused | NotFound)
}

fn listen(path: &Path, mode: u32) -> Result<UnixListener, StartError> {
    let _ = std::fs::remove_file(path); // an earlier manager's; this one holds the lock
    let listener = UnixListener::bind(path).map_err(file(path))?;
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(file(path))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Windows and services take descriptors: as many as the system allows, where
/// the usual soft limit of 1024 would end at about a hundred windows.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit of open descriptors could not be raised: {e}");
    }
}

/// What a manager hears, besides its windows and services.
struct Open {
    admin: UnixListener,
    programs: UnixListener,
    signals: UnixStream,
    hangups: UnixStream,
    epoll: OwnedFd,
}

impl Open {
    fn of(tree: &Tree) -> Result<Self, StartError> {
        let admin = listen(&tree.admin_socket(), 0o600)?;
        // Anybody may ask for a window; who gets one is policy (uids).
        let programs = listen(&tree.host_socket(), 0o666)?;
        let (signals, writer) = UnixStream::pair()?;
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        let (hangups, writer) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGHUP, writer)?;
        hangups.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
        Ok(Open { admin, programs, signals, hangups, epoll })
    }
}

impl Daemon {
    /// Takes a root over: ends what an earlier manager left, lays windows out,
    /// listens.
    pub fn start(config: Config) -> Result<Self, StartError> {
        // What a keeper has may have to be gone on with: see `find_keeper`.
        if !tree::keeper_socket(&config.root).exists() {
            config.check()?;
        }
        raise_descriptor_limit();
        let tree = Tree::new(&config.root).map_err(|e| StartError::root(&config.root, e))?;
        let lock_path = tree.lock();
        let used_before = lock_path.exists();
        let lock = File::create(&lock_path).map_err(|e| StartError::root(&config.root, e))?;
        if lock.try_lock().is_err() {
            return Err(StartError::Running(config.root));
        }
        let path = tree.database();
        let database = |source| StartError::Database { path: path.clone(), source };
        let (records, found) = numbers::open(&path, used_before).map_err(database)?;
        let generation = records.next_generation().map_err(database)?;
        let open = Open::of(&tree)?;
        let mut daemon = Daemon::new(config, tree, lock, records, generation, open)?;
        daemon.listen_to_what_is_there()?;
        daemon.begin(found)?;
        Ok(daemon)
    }

    /// A manager of a root that has nothing yet.
    fn new(
        config: Config,
        tree: Tree,
        lock: File,
        records: Records,
        generation: u32,
        open: Open,
    ) -> Result<Self, StartError> {
        Ok(Daemon {
            records,
            rim: Rim::new(Core::new(generation, Catalog::default()), generation, clock()),
            began: Instant::now(),
            further: Default::default(),
            owned: BTreeMap::new(),
            down: vec![],
            replaced: Default::default(),
            last_files: Instant::now(),
            last_logs: Instant::now(),
            counts: super::folders::Counts::new(),
            last_threads: Instant::now(),
            book: super::records::PendingRecords::new(),
            found: None,
            lacks: vec![],
            unheld: Default::default(),
            said_full: None,
            keeper_due: None,
            attaches: super::attach::Attaches::new(),
            newcomers: 0,
            connects: Rates::new(CONNECTS),
            ringers: vec![],
            vm_sockets: BTreeMap::new(),
            leaving: vec![],
            admins: BTreeMap::new(),
            pending: BTreeMap::new(),
            helpers: vec![],
            taps: super::taps::Taps::new(&config.root, tree.ports_socket(), config.ports),
            switches: super::switches::Switches::new(),
            links: Default::default(),
            nics: config.nics.then(super::nics::NicsRelay::new),
            verdicts: config.links.then(super::verdicts::Verdicts::default),
            answered: BTreeMap::new(),
            last_progress: Instant::now(),
            ending: false,
            submissions: super::modules::Submissions::new()?,
            tokens: crate::tokens::Tokens::none(&tree.tokens()),
            policy_fault: None,
            tokens_fault: None,
            clock_apart: 0,
            audit: crate::audit::Audit::open(&tree.audit())?,
            again: false,
            trial: None,
            again_by: None,
            not_again: None,
            keeper: None,
            launching: BTreeMap::new(),
            strays: BTreeMap::new(),
            jails: super::jails::Jails::find(&config.root, config.without.clone()),
            forbidden: BTreeMap::new(),
            config,
            spare: super::attach::spare(),
            admin_listener: open.admin,
            host_listener: open.programs,
            signals: open.signals,
            hangups: open.hangups,
            epoll: open.epoll,
            tree,
            _lock: lock,
        })
    }

    fn listen_to_what_is_there(&self) -> Result<(), StartError> {
        let input = epoll::EventFlags::IN;
        self.watch(&self.admin_listener, Kind::AdminListener, 0, input)?;
        self.watch(&self.host_listener, Kind::HostListener, 0, input)?;
        self.watch(&self.signals, Kind::Signal, 0, input)?;
        self.watch(&self.hangups, Kind::Hangup, 0, input)?;
        self.watch_submissions()?;
        Ok(())
    }

    /// Reads what is offered to whom, goes on where an earlier manager was, and gives
    /// each client what its window needs.
    fn begin(&mut self, found: Found) -> Result<(), StartError> {
        let lost = matches!(found, Found::Lost(_));
        if let Found::Mended(what) | Found::Lost(what) = found {
            tracing::error!("{what}");
            self.found = Some(what);
        }
        let (mut catalog, wrong) = self.read_catalog();
        self.read_policy(&mut catalog);
        self.read_submitted(&mut catalog);
        for w in wrong {
            tracing::error!("manifest refused: {w}");
        }
        let clients: Vec<_> = catalog.clients.values().cloned().collect();
        let goes_on = self.take_over(catalog, lost)?;
        // Before anything is kept: what a manager leaves without its own note is of layout 1.
        self.note_changes();
        if lost && let Err(e) = self.records.has_begun() {
            self.records_fail(format!("the database: {e}"));
        }
        self.note_numbers();
        if self.config.tcp.is_some() {
            self.warn_of_clients_without_proof();
        }
        let vms = clients.iter().flat_map(Client::vms_of);
        vms.for_each(|vm| self.prepare_at_start(vm));
        for w in self.read_further() {
            tracing::error!("manifest refused: {w}");
        }
        self.look_after_further();
        self.settle();
        self.find_agents();
        self.find_switches();
        self.read_links_off();
        self.find_links();
        self.start_helpers(goes_on)
    }

    /// Takes over from an earlier manager of this root, if one left anything.
    /// Whether there was a keeper.
    fn take_over(&mut self, catalog: Catalog, lost: bool) -> Result<bool, StartError> {
        let path = self.tree.database();
        let database = |source| StartError::Database { path: path.clone(), source };
        let (keeper, kept) = self.find_keeper()?;
        let goes_on = kept.is_some();
        self.watch(&keeper, Kind::KeeperEnd, 0, epoll::EventFlags::RDHUP)?;
        let kept = kept.into_iter().flatten().map(|k| (k.name, k.note, k.fds));
        let mut left = EarlierManager::of(kept);
        let notes = left.core.iter().map(|(name, note)| (name.as_str(), note.as_str()));
        let restored = match lost && !left.is_empty() {
            // Its clients are numbers that nobody knows any more.
            true => Err("the database and its numbers were lost".into()),
            false => left.check_layout().and_then(|()| {
                Core::restore(self.now(), self.rim.generation, catalog.clone(), notes)
            }),
        };
        match restored {
            Ok(core) => self.rim.core = core,
            Err(e) => {
                tracing::error!(
                    "what the keeper has cannot be read, so everything starts again, empty: {e}"
                );
                let forget = |name: String| vfun_keeper::Change { name, note: None };
                keeper.change(left.names().map(forget).collect())?;
                super::keep::end_services(&left);
                left = EarlierManager::of([]);
                self.rim.core = Core::new(self.rim.generation, catalog);
            }
        }
        if let Some(ms) = crate::fault::heartbeat_dead_ms() {
            self.rim.core.miss_heartbeats_after(ms);
        }
        // Checked by whoever made the configuration; wrong ones leave what there is.
        if let Err(e) = self.rim.core.set_leases(self.config.leases) {
            tracing::warn!("leases are given as without options: {e}");
        }
        self.keeper = Some(keeper);
        self.restate_grants().map_err(database)?;
        let services = self.records.left_services().map_err(database)?;
        if left.is_empty() {
            self.end_left_services(&services);
            self.find_strays();
        } else {
            for (name, fds) in std::mem::take(&mut left.owned) {
                let lock = fds.into_iter().next();
                self.owned.extend(lock.map(|fd| (name, super::wiring::owner::Owned::kept(fd))));
            }
            self.links.were_left(std::mem::take(&mut left.links));
            let alive = self.take_up(left);
            self.end_left_services(&services);
            tracing::info!(
                windows = self.rim.windows.len(),
                services = alive.len(),
                grants = self.rim.core.totals().grants,
                "goes on where another manager was"
            );
            self.find_strays();
            self.resume(alive);
        }
        Ok(goes_on)
    }

    /// Has the records and the tree say which grants there are now.
    fn restate_grants(&mut self) -> rusqlite::Result<()> {
        let go_on = self.rim.core.grant_records();
        let ended = self.records.end_left_grants(&go_on)?;
        if ended > 0 {
            tracing::warn!(
                "{ended} grants of an earlier manager are gone; their apps connect again"
            );
        }
        self.records.restate(&go_on)?;
        let shown = self
            .tree
            .clear_grants()
            .and_then(|()| go_on.iter().try_for_each(|g| self.tree.grant(g)));
        if let Err(e) = shown {
            self.records_fail(format!("the tree: {e}"));
        }
        Ok(())
    }

    /// The keeper of an earlier manager of this root with what it has; or a new one,
    /// where all that the command line names must be there.
    fn find_keeper(&mut self) -> Result<(Keeper, Option<Vec<Kept>>), StartError> {
        let socket = self.tree.keeper_socket();
        let found = match Keeper::connect(&socket) {
            Err(e) if no_keeper(&e) => {
                self.config.check()?;
                self.config.check_addresses()?;
                None
            }
            found => Some(found),
        };
        if found.is_some() {
            self.lacks = self.config.lacks();
            for what in &self.lacks {
                tracing::warn!("goes on without what it was given: {what}");
            }
        }
        let kept = match found {
            Some(Ok((keeper, kept))) => return Ok((keeper, Some(kept))),
            Some(Err(e)) => {
                tracing::error!(
                    "the keeper that is there does not answer, so everything starts again, empty: {e}"
                );
                Some(vec![])
            }
            None => None,
        };
        let program = &self.config.keeper_program;
        Ok((Keeper::start(program, &socket).map_err(file(program))?, kept))
    }

    /// Ends the services of an earlier manager that were not taken up. Before
    /// anything is done about what they served: one that goes on would compute
    /// calls that were answered for it, in pages that are another's.
    pub(super) fn end_left_services(&mut self, services: &[LeftService]) {
        for s in services {
            if self.rim.services.values().any(|p| p.pid == s.pid) {
                continue;
            }
            if process::end_left(s.pid, s.started) {
                tracing::warn!(pid = s.pid, "ended a service that an earlier manager left");
            }
            let _ = self.records.service(s.pid, None);
        }
    }

    /// Those that cannot be started are tried again where a manager goes on.
    fn start_helpers(&mut self, goes_on: bool) -> Result<(), StartError> {
        let mut helpers = vec![];
        if let Some(tcp) = &self.config.tcp {
            let socket = self.tree.host_socket();
            let mut arguments: Vec<OsString> =
                vec!["--listen".into(), tcp.into(), "--socket".into(), socket.into()];
            arguments.extend(self.config.tcp_tls.arguments());
            helpers.push(Helper::new(
                "gateway for callers over TCP",
                &self.config.gateway_program,
                arguments,
            ));
        }
        if let Some(metrics) = &self.config.metrics {
            let socket = self.tree.admin_socket();
            helpers.push(Helper::new(
                "process that shows the metrics",
                &self.config.metrics_program,
                vec!["--listen".into(), metrics.into(), "--socket".into(), socket.into()],
            ));
        }
        helpers.extend(self.config.nics.then(|| self.nics_helper()));
        helpers.extend(self.config.links.then(|| self.links_helper()));
        if let Some(what) = self.config.lacks_for_nics() {
            tracing::warn!("{what}");
            self.lacks.push(what);
        }
        for helper in helpers {
            let program = helper.program().to_owned();
            if let Err(e) = self.add_helper(helper)
                && !goes_on
            {
                return Err(file(&program)(e));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Config {
    /// One for tests, with everything in one folder.
    pub(super) fn in_folder(dir: &Path) -> Self {
        Config {
            leases: Default::default(),
            root: dir.into(),
            functions: vec![],
            drivers: dir.into(),
            writes: dir.join("writes"),
            service_program: dir.join("vfun-service"),
            service_programs: dir.into(),
            jail_program: dir.join("vfun-jail"),
            without: Default::default(),
            window_dir: dir.into(),
            tcp: None,
            tcp_tls: TlsFiles::default(),
            gateway_program: dir.join("vfun-gateway"),
            keeper_program: dir.join("vfun-keeper"),
            metrics: None,
            metrics_program: dir.join("vfun-metrics"),
            nics: false,
            ports: false,
            links: false,
            link_settings: LinkSettings {
                silence_ms: vfun_packet::limits::SILENCE_MS,
                idle_ms: LINK_IDLE.as_millis() as u64,
            },
            links_program: dir.join("vfun-links"),
            nics_program: dir.join("vfun-nics"),
        }
    }
}

#[cfg(test)]
impl Daemon {
    /// One of a new root, for tests: without a keeper, helpers and services.
    pub(super) fn in_folder(dir: &Path) -> Self {
        let config = Config::in_folder(dir);
        let tree = Tree::new(dir).expect("a folder of the test's own");
        let lock = File::create(tree.lock()).expect("a file");
        let (records, _) = numbers::open(&tree.database(), false).expect("a database");
        let generation = records.next_generation().expect("a number");
        let open = Open::of(&tree).expect("sockets");
        Daemon::new(config, tree, lock, records, generation, open).expect("a manager")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_driver_has_its_program_or_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::in_folder(dir.path());
        let wasm = Driver::Wasm { module: "m.wasm".into(), memory_bytes: 1 << 16 };
        let why = config.program(&wasm).unwrap_err();
        assert!(why.contains("vfun-service-wasm") && why.contains("make wasm"), "{why}");
        assert!(!why.contains('/'), "a guest hears of no path: {why}");
        let path = config.path_of(&vfun_kinds::WASM_PROGRAM);
        std::fs::write(&path, "").unwrap();
        assert_eq!(config.program(&wasm), Ok(path));
        assert_eq!(config.program(&Driver::Floor), Ok(config.service_program.clone()));
    }
}

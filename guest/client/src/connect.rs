//! From options to a session: finds the window, checks it, says hello.

use crate::control::{self, Control, WindowControl};
use crate::endpoint::{Endpoint, TransportKind};
use crate::error::{Error, Result};
use crate::heartbeat::Heartbeat;
use crate::session::{Session, SessionInfo, SessionInner};
use crate::tcp::Connection;
use crate::tls::TlsFiles;
use crate::transport::{self, ControlPages, Module, Places, Transport, Window, WindowRequest};
use crate::wait::WaitPolicy;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfun_wire::attach::{ATTACH_MAGIC, Attach};
use vfun_wire::limits::{CREDENTIAL_BYTES, NAME_BYTES};
use vfun_wire::message::{Hello, Kind};
use vfun_wire::names;
use vfun_wire::version::{Features, VERSION, VERSION_MIN};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// What this library offers by itself: the rest is the kernel module's word.
const OFFERED_HERE: Features = Features(Features::OFFERED.0 & !OF_MODULE);
const OF_MODULE: u64 =
    Features::MODULE.0 | Features::WINDOWS.0 | Features::PAGES.0 | Features::PACKETS.0;

/// The variable that names the endpoint where the program leaves it open.
const ENDPOINT_VARIABLE: &str = "VFUN_ENDPOINT";

/// Where a token is, for apps that pass no credential: a file, read anew for
/// each session, so that a rotated token is taken up by the next one.
const TOKEN_FILE_VARIABLE: &str = "VFUN_TOKEN_FILE";

/// The same, the token itself.
const TOKEN_VARIABLE: &str = "VFUN_TOKEN";

/// Who connects, and how.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    app: String,
    endpoint: Endpoint,
    client: Option<String>,
    credential: Vec<u8>,
    policy: WaitPolicy,
    remote: bool,
    tls: TlsFiles,
    places: Places,
}

impl ConnectOptions {
    /// An app by its name, with the defaults.
    pub fn new(app_name: impl Into<String>) -> Self {
        ConnectOptions {
            app: app_name.into(),
            endpoint: Endpoint::Auto,
            client: None,
            credential: Vec::new(),
            policy: WaitPolicy::default(),
            remote: false,
            tls: TlsFiles::default(),
            places: Places::default(),
        }
    }
    /// Where the host is. [`Endpoint::Auto`] unless said otherwise.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = endpoint;
        self
    }
    /// The client to act for. Needed on the host itself, over a gateway (where the
    /// manager decides whether it is allowed), and in a machine with several windows.
    pub fn client(mut self, name: impl Into<String>) -> Self {
        self.client = Some(name.into());
        self
    }
    /// A token, or the client's secret, if policy asks for one. At most 64 bytes.
    /// Without it, the variable `VFUN_TOKEN_FILE` or `VFUN_TOKEN` counts.
    pub fn credential(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.credential = bytes.as_ref().to_vec();
        self
    }
    /// Certificates for TLS: how this program checks the gateway, and how the gateway
    /// checks this program. The variables `VFUN_TLS_*` give what is left out.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = files;
        self
    }
    /// How calls of this session wait for their answers, and their services for calls.
    pub fn wait(mut self, policy: WaitPolicy) -> Self {
        self.policy = policy;
        self
    }
    /// Says that the caller is on another machine; policy may refuse such callers.
    #[doc(hidden)]
    pub fn remote(mut self, remote: bool) -> Self {
        self.remote = remote;
        self
    }
    /// Looks for the kernel module's devices elsewhere than in `/dev`; for tests.
    #[doc(hidden)]
    pub fn module_devices(mut self, folder: impl Into<PathBuf>) -> Self {
        self.places.module = folder.into();
        self
    }
    /// Looks for PCI devices elsewhere than the kernel lists them; for tests.
    #[doc(hidden)]
    pub fn pci_devices(mut self, folder: impl Into<PathBuf>) -> Self {
        self.places.pci = folder.into();
        self
    }

    /// Connects and opens the session, by the best path there is unless an endpoint was named.
    pub fn connect(self) -> Result<Session> {
        vfun_wait::clock::start();
        let this = self.with_token_of_environment()?;
        this.connect_as_is()
    }

    /// A gateway shows its caller's credential, and no token of its own.
    fn with_token_of_environment(mut self) -> Result<Self> {
        if self.remote || !self.credential.is_empty() {
            return Ok(self);
        }
        if let Some(file) = std::env::var_os(TOKEN_FILE_VARIABLE).filter(|f| !f.is_empty()) {
            self.credential = std::fs::read(&file).map_err(|e| {
                Error::BadOption(format!(
                    "the token file {} ({TOKEN_FILE_VARIABLE}) cannot be read: {e}",
                    file.display()
                ))
            })?;
            while self.credential.last().is_some_and(u8::is_ascii_whitespace) {
                self.credential.pop();
            }
        } else if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
            self.credential = token.into_bytes();
        }
        Ok(self)
    }

    fn connect_as_is(self) -> Result<Session> {
        let question = self.question()?;
        let hello = self.hello(self.app_name()?)?;
        match self.asked_endpoint()? {
            Endpoint::Auto => self.auto(&question, hello),
            endpoint => self.open(&endpoint, &question, hello),
        }
    }

    fn asked_endpoint(&self) -> Result<Endpoint> {
        match (&self.endpoint, std::env::var(ENDPOINT_VARIABLE)) {
            (Endpoint::Auto, Ok(text)) if !text.is_empty() => text.parse(),
            (endpoint, _) => Ok(endpoint.clone()),
        }
    }

    /// The best that is there. All are shared memory; the network is never
    /// chosen without being asked for. A refusal is an answer and ends the search.
    fn auto(&self, question: &Attach, hello: Hello) -> Result<Session> {
        let mut tried = Vec::new();
        for endpoint in Endpoint::automatic() {
            match self.open(&endpoint, question, hello) {
                Ok(session) => return Ok(session),
                Err(e @ (Error::Refused(_) | Error::SeveralWindows(_))) => return Err(e),
                Err(e) => tried.push((self.places.of(&endpoint), e)),
            }
        }
        Err(Error::NoHost { tried })
    }

    fn open(&self, endpoint: &Endpoint, question: &Attach, hello: Hello) -> Result<Session> {
        match endpoint {
            Endpoint::Auto => self.auto(question, hello),
            Endpoint::Module(at) => self.over_module(at.as_deref(), hello),
            Endpoint::Tcp(address) => {
                let connection = Connection::open(address, None, question)?;
                self.greet(Control::Tcp(connection), None, address.clone(), hello)
            }
            Endpoint::Tls(address) => {
                let connection = Connection::open(address, Some(&self.tls), question)?;
                self.greet(Control::Tcp(connection), None, format!("{address}, TLS"), hello)
            }
            window => {
                let client = self.client.as_deref();
                let asked = WindowRequest { places: &self.places, question, client };
                let opened = transport::open(window, &asked);
                let unknown = || Err(Error::BadEndpoint(window.to_string()));
                self.over_window(opened.unwrap_or_else(unknown)?, hello)
            }
        }
    }

    /// Through a window whose control cells this process writes itself.
    fn over_window(&self, transport: Arc<dyn Transport>, mut hello: Hello) -> Result<Session> {
        let place = transport.place();
        let window = Arc::new(Window::open(transport)?);
        let control = WindowControl::new(Arc::new(ControlPages::open(window.clone())?));
        // Who cannot be rung does not say that he has a doorbell (R-WIN-9).
        let absent = if window.bells.rung { 0 } else { Features::DOORBELL.0 };
        hello.features = U64::new(hello.features.get() & !absent);
        self.greet(Control::Window(control), Some(window), place, hello)
    }

    /// Through the kernel module, which adds to hello what is its own.
    fn over_module(&self, at: Option<&Path>, mut hello: Hello) -> Result<Session> {
        let module = Arc::new(Module::open(&self.places.module, at, self.client.as_deref())?);
        let (place, window) = (module.place(), Arc::new(Window::open(module.clone())?));
        // A module that knows one of them not takes it out.
        let its = Features::MODULE.with(Features::WINDOWS);
        let its = its.with(Features::PAGES).with(Features::PACKETS);
        hello.features = U64::new(hello.features.get() | its.0);
        self.greet(Control::Module(module, window.clone()), Some(window), place, hello)
    }

    fn greet(
        &self,
        control: Control,
        window: Option<Arc<Window>>,
        place: String,
        hello: Hello,
    ) -> Result<Session> {
        let body = control.request(Kind::Hello, 0, hello.as_bytes(), control::TIMEOUT)?;
        let (ack, client) = control::hello(&body)?;
        // A feature that was not offered is not in force, whatever the host says.
        let features = Features(ack.features.get()).both(Features(hello.features.get()));
        let transport = window.as_ref().map_or(TransportKind::Tcp, |w| w.transport.kind());
        let heartbeat = match (&control, ack.heartbeat_ms.get()) {
            (Control::Window(w), ms @ 1..) => {
                let every = Duration::from_millis(ms.into());
                let line = usize::from(ack.session_line.get());
                Some(Heartbeat::start(w.pages().clone(), line, every)?)
            }
            // The module moves those of its sessions, and a connection needs none.
            _ => None,
        };
        let info = SessionInfo {
            client,
            client_id: ack.client_id.get(),
            app_id: ack.app_id.get(),
            version: ack.version.get(),
            features,
            window_bytes: window.as_ref().map_or(0, |w| w.transport.window_bytes()),
            doorbell: window.as_ref().is_some_and(|w| w.bells.rung)
                && features.has(Features::DOORBELL),
            transport,
            generation: window.as_ref().map_or(0, |w| w.generation()),
        };
        let inner = SessionInner::new(
            control,
            window,
            info,
            place,
            ack.session.get(),
            self.policy.clone(),
            heartbeat,
        );
        Ok(Session::from_inner(Arc::new(inner)))
    }

    fn app_name(&self) -> Result<[u8; NAME_BYTES]> {
        names::encode(&self.app).map_err(|why| Error::BadName {
            what: "app's",
            name: self.app.clone(),
            why,
        })
    }

    fn credential_room(&self) -> Result<(U16, [u8; CREDENTIAL_BYTES])> {
        let mut room = [0; CREDENTIAL_BYTES];
        let Some(used) = room.get_mut(..self.credential.len()) else {
            return Err(Error::BadOption(format!(
                "a credential of {} bytes is not possible: the limit is {CREDENTIAL_BYTES}",
                self.credential.len()
            )));
        };
        used.copy_from_slice(&self.credential);
        Ok((U16::new(self.credential.len() as u16), room))
    }

    fn question(&self) -> Result<Attach> {
        let (credential_len, credential) = self.credential_room()?;
        let mut question = Attach::new_zeroed();
        question.magic = U64::new(ATTACH_MAGIC);
        question.remote = self.remote.into();
        question.credential_len = credential_len;
        question.credential = credential;
        if let Some(name) = &self.client {
            question.client = names::encode(name).map_err(|why| Error::BadName {
                what: "client's",
                name: name.clone(),
                why,
            })?;
        }
        Ok(question)
    }

    fn hello(&self, app: [u8; NAME_BYTES]) -> Result<Hello> {
        let (credential_len, credential) = self.credential_room()?;
        Ok(Hello {
            version_min: U16::new(VERSION_MIN),
            version_max: U16::new(VERSION),
            pid: U32::new(std::process::id()),
            // Only the kernel module may say that it is there, and it alone maps ranges of
            // further windows.
            features: U64::new(OFFERED_HERE.0),
            app,
            credential_len,
            reserved: [0; 6],
            credential,
        })
    }
}

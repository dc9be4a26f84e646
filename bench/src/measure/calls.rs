//! A session of the caller's, and the functions it has active.

use super::Clock;
use crate::Result;
use crate::report::Domain;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Function, FunctionRequest, Session, TransportKind};
use vfun::{WaitMode, WaitPolicy};
use vfun_wire::nack::NackCode;

/// The app's name in grants.
const APP: &str = "vfun-bench";
/// How long a released channel's room may take to come back.
const ROOM: Duration = Duration::from_secs(3);

/// A caller: what every job over a transport starts from.
pub struct Calls {
    session: Session,
    way: (Endpoint, Option<String>),
    clock: Clock,
    open: BTreeMap<String, Rc<Function>>,
}

impl Calls {
    /// Connects.
    ///
    /// # Errors
    /// [`vfun::Error`], whose sentence says what is missing.
    pub fn connect(endpoint: &Endpoint, client: Option<&str>) -> Result<Self> {
        let way = (endpoint.clone(), client.map(str::to_owned));
        let session = connect(&way, WaitPolicy::hybrid())?;
        Ok(Calls { session, way, clock: Clock::calibrate(), open: BTreeMap::new() })
    }

    /// Another session at the same place, which waits as asked.
    pub fn again(&self, mode: WaitMode) -> Result<Session> {
        connect(&self.way, mode.into())
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The clock that times are measured with.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The domain that this transport leads to: the caller's place follows from it.
    pub fn domain(&self) -> Domain {
        match self.session.info().transport {
            TransportKind::Host => Domain::HostHost,
            TransportKind::Module
            | TransportKind::Ivshmem
            | TransportKind::Pmem
            | TransportKind::Dir => Domain::GuestHost,
            TransportKind::Tcp => Domain::GuestNet,
        }
    }

    pub fn transport(&self) -> &'static str {
        self.session.info().transport.as_str()
    }

    /// Whether the transport is shared memory.
    pub fn shares_memory(&self) -> bool {
        self.session.info().transport != TransportKind::Tcp
    }

    /// A function with the defaults, activated at its first use.
    pub fn function(&mut self, name: &str) -> Result<Rc<Function>> {
        if let Some(function) = self.open.get(name) {
            return Ok(function.clone());
        }
        let function = Rc::new(self.session.function(name)?);
        self.open.insert(name.to_owned(), function.clone());
        Ok(function)
    }
}

fn connect((endpoint, client): &(Endpoint, Option<String>), wait: WaitPolicy) -> Result<Session> {
    let mut options = ConnectOptions::new(APP).endpoint(endpoint.clone()).wait(wait);
    if let Some(client) = client {
        options = options.client(client);
    }
    Ok(options.connect()?)
}

/// Negotiates and activates, waiting a little for room that was just given back.
pub fn open(session: &Session, request: &FunctionRequest) -> Result<Function> {
    let start = Instant::now();
    loop {
        match session.negotiate(request).and_then(|grant| grant.activate()) {
            Ok(function) => return Ok(function),
            Err(vfun::Error::Refused(nack))
                if nack.code == NackCode::NoCapacity && start.elapsed() < ROOM =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(e.into()),
        }
    }
}

//! A manager and an app for tests: starts the real service process, hands it
//! channels in a window of its own, and calls through them.
#![allow(dead_code)] // each test file uses its part

mod app;

pub use app::App;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vfun_supervise::{Driver, FromService, Open, Start, ToService, pair, receive, send};
use vfun_window::Bell;
use vfun_wire::kind::ChannelKind;

/// Long enough for anything on a crowded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A driver that cargo built for these tests.
pub fn built(library: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().join(library);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

pub fn native(library: &str) -> Driver {
    Driver::Native { library: built(library) }
}

/// A running service, killed when dropped.
pub struct Service {
    pub child: Child,
    pub socket: Option<OwnedFd>,
}

/// What a channel is asked for with.
#[derive(Clone)]
pub struct Shape {
    pub depth: u16,
    pub cell_bytes: u32,
    pub deadline_ms: u32,
    pub calls_per_s: u32,
    pub doorbell: bool,
    pub kind: ChannelKind,
    /// Of the app, for its buffers.
    pub session: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            depth: 8,
            cell_bytes: 4096,
            deadline_ms: 20_000,
            calls_per_s: 0,
            doorbell: true,
            kind: ChannelKind::Calls,
            session: 0,
        }
    }
}

pub fn start_of(function: &str, driver: Driver) -> Start {
    Start {
        client: "tester".into(),
        function: function.into(),
        version: 1 << 16,
        driver,
        settings: BTreeMap::new(),
        cpus: vec![],
        args: None,
        filters: Default::default(),
    }
}

impl Service {
    /// Starts the process; nothing is awaited.
    pub fn spawn(start: Start) -> Service {
        let (ours, theirs) = pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vfun-service"));
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn().unwrap();
        send(&ours, &ToService::Start(start), &[]).unwrap();
        Service { child, socket: Some(ours) }
    }

    /// Starts the process and waits until it is ready.
    pub fn start(start: Start) -> Service {
        let mut s = Service::spawn(start);
        match s.hear() {
            FromService::Ready { .. } => s,
            other => panic!("not ready: {other:?}"),
        }
    }

    /// One of the functions that ship.
    pub fn of(function: &str) -> Service {
        Service::start(start_of(function, native(&format!("libvfun_fn_{function}.so"))))
    }

    /// The driver that misbehaves.
    pub fn misbehaving() -> Service {
        Service::start(start_of("misbehave", native("libvfun_testdriver.so")))
    }

    pub fn socket(&self) -> &OwnedFd {
        self.socket.as_ref().expect("the manager is there")
    }

    pub fn tell(&self, message: ToService) {
        send(self.socket(), &message, &[]).unwrap();
    }

    /// The next message, within the time that there is patience for.
    pub fn hear(&mut self) -> FromService {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let socket = self.socket.as_ref().expect("the manager is there");
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let n = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)).unwrap();
        assert_eq!(n, 1, "the service says nothing");
        receive::<FromService>(socket).unwrap().expect("the service is gone").0
    }

    /// Hands a channel over; nothing is awaited.
    pub fn hand(&self, channel: u64, app: &App) {
        let open = Open {
            channel,
            app: format!("app{channel}"),
            vm: None,
            address: None,
            session: app.shape.session,
            origin: app.origin,
            window_bytes: app.window_bytes,
            place: app.place.clone(),
            deadline_ms: app.shape.deadline_ms,
            calls_per_s: app.shape.calls_per_s,
            wait: 0,
            doorbell: app.shape.doorbell,
            bell: app.bell,
            vf: None,
            standby: false,
            port: None,
        };
        self.hand_over(open, &app.window, app.bells.as_ref());
    }

    /// Hands over a channel of any kind in a window, with the bell that rings the service
    /// and the one that rings the app.
    pub fn hand_over(&self, open: Open, window: &OwnedFd, bells: Option<&(Bell, Bell)>) {
        self.hand_over_with(open, window, bells, &[]);
    }

    /// The same with more descriptors behind these.
    pub fn hand_over_with(
        &self,
        open: Open,
        window: &OwnedFd,
        bells: Option<&(Bell, Bell)>,
        more: &[BorrowedFd<'_>],
    ) {
        let path = format!("/proc/self/fd/{}", window.as_raw_fd());
        let reading = std::fs::File::open(path).unwrap();
        let mut fds = vec![reading.as_fd(), window.as_fd()];
        if let Some((service, app)) = bells {
            fds.extend([service.as_fd(), app.as_fd()]);
        }
        fds.extend(more);
        send(self.socket(), &ToService::Open(open), &fds).unwrap();
    }

    /// Has a channel served that exists already.
    pub fn serve(&mut self, channel: u64, app: &App) {
        self.hand(channel, app);
        assert_eq!(self.hear(), FromService::Opened { channel });
    }

    /// A new channel.
    pub fn open(&mut self, channel: u64, shape: Shape) -> App {
        let app = App::new(shape);
        self.serve(channel, &app);
        app
    }

    pub fn close(&mut self, channel: u64) {
        self.tell(ToService::Close { channel });
        assert_eq!(self.hear(), FromService::Closed { channel });
    }

    /// Waits until it has heard what it was told so far, and checks that it had
    /// nothing to say to that.
    #[allow(dead_code, reason = "one of the programs of tests has no use for it")]
    pub fn heard(&mut self) {
        let app = self.open(9_999, Shape::default());
        self.close(9_999);
        drop(app);
    }

    /// Waits for the process to end.
    pub fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the service does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn stop(mut self) {
        self.tell(ToService::Stop);
        assert_eq!(self.end().code(), Some(0));
    }

    /// Time on a processor so far, all threads together.
    pub fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let ns = tasks.map(|t| {
            let text =
                std::fs::read_to_string(t.unwrap().path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        });
        Duration::from_nanos(ns.sum())
    }

    /// A number of `/proc/PID/status`, kB.
    pub fn status_kb(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|l| l.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Servers of Debian, as their packages have them, with the programs that measure them. A
//! server runs in a VM or on this machine; its client is the host's, and waits for each
//! answer before it asks again, or asks at an even pace.

mod bare;
mod change;
mod dnsmasq;
mod latency;
mod mariadb;
mod nginx;
mod postgres;
mod redis;
mod table;

pub use bare::Bare;
pub use change::{Change, change};
pub use latency::Latency;
pub use table::{Figures, ROUTES, Route, json, text};

use super::sockperf;
use std::time::Duration;
use vfun_testguest::Guest;

/// How often a client is started that gets no answer.
const TRIES: usize = 3;

/// A server and its client.
pub struct Server {
    pub name: &'static str,
    /// What its client does.
    pub load: &'static str,
    /// Whether nobody sends again what is lost on the way.
    pub datagrams: bool,
    /// Starts it, in its root.
    words: &'static str,
    port: u16,
    /// Makes what it needs, before it is started for the first time.
    prepare: fn(&Bare),
    /// Fills it, once it runs on this machine.
    fill: fn() -> Result<(), String>,
    /// Asks the server at an address for so long.
    measure: fn(&str, Duration) -> Result<Latency, String>,
}

/// The one that does nothing but answer is first.
pub const SERVERS: [Server; 6] = [
    Server {
        name: "sockperf",
        load: "sockperf under-load, 200/s",
        datagrams: true,
        words: "/usr/bin/sockperf server -i 0.0.0.0 -p 11111",
        port: sockperf::PORT,
        prepare: |_| {},
        fill: || Ok(()),
        measure: sockperf::latency,
    },
    Server {
        name: "redis",
        load: "redis-benchmark SET, one client",
        datagrams: false,
        words: "/usr/bin/redis-server --bind 0.0.0.0 --port 6379 --protected-mode no --save '' --dir /tmp",
        port: redis::PORT,
        prepare: |_| {},
        fill: || Ok(()),
        measure: redis::latency,
    },
    Server {
        name: "nginx",
        load: "wrk, 1 KiB, one connection",
        datagrams: false,
        words: "/usr/sbin/nginx -c /etc/nginx.conf",
        port: nginx::PORT,
        prepare: nginx::prepare,
        fill: || Ok(()),
        measure: nginx::latency,
    },
    Server {
        name: "dnsmasq",
        load: "dnsperf, 200/s",
        datagrams: true,
        words: "/usr/sbin/dnsmasq --keep-in-foreground --port=5300 --user=root --no-resolv --no-hosts \
                --conf-file=/dev/null --pid-file=/tmp/dnsmasq.pid --address=/vf.example/10.1.2.3",
        port: dnsmasq::PORT,
        prepare: |_| {},
        fill: || Ok(()),
        measure: dnsmasq::latency,
    },
    Server {
        name: "PostgreSQL",
        load: "pgbench -S, one client",
        datagrams: false,
        words: postgres::WORDS,
        port: postgres::PORT,
        prepare: postgres::prepare,
        fill: postgres::fill,
        measure: postgres::latency,
    },
    Server {
        name: "MariaDB",
        load: "sysbench oltp_read_write, one thread",
        datagrams: false,
        words: mariadb::WORDS,
        port: mariadb::PORT,
        prepare: mariadb::prepare,
        fill: mariadb::fill,
        measure: mariadb::latency,
    },
];

impl Server {
    /// Makes and fills what it serves, on this machine, where it runs then.
    pub fn begin(&self, bare: &mut Bare) {
        (self.prepare)(bare);
        self.serve_bare(bare);
        (self.fill)().unwrap_or_else(|why| panic!("{}: {why}", self.name));
    }

    /// Starts it on this machine.
    pub fn serve_bare(&self, bare: &mut Bare) {
        bare.serve(self.words, self.port);
    }

    /// Starts it in a VM.
    pub fn serve(&self, guest: &Guest) {
        super::serve(guest, self.words, self.port);
    }

    /// Asks it for so long, at this address. Its client is started again if it got no answer on
    /// a busy machine, or saw too little to count because packets were lost.
    pub fn measure(&self, address: &str, mut long: Duration) -> Result<Latency, String> {
        let (mut failed, mut seen) = (0, String::new());
        for _ in 0..TRIES {
            match (self.measure)(address, long) {
                Ok(latency) if latency.answered > 0 => {
                    return Ok(Latency { failed: failed + latency.failed, ..latency });
                }
                Ok(latency) => (failed, seen) = (failed + latency.failed, "no answer".into()),
                Err(why) if self.datagrams => seen = why,
                Err(why) => return Err(format!("{} at {address}: {why}", self.name)),
            }
            eprintln!("{} at {address}, once more: {seen}", self.name);
            long *= 2;
        }
        Err(format!("{} at {address}, {TRIES} times: {seen}", self.name))
    }
}

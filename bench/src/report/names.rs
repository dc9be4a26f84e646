//! The closed sets of names in a report.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! names {
    ($(#[$doc:meta])* $set:ident { $($(#[$vdoc:meta])* $name:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $set { $($(#[$vdoc])* #[serde(rename = $text)] $name),+ }

        impl $set {
            /// All of them, in the order reports show them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name as reports write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

names! {
    /// Where the caller runs and how it reaches the function.
    Domain {
        /// A plain function call: no service, no transport.
        InProcess = "in-process",
        /// Caller and service on the host, over shared memory.
        HostHost = "host-host",
        /// Caller in user-mode code in a bare KVM virtual machine, without a guest kernel;
        /// service on the host, over shared memory.
        KvmBare = "kvm-bare",
        /// Caller in a guest, service on the host, over the guest's window.
        GuestHost = "guest-host",
        /// Caller in a guest, service on the host, over the guest's network.
        GuestNet = "guest-net",
    }
}

names! {
    /// The functions of the published experiment.
    Function {
        /// The factorial of a fixed number, again and again.
        Factorial = "factorial",
        /// A fixed Fibonacci number, again and again.
        Fibonacci = "fibonacci",
    }
}

names! {
    /// What a latency row measures.
    Kind {
        /// Two cache lines to and fro with nothing else: what the machine allows.
        Floor = "floor",
        /// A call of a function that does nothing.
        NullCall = "null_call",
        /// The same exchange over a UNIX socket.
        Unix = "unix",
        /// The same exchange over TCP.
        Tcp = "tcp",
        /// The floor with several lines under way at once.
        FloorInFlight = "floor_in_flight",
        /// Null calls with several under way at once.
        Pipelined = "pipelined",
        /// Calls that carry data.
        Bandwidth = "bandwidth",
        /// A copy of the same data within one process.
        Memcpy = "memcpy",
    }
}

names! {
    /// How a call's data reached the service.
    How {
        /// Copied into the window and out of it.
        Copied = "copied",
        /// Written and read where it lies in the window.
        InPlace = "in_place",
    }
}

names! {
    /// How caller and service wait.
    Mode {
        /// Both sides spin and never sleep.
        Spin = "spin",
        /// Awake while that is likely to pay.
        Hybrid = "hybrid",
        /// Asleep after one look.
        Sleep = "sleep",
    }
}

impl From<Mode> for vfun::WaitMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Spin => vfun::WaitMode::Spin,
            Mode::Hybrid => vfun::WaitMode::Hybrid,
            Mode::Sleep => vfun::WaitMode::Sleep,
        }
    }
}

names! {
    /// The experiments with leases.
    Experiment {
        /// What a VF gains, by calls a second and their size.
        Gain = "gain",
        /// What a call takes that crosses a switch.
        Switch = "switch",
        /// Groups of clients with rates in the published proportions.
        Groups = "groups",
        /// A steady client beside heavy ones.
        Starvation = "starvation",
        /// Frequent calls beside such as gain more from a VF.
        Worth = "worth",
    }
}

names! {
    /// Where figures come from.
    Source {
        /// Clients and services that ran.
        Real = "real",
        /// The lease engine in simulated time.
        Simulated = "simulated",
    }
}

names! {
    /// The experiments with network VFs.
    NicsExperiment {
        /// Groups of VMs with packet rates in the published proportions.
        Groups = "groups",
        /// VMs of every rate: who holds a VF, and what that gains.
        Rates = "rates",
        /// A file server beside VMs that send packets.
        Starvation = "starvation",
        /// VMs that claim more packets than they send, beside honest ones.
        Liar = "liar",
        /// What a decision and a report take.
        Decision = "decision",
        /// Processor time and memory of `vfun-nics`.
        Daemon = "daemon",
        /// What each step of a move takes in real guests.
        Moves = "moves",
    }
}

names! {
    /// Where a figure of network VFs comes from.
    Origin {
        /// A clock or a counter of this machine.
        Measured = "measured",
        /// The core of `vfun-nics` in simulated time.
        Simulated = "simulated",
    }
}

names! {
    /// The experiments with a remoted API.
    RemotingExperiment {
        /// A forwarded call, beside a null call.
        Calls = "calls",
        /// Answers that the guest's library gives by itself, beside the native library's.
        Answers = "answers",
        /// Calls whose answer nobody waits for, beside a null call.
        Records = "records",
        /// PKCS#11: a short call and a signature, beside a null call and p11-kit's socket.
        Pkcs11 = "pkcs11",
        /// Allocating a buffer, by its size.
        Allocation = "allocation",
        /// The rate of one transfer, by its size.
        Transfers = "transfers",
        /// The rate of many transfers together, by their size.
        Bursts = "bursts",
        /// How much later a callback comes, beside a bare doorbell.
        Completion = "completion",
        /// A forwarded call in each way to wait.
        Waiting = "waiting",
        /// From a transfer's start to its end, polled and by callback.
        Latency = "latency",
        /// Small transfers a second, polled and by callback.
        Throughput = "throughput",
    }
}

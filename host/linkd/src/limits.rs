//! The limits of `vfun-links`, each with its reason.

/// What threads have heard and the main loop has not taken yet. A thread that finds it full
/// waits, so that nothing grows.
pub const HEARD_WAITING: usize = 256;
/// Packets of the manager after which they are acted on though more wait: a manager that
/// begins declares all ports at once, and each time that a bridge's ports change all of them are
/// judged anew.
pub const PACKETS_TOGETHER: usize = 1024;
/// Bridges that are watched. Each has five threads and three sockets; a host has one or two.
pub const BRIDGES_MAX: usize = 64;
/// Names of ports that one watch of a bridge was ever told of: twice as many as it may have at
/// once. Then it begins anew, so that names that come and go do not pile up.
pub const NAMES_MAX: usize = 2 * vfun_links::limits::OURS_MAX;
/// Characters of a reason that is passed on: a switch's sentence, and some words around it.
pub const WHY_CHARS: usize = 400;
/// Orders to plug that are under way. Each has a thread, which waits for a VM; a manager that
/// follows a switch has some at once, and tries again those that are refused here.
pub const PLUGS_AT_ONCE: usize = 32;
/// How long a VM may take to let go of a window: its kernel does so within moments.
pub const LETS_GO: std::time::Duration = std::time::Duration::from_secs(10);
/// Doorbells of a device that carries a window which the manager hands over: QEMU wants one at
/// least, and nobody rings it.
pub const VECTORS: u16 = 1;
/// How often the manager is told that this program is there: some times in the 5 s after which the
/// manager ends one that is silent.
pub const ALIVE: std::time::Duration = std::time::Duration::from_secs(1);
/// Pause before a word is sent again for which the kernel had no memory.
pub const NO_BUFFERS: std::time::Duration = std::time::Duration::from_millis(20);

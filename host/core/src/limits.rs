//! The manager's own limits, with their reasons. The protocol's are in
//! `protocol/wire/src/limits.rs`; `docs/limits.md` lists both.

use crate::fair::Rate;
use std::time::Duration;

/// Windows of programs on the host at once, over all clients: each is a socket,
/// a mapping and some ten descriptors of the manager.
pub const HOST_WINDOWS_MAX: usize = 256;
/// The same for one client, so that no client takes them all.
pub const HOST_WINDOWS_PER_CLIENT: usize = 64;
/// VMs of one client: the window of each is some 26 descriptors of the manager and as
/// many of its keeper, and its default size of memory: 16 GiB for as many as these.
pub const VMS_PER_CLIENT: usize = 256;
/// Connections that have not said who they are yet.
pub const PENDING_MAX: usize = 32;
/// Of these, those of one user who is neither root nor the manager's own: the
/// socket is open to everybody, and silent strangers must not fill all places.
pub const PENDING_PER_USER: usize = 8;
/// How long such a connection may take.
pub const PENDING_TIME: Duration = Duration::from_secs(2);
/// Admin connections at once.
pub const ADMIN_MAX: usize = 32;
/// Names of apps of one client that keep their AppID when the app has gone: an
/// app that says hello under ever new names must not make the manager grow.
pub const APP_NAMES_KEPT: usize = 512;
/// Buffers of one client at once, those that are being given back included: as many as
/// four sessions with all they may have. A service may have to be told of all of them at
/// once (when a manager takes over), and is ended when 16,384 words wait for it; it maps
/// each of them, and a process has 65,530 mappings (`vm.max_map_count`).
pub const BUFFERS_PER_CLIENT: u32 = 1024;
/// The same of all clients: each is a note, and the keeper has 262,144 in all.
pub const BUFFERS_MAX: usize = 1 << 16;
/// After which who waits for a buffer is told that a service does not take it, ms: less
/// than an app waits for an answer (`CONTROL_TIMEOUT_MS`), which would blame the manager. A
/// service maps one in less than a millisecond.
pub const BUFFER_WAIT_MS: u64 = 8_000;
/// Services at once, over all clients: each is a process of 2 to 15 MB.
pub const SERVICES_MAX: usize = 512;

/// Longest word of a service about how it computes, characters: a line.
pub const SERVICE_NOTE_CHARS: usize = 200;

/// Channels in a service's report after a take-over; each is a grant of one
/// client. A service that its driver took over must not make the manager grow.
pub const REPORT_CHANNELS_MAX: usize = 1 << 16;
/// Connections taken from one socket before others have their turn: whoever
/// connects faster than the manager accepts must not keep everybody waiting.
pub const ACCEPTS_A_TURN: usize = 16;
/// Ringers of a VM's windows that are gone and whose threads have not ended. A
/// hostile QEMU can make one hang for as long as it holds the bell, with eight
/// descriptors; it gets no further window then.
pub const RINGERS_LEFT_MAX: usize = 4;

/// Between two looks at the control cells of windows without a doorbell, when
/// nothing was asked lately: 125 looks a second take about 0.6 % of a core.
pub const LOOK_IDLE: Duration = Duration::from_millis(8);
/// The same while apps are asking.
pub const LOOK_BUSY: Duration = Duration::from_millis(1);
/// How long after a request apps count as asking.
pub const BUSY_FOR: Duration = Duration::from_millis(500);
/// Between two ticks of the state machine, while something waits for time to pass.
pub const TICK: Duration = Duration::from_millis(20);
/// Between two looks whether channels answer their calls: a line of each to read,
/// and its cells where that stands still.
pub const PROGRESS_LOOK: Duration = Duration::from_secs(1);
/// Between two looks at heartbeats.
pub const HEARTBEAT_LOOK: Duration = Duration::from_secs(1);
/// How long a manager that starts waits for a service to be gone that it
/// killed: memory of gigabytes is given back in less.
pub const LEFT_ENDS: Duration = Duration::from_secs(2);
/// Between two looks for control groups of an earlier manager's services, as long
/// as there are some: these end within [`LEFT_ENDS`] of a start, and empty groups
/// cost memory, not time.
pub const GROUPS_SWEEP: Duration = Duration::from_secs(5);
/// How long the program on disk may take to see whether it could take this one's
/// place: it starts and looks at a few files.
pub const TRIAL_TIME: Duration = Duration::from_secs(10);
/// How long one that took longer, and was killed, is waited for: a process that the
/// kernel does not let go of then may stay for ever, and holds up nothing.
pub const TRIAL_ENDS: Duration = Duration::from_secs(2);
/// How long a manager that is to start anew waits until the keeper has all windows and
/// services: one that it has not got would be lost.
pub const HELD_TIME: Duration = Duration::from_secs(10);
/// How long a launcher may take to make a service's sandbox: milliseconds are usual.
pub const LAUNCH_TIME: Duration = Duration::from_secs(10);
/// How long services may take to finish when the manager ends.
pub const STOP_TIME: Duration = Duration::from_secs(3);

/// Reports of a VM's agent that are taken of its service: twice as many as an honest one
/// passes on. A service that its driver took over must not keep the manager busy.
pub const REPORTS: Rate =
    Rate { per_s: 2 * vfun_bond::REPORTS_PER_S, burst: 2 * vfun_bond::REPORTS_PER_S };
/// States of one VM that are passed on to the process that lends network VFs: an agent
/// that comes and goes over and over must not keep that process busy. What it is then is
/// passed on later.
pub const VM_STATES: Rate = Rate { per_s: 10, burst: 20 };
/// States of VMs passed on in one turn: each is some microseconds.
pub const VM_STATES_A_TURN: usize = 64;
/// Orders taken from that process before others have their turn.
pub const ORDERS_A_TURN: usize = 64;
/// The same for the process that watches switches: verdicts taken, and news of ports passed on.
pub const LINKS_A_TURN: usize = 64;
/// Characters of the folder of a switch's sockets that are passed on: far more than the address of
/// a socket may have, and so few that each packet is short enough.
pub const SWITCH_FOLDER_CHARS: usize = 1024;
/// Bytes of the path of a socket, which the kernel takes.
pub const SOCKET_PATH_BYTES: usize = 107;
/// Characters of the name of a domain of libvirt: that of a file with its description, at most.
pub const DOMAIN_CHARS: usize = 250;
/// Windows on their way into VMs or out of them at once: as many as that process takes.
pub const PLUG_ORDERS_MAX: usize = 32;
/// How long either process may take nothing of what it is told, ms. It reads at once, as its
/// work is done by other threads; a host that is short of memory may stop it for seconds.
pub const HELPER_HANGS_MS: u64 = 60_000;

/// Before a helper (gateway, metrics) that died is started again.
pub const HELPER_AGAIN: Duration = Duration::from_millis(100);
/// The same when it keeps dying; the wait doubles up to this, so that one
/// whose address is taken costs next to nothing and fills no log.
pub const HELPER_AGAIN_MOST: Duration = Duration::from_secs(30);
/// One that lived this long had not been dying.
pub const HELPER_LIVED: Duration = Duration::from_secs(60);

/// Rings of a control bell with nothing to say that may come at once: an app may
/// ring for a request that was seen already. Each is 3 us of the manager's time.
pub const RINGS_BURST: u32 = 1000;
/// How long such a bell is not listened to; its window is looked at each
/// [`LOOK_BUSY`] meanwhile.
pub const BELL_DEAF: Duration = Duration::from_millis(20);
/// Lines of the log about each client: a hundred events at once are news, a
/// thousand are noise.
pub const LINES: Rate = Rate { per_s: 10, burst: 200 };
/// Clients and users whose lines are counted apart; all others share one count.
pub const LINES_NAMES: usize = 512;
/// Windows given to one stranger, or to one client's callers over the network:
/// each is some 25 descriptors and a third of a millisecond.
pub const ATTACHES: Rate = Rate { per_s: 50, burst: 64 };
/// Windows given to programs of root and of the manager's own user: a shell that starts
/// one command after the other asks for a hundred a second, and a third of the
/// manager's time is left for those who have one.
pub const OWN_ATTACHES: Rate = Rate { per_s: 500, burst: 500 };
/// How long connections keep a turn going, beyond the first one: requests in windows
/// come before them, and again after this time. To close one on which somebody sent
/// many descriptors takes the kernel milliseconds.
pub const CONNECTIONS_TIME: Duration = Duration::from_millis(2);
/// Connections of one client's VM: each is a window to fill. A VM connects once
/// in its life; QEMU's that crash and come again do so every second or so.
pub const CONNECTS: Rate = Rate { per_s: 4, burst: 32 };
/// What one client's apps may wish for with the function `submit`: a list of as
/// many modules as there may be is 0.1 ms of the manager's time, and a change of
/// one of these some 20 ms, if all have the longest signatures.
pub const WISHES: Rate = Rate { per_s: 50, burst: 100 };

/// How long a window's lock may be held on by the keeper that was told to let go of
/// it: it does so as soon as it reads that.
pub const OWNER_LETS_GO: Duration = Duration::from_secs(1);
/// Between two looks whether plain windows' files are as they were.
pub const WINDOW_FILES_LOOK: Duration = Duration::from_secs(1);
/// Before a window that was truncated is made again, and between two tries:
/// filling one takes time that others want, too.
pub const WINDOW_AGAIN: Duration = Duration::from_secs(2);
/// Between two looks whether the services are gone that were ended for it.
pub const WINDOW_AGAIN_LOOK: Duration = Duration::from_millis(20);
/// States of one client's grants put on record at once: each is two files and
/// a row, 0.3 ms. Beyond it they are put on record later, as they are then.
pub const RECORDS: Rate = Rate { per_s: 100, burst: 500 };
/// How much later a state is put on record that was beyond [`RECORDS`].
pub const RECORDS_LATER: Duration = Duration::from_millis(200);
/// Before a database or tree that took nothing is tried again.
pub const RECORDS_AGAIN: Duration = Duration::from_secs(2);
/// Generations of handles that are marked as used at once, before the first of
/// them is: a write to the database for each of them would be one a hello.
pub const GENERATIONS_AHEAD: u32 = 1024;
/// Longest log of a service; as much again is kept of what it said before. The
/// kernel keeps it: a service can make no file longer.
pub const LOG_BYTES: u64 = vfun_jail::constants::FILE_BYTES;
/// From which length on it is begun anew: what is written until then is lost
/// only if it is half a log between two looks.
pub const LOG_CUT: u64 = LOG_BYTES / 2;
/// Between two looks at their length.
pub const LOGS_LOOK: Duration = Duration::from_secs(5);
/// Between two counts of what services wrote into their folders: a process reads some
/// thousand names for each, and at a gigabyte a second a hostile service fills 10 GB meanwhile.
pub const FOLDERS_LOOK: Duration = Duration::from_secs(10);
/// How long a count may take; less than until the next one.
pub const FOLDERS_TIME: Duration = Duration::from_secs(8);
/// Between two looks whether a count is over, which takes it milliseconds.
pub const FOLDERS_WAIT: Duration = Duration::from_millis(100);
/// Between two looks at the threads of services whose processors no control
/// group shares.
pub const THREADS_LOOK: Duration = Duration::from_secs(1);
/// Between two looks at the tap devices of ports, each some reads of sysfs: what somebody took away
/// comes back, and what failed is tried again.
pub const TAPS_LOOK: Duration = Duration::from_secs(2);
/// A question to Open vSwitch that failed after so long was not answered.
pub const SWITCH_SLOW: Duration = Duration::from_secs(3);
/// How long an Open vSwitch that did not answer is left alone, and a port that it could not open,
/// too: each try may take it half a minute.
pub const SWITCH_REST: Duration = Duration::from_secs(30);
/// Ports that switches with DPDK are connected for: two descriptors of the manager each.
pub const PORT_DRIVERS_MAX: usize = 1024;
/// Before another keeper is started, where one could not be.
pub const KEEPER_AGAIN: Duration = Duration::from_secs(2);
/// Messages taken from one service before others have their turn: one that its
/// driver took over may send as fast as it can.
pub const MESSAGES_A_TURN: usize = 16;
/// The same of one that has ended: more than its socket holds.
pub const LAST_WORDS: usize = 1024;
/// Between two tries to tell a service what its socket had no room for.
pub const TELL_AGAIN: Duration = Duration::from_millis(20);
/// Between two lines that say that descriptors of the manager's user are on their way
/// in such numbers that it has to wait with its own.
pub const FULL_SAID_AGAIN: Duration = Duration::from_secs(60);
/// Services started for one client, whatever for: each is a process, some
/// milliseconds of work.
pub const STARTS: Rate = Rate { per_s: 10, burst: 64 };
/// How long a VF that failed a client is not lent to that client, ms: a device that is
/// reset is back in about that time. Each further failure in a row doubles it.
pub const LEASE_LOST_MS: u64 = 1_000;
/// At most: one that is gone for good, or a client that fails everywhere, costs a
/// switch in five minutes then.
pub const LEASE_LOST_MOST_MS: u64 = 300_000;
/// How long a client's calls have to be completed on a VF, in all, before its failures there
/// are forgotten. A service that does not do what a move needs keeps its VF from others for some
/// twelve seconds until it is ended: who does so again and again has to use the VF, as others would let it,
/// for five times as long in between, or wait.
pub const LEASE_WORKED_MS: u64 = 60_000;
/// Error codes that a manifest gives a meaning: what people read is shorter.
pub const CODES_MAX: usize = 64;
/// Bytes of each meaning: a sentence, as long as one that a driver sends, and as long as
/// apps can be told.
pub const CODE_MEANING_BYTES: usize = vfun_wire::limits::MEANING_BYTES;

/// Direct links of a host: each is one direction of two ports, with a note at the keeper and
/// three pages that the manager looks at. As many as [`PORT_DRIVERS_MAX`] ports have if each
/// sends over one.
pub const LINKS_MAX: usize = PORT_DRIVERS_MAX;
/// Rules of switches past which frames went, with a note of some 300 bytes at the keeper each. Most
/// links have one or two; the oldest that no link passes now are forgotten first.
pub const LINK_FLOWS_MAX: usize = 2 * LINKS_MAX;
/// How long the proxy of OpenFlow may have the links of a bridge held, ms: it asks again when it needs
/// longer. One that dies holds them no longer than that.
pub const LINKS_HOLD_MS_MAX: u64 = 10_000;
/// How long a proxy of OpenFlow counts as there after its last word, ms: it says one each second.
pub const LINK_PROXY_MS: u64 = 5_000;
/// Bridges with a proxy, and bridges that are held: a host has one or two.
pub const LINK_BRIDGES_MAX: usize = 64;
/// Clients that a manifest names for links: a line each, which a person reads.
pub const LINKS_WITH_MAX: usize = 64;
/// Peers of which one connection of a VM's QEMU is told, to ring other VMs: a number of 16 bits
/// each, of which none comes again while that QEMU runs, and the VM needs some for itself.
pub const LINK_BELLS_MAX: usize = 4096;
/// Between two looks at a link that turns: a turn takes some milliseconds, and while it lasts
/// the sender's frames may wait for room.
pub const LINK_LOOK_TURNING: Duration = Duration::from_millis(1);
/// The same while frames go over it: what a VM changes unasked is seen so late.
pub const LINK_LOOK_DIRECT: Duration = Duration::from_millis(50);
/// The same while frames go through the switch, and between two looks which links there should
/// be: what a VM writes in its pages rings nobody.
pub const LINK_LOOK_RESTING: Duration = Duration::from_millis(250);
/// How long a link is looked at often before it turns for the first time: a VM that is rung takes
/// a window up in milliseconds.
pub const LINK_EAGER: Duration = Duration::from_secs(1);
/// Between two looks at what the two VMs of a link count.
pub const LINK_COUNT: Duration = Duration::from_secs(1);
/// How long a link whose frames are to come back waits for the switch's driver: a switch that is
/// started again takes a second or more. Then the link is over.
pub const LINK_ALONE: Duration = Duration::from_secs(3);
/// How long the process that watches switches may say nothing: it says each second that it is
/// there. One that hangs would keep links that the switch's rules do not allow any more.
pub const LINKS_SILENT_MS: u64 = 5_000;
/// How long a pair of ports rests whose link the switch or a VM gave up: what was in the way may
/// be so still, and each try costs both VMs an interrupt.
pub const LINK_REST: Duration = Duration::from_secs(10);
/// How long a VM may be silent at most before a link ends by force, ms, whatever the manager is
/// set to: longer, the receiver would wait for a VM that does not come back.
pub const LINK_SILENCE_MAX_MS: u64 = 60_000;
/// How long two VMs keep a window that the manager made for their links, without one, if it is
/// not set otherwise: rules that change for some seconds must not plug it out and in again.
pub const LINK_IDLE: Duration = Duration::from_secs(60);
/// The longest such time, ms: a day. Who wants to keep a window declares it.
pub const LINK_IDLE_MAX_MS: u64 = 86_400_000;
/// How long a window rests in which a VM was silent, once one of its VMs says that it has it no
/// more: that is the VM's word, and what it begins meanwhile is seen.
pub const LINK_BAR_REST: Duration = Duration::from_secs(10);
/// Bytes of a window that the manager makes for links: room for a ring of 1 MiB each way, as much
/// as some 700 of the longest ordinary frames. More would only wait.
pub const LINK_WINDOW_BYTES: u64 = 4 << 20;
/// Such windows of a host, which together are a quarter of a gibibyte. Each VM that has one gives
/// up a port for hot-plug, and few VMs have more than some of these.
pub const LINK_WINDOWS_MAX: usize = 64;
/// When a VM is asked again that has not let go of a window within 10 s. Each time somebody waits
/// for it.
pub const LINK_OUT_AGAIN: Duration = Duration::from_secs(60);

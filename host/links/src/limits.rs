//! The limits of what finds direct links, with their reasons.

use std::time::Duration;

/// Longest message of OpenFlow, bytes: its length has 16 bits.
pub const OPENFLOW_BYTES_MAX: usize = 65_535;
/// Longest match of a rule, bytes: all fields that Open vSwitch has need some 2,000.
pub const MATCH_BYTES_MAX: usize = 4096;
/// Longest message of JSON, bytes: 10,000 ports of a host, of whose rows some 600 are read. While
/// one is read it takes up to sixteen times as much, if it has many small numbers.
pub const JSON_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of a message of JSON: the database's own needs eight.
pub const JSON_DEPTH_MAX: usize = 64;
/// Ports, interfaces and mirrors of a bridge, and ports that mirrors name: 10,000 ports with an
/// interface each.
pub const FACTS_MAX: usize = 20_000;
/// Bytes of a name, a type or the name of a device in the database: names of the kernel's
/// interfaces have 15, DPDK's own 64.
pub const TEXT_BYTES_MAX: usize = 255;
/// Longest text of one trace, bytes. A trace has at most 4096 steps, each some lines; that of
/// a point-to-point link has a few lines.
pub const TRACE_BYTES_MAX: usize = 1 << 20;
/// Rules that are kept, some 350 bytes each: 70 MB. A switch with more gets no direct links.
pub const RULES_MAX: usize = 200_000;
/// Bytes of all rules, if they are longer than that.
pub const RULES_BYTES_MAX: usize = 128 << 20;
/// Outputs and tables of one rule. One that joins has one, and each table costs one more: a message
/// could have 4,000, each of 8 bytes.
pub const STEPS_MAX: usize = 64;
/// Bytes of the database's rows that are kept. 10,000 ports, with some 3 KB each as they lie in
/// memory, are half of it.
pub const ROWS_BYTES_MAX: usize = 64 << 20;
/// Ports of ours on one bridge. A trace takes the longer the more ports the bridge has, as the switch
/// looks all names up: its main thread took 0.13 ms with 100 ports, 0.25 with 250, 0.6 with 500 and
/// more than 1 with 1,000. When all are judged anew, 250 ports with 36 traces each take it 2.3 s, and
/// 1,000 would take it a minute.
pub const OURS_MAX: usize = 256;
/// Rules that frames of a joined port pass, as they are told to the manager: some 130 bytes each,
/// in a packet of 16 KiB. One that joins has one or two; with more, their counts are not corrected.
pub const PASSED_RULES_MAX: usize = 64;
/// How far apart two words about when one rule was made may be, ms: the switch's clock goes by steps
/// of 4 ms where the kernel gives it a coarse one. A rule that comes in the place of another one is
/// later by some 50 ms at least if frames went past that one: so long does a judgement and a turn take.
pub const BORN_SLACK_MS: u64 = 10;
/// EtherTypes that rules name. Each costs two traces for each port of ours.
pub const NAMED_TYPES_MAX: usize = 64;
/// Traces that wait for an answer, of all ports together: the rest is asked later, so that
/// an event is not behind thousands of answers.
pub const TRACES_AT_ONCE: usize = 64;
/// Ports that are judged at once. With thousands of ports those that were asked last would wait
/// longer than a judgement may take.
pub const JUDGED_AT_ONCE: usize = 16;
/// Rules whose flags are asked for one by one. With more, all rules are read again: an answer of
/// some MB instead of a thousand questions.
pub const FLAGS_ASKED_MAX: usize = 32;
/// Characters of a switch's sentence that are shown.
pub const SENTENCE_CHARS: usize = 240;

/// How long rules must have been still before a port is judged, ms. An operator's script
/// changes several rules in a row, and each change begins anew. Longer would be most of the
/// time until a link is there.
pub const SETTLE_MS: u64 = 10;
/// How long a port waits for that at most, ms, or rules that it cannot meet would hold it up for
/// ever. While rules that it may meet go on changing, it is judged ten times a second in vain.
pub const SETTLE_MS_MAX: u64 = 100;
/// First and longest time until a port is looked at again though nothing happened, ms. Each look
/// without a change doubles it. Rules that the switch hides, and changes of the database that it
/// carries out a moment after we heard of them, cause no event.
pub const LOOK_MS_MIN: u64 = 100;
pub const LOOK_MS_MAX: u64 = 10_000;
/// The same for each port of ours, where that is more: with 10 and with 100 ports. So looks take the
/// switch's main thread a tenth of its time at most.
pub const LOOK_MS_MIN_PORT: u64 = 10;
pub const LOOK_MS_MAX_PORT: u64 = 100;

/// How long the answers of one judgement may take, ms: a switch that reads 100,000 rules is busy
/// for some seconds.
pub const JUDGE_MS: u64 = 10_000;

/// Window in which changes of rules are counted, ms.
pub const PACE_MS: u64 = 1_000;
/// Changes in a window above which all verdicts are withdrawn. An event is read in some
/// ten microseconds, but a controller that writes more is building its rules: what is judged
/// meanwhile is wrong a moment later.
pub const PACE_MAX: u32 = 2_000;
/// Changes in a window below which it is calm again. Far below the other limit, or verdicts would
/// come and go with a rate near to it.
pub const PACE_CALM: u32 = 500;
/// Calm windows in a row after which ports are judged again.
pub const CALM_WINDOWS: u32 = 2;

/// First and longest pause before a socket is tried again. Each failure doubles it.
pub const RETRY_MIN: Duration = Duration::from_millis(100);
pub const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long a connection may be silent before it is asked whether it is there.
pub const SILENCE: Duration = Duration::from_secs(5);
/// How long it may then be silent before it is given up.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a write, a trace or the begin of a connection may take.
pub const ANSWER: Duration = Duration::from_secs(10);
/// How often a connection is tried again to a socket whose queue is full.
pub const CONNECT_LOOK: Duration = Duration::from_millis(10);
/// Bytes of `ovs-vswitchd.pid`: a number and a line's end.
pub const PID_BYTES_MAX: u64 = 32;
/// How often a thread that reads looks whether it is to end.
pub const END_LOOK: Duration = Duration::from_millis(200);
/// Messages that wait to be judged. Those of OpenFlow have 64 KiB, and some six times as much once
/// they are read; traces up to 1 MiB; facts up to 20 MB, if each name is as long as it may be: 640 MB
/// if the database means us harm, and some MB if not. A thread that has more to say waits, and then
/// the switch holds its events back (PAUSED), which withdraws the verdicts.
pub const MESSAGES_WAITING: usize = 32;
/// Changes of verdicts that nobody has taken, some 500 bytes each: 33 MB. With all ports that is
/// each of them changing dozens of times. Who is so far behind has to begin anew anyway.
pub const CHANGES_WAITING: usize = 65_536;

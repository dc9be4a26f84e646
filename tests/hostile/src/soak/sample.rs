//! What is looked at. Between two rows it is looked at often, and the least
//! counts: what comes and goes is not what stays.

use crate::watch::{processes, totals};
use std::path::Path;

/// A figure of the soak.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, and its column.
    pub name: &'static str,
    /// Growth over the second half that is nothing; `None`: shown, not judged.
    pub bearable: Option<f64>,
}

const fn judged(name: &'static str, bearable: f64) -> Figure {
    Figure { name, bearable: Some(bearable) }
}
const fn shown(name: &'static str) -> Figure {
    Figure { name, bearable: None }
}

/// Libraries that are loaded late, such as those that find users.
const MAPS: f64 = 3.9;

/// All of them, in the order of a row. A process's own memory may grow by a few pages
/// that an allocator keeps; what is counted may not grow at all. Resident memory is not
/// judged: pages of the program's file and of windows come as they are touched. A window
/// that stays mapped is seen in `maps`.
pub const FIGURES: &[Figure] = &[
    shown("manager_rss_kib"),
    judged("manager_own_kib", 512.0),
    judged("manager_maps", MAPS),
    judged("manager_fds", 0.9),
    judged("manager_threads", 0.9),
    shown("keeper_rss_kib"),
    judged("keeper_own_kib", 128.0),
    judged("keeper_maps", MAPS),
    judged("keeper_fds", 0.9),
    judged("keeper_threads", 0.9),
    shown("gateway_rss_kib"),
    judged("gateway_own_kib", 256.0),
    judged("gateway_maps", MAPS),
    judged("gateway_fds", 0.9),
    judged("gateway_threads", 0.9),
    judged("windows", 0.9),
    judged("sessions", 0.9),
    judged("grants", 0.9),
    judged("services", 0.9),
    judged("window_bytes", 4096.0),
    judged("processes", 0.9),
    judged("zombies", 0.9),
    judged("files", 1.9),
    judged("folders", 1.9),
    judged("cgroups", 0.9),
    judged("shm_files", 0.9),
    // The history is kept on purpose; logs are rotated or another's to rotate.
    shown("database_bytes"),
    shown("service_log_bytes"),
    shown("manager_log_bytes"),
    shown("witness_calls"),
    shown("attacks"),
    shown("guest_boots"),
];

/// The values of one look.
pub type Row = Vec<f64>;

#[derive(Default)]
struct Tree {
    files: u64,
    folders: u64,
    database: u64,
    service_logs: u64,
    manager_log: u64,
}

fn walk(folder: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        if meta.is_dir() {
            tree.folders += 1;
            walk(&entry.path(), tree);
            continue;
        }
        tree.files += 1;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(".db") || name.contains("sqlite") {
            tree.database += meta.len();
        } else if name == "vfund.log" {
            tree.manager_log += meta.len();
        } else if name.contains("log") {
            tree.service_logs += meta.len();
        }
    }
}

fn count_folders(folder: &Path, depth: u32, fits: &dyn Fn(&str) -> bool) -> u64 {
    let mut found = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found += u64::from(fits(&entry.file_name().to_string_lossy()));
            if depth > 0 {
                found += count_folders(&entry.path(), depth - 1, fits);
            }
        }
    }
    found
}

/// Processes below this one: how many, and how many of them are dead and not reaped.
fn below(root_pids: &[u32]) -> (u64, u64) {
    let (mut all, mut zombies) = (0, 0);
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = rest.split_whitespace().take(2).collect();
        if let [state, parent] = fields[..]
            && parent.parse().is_ok_and(|p: u32| root_pids.contains(&p))
        {
            all += 1;
            zombies += u64::from(state == "Z");
        }
    }
    (all, zombies)
}

/// What actors have done, to be shown beside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deeds {
    /// Calls the neighbour has checked.
    pub witness_calls: u64,
    /// Attacks that have ended.
    pub attacks: u64,
    /// Boots and resets of guests.
    pub guest_boots: u64,
}

/// Looks once; `None` while the manager is being started anew.
pub fn look(root: &Path, deeds: Deeds) -> Option<Row> {
    let t = totals(root).ok()?;
    let p = processes(root);
    let of = |name: &str| {
        let p = p.get(name)?;
        let [resident, own] = [p.resident_kib, p.own_kib].map(|kib| kib as f64);
        Some([resident, own, p.maps as f64, p.descriptors as f64, p.threads as f64])
    };
    let pids: Vec<u32> = p.values().map(|p| p.pid).collect();
    let (children, zombies) = below(&pids);
    let mut tree = Tree::default();
    walk(root, &mut tree);
    let cgroups = count_folders(Path::new("/sys/fs/cgroup"), 5, &|n| {
        n.contains("vfun") || n.contains("virtfun")
    });
    let shm = std::fs::read_dir("/dev/shm").map_or(0, |d| {
        d.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("virtfun-")).count()
    });
    let mut row: Row = vec![];
    for name in ["vfund", "vfun-keeper", "vfun-gateway"] {
        row.extend(of(name)?);
    }
    row.extend([t.windows, t.sessions, t.grants, t.services].map(|n| n as f64));
    row.push(t.window_bytes as f64);
    let counts = [
        children,
        zombies,
        tree.files,
        tree.folders,
        cgroups,
        shm as u64,
        tree.database,
        tree.service_logs,
        tree.manager_log,
        deeds.witness_calls,
        deeds.attacks,
        deeds.guest_boots,
    ];
    row.extend(counts.map(|n| n as f64));
    debug_assert_eq!(row.len(), FIGURES.len());
    Some(row)
}

//! Memory of the program that the NIC may use.
//!
//! Where the host has all memory of the VM, the kernel module pins what is registered, and the NIC reaches it
//! where it is. Else the NIC reaches pages of the window only: memory moves into the window, at the
//! same addresses, or has a *bounce*: a copy in the window. What is sent is copied
//! when it is posted, and what was received when its completion is polled. A bounce serves local access
//! alone: the program is not told when a peer writes to its memory, so that nobody could copy then.

mod bounce;
mod maps;
mod mover;
mod moving;
mod user;

pub use bounce::{Bounce, CopyBack};

use crate::errno::{EINVAL, ENOMEM, EOPNOTSUPP, Errno};
use mover::{ByModule, ByPages};
use moving::{MoveError, Moved, Pages, Pool};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock};
use user::ByHand;
use vfun::Unmovable;
use vfun_remoting_guest::{Link, say_once};
use vfun_verbs::Sge;
use vfun_verbs::flags::access;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// How the NIC gets at memory: `pages` (pinned where it is), `module` (moved into the window), `user`
/// ([`user`]), or `off`. Not set: the first of the first two that there is.
const REMAP: &str = "VFUN_VERBS_REMAP";

/// What memory that the library moves by itself does not promise.
const BREAKS: &str = "what another thread writes while memory is registered may be lost, the program must not fork, and memory stays in the window until it ends";

/// Some pages of a lent buffer, one behind the other, as `vfun_nic_run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub buffer: u64,
    pub page: u64,
    pub pages: u64,
}

impl Run {
    /// As calls carry it.
    pub fn bytes(&self) -> [u8; 24] {
        let mut to = [0; 24];
        for (place, word) in to.chunks_exact_mut(8).zip([self.buffer, self.page, self.pages]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        to
    }
}

/// Where registered memory is in the window.
pub struct Backing {
    pub runs: Vec<Run>,
    /// None: the program's own pages are there.
    pub bounce: Option<Arc<Bounce>>,
    /// They are pinned where they are.
    pub pinned: bool,
    /// What keeps them there.
    _buffers: Vec<Arc<dyn Any + Send + Sync>>,
}

impl<B: Any + Send + Sync> From<Moved<B>> for Backing {
    fn from(moved: Moved<B>) -> Self {
        let buffers = moved.buffers.into_iter().map(|one| one as Arc<dyn Any + Send + Sync>);
        Backing { runs: moved.runs, bounce: None, pinned: false, _buffers: buffers.collect() }
    }
}

/// The buffers that have memory of this process, by the connection that lent them.
enum Buffers {
    Pinned(Pool<ByPages>),
    Moved(Pool<ByModule>),
    ByHand(Pool<ByHand>),
}

impl Buffers {
    /// As the program's user wants it; none: memory does not move.
    fn wanted(link: &'static Link) -> Option<Buffers> {
        match std::env::var(REMAP).as_deref() {
            Ok("off") => None,
            Ok("user") => {
                static SAID: Once = Once::new();
                say_once(&SAID, || vec![format!("{REMAP}=user: {BREAKS}")]);
                Some(Buffers::ByHand(Pool::default()))
            }
            Ok("module") => Some(Buffers::Moved(Pool::default())),
            Ok("pages") => match link.lend_pages(1) {
                Ok(_) => Some(Buffers::Pinned(Pool::default())),
                Err(_) => {
                    let why = link
                        .page_table(1)
                        .err()
                        .map_or_else(|| "the service does not take it".into(), |e| e.to_string());
                    let line = format!("{REMAP}=pages: memory cannot stay where it is: {why}");
                    say_once(&Once::new(), || vec![line]);
                    None
                }
            },
            _ => Some(match link.lend_pages(1) {
                Ok(_) => Buffers::Pinned(Pool::default()),
                Err(_) => Buffers::Moved(Pool::default()),
            }),
        }
    }

    fn hold(&mut self, link: &'static Link, pages: Pages) -> Result<Backing, MoveError> {
        match self {
            Buffers::Pinned(pool) => {
                let held = pool.hold(&ByPages(link), pages)?;
                Ok(Backing { pinned: true, ..Backing::from(held) })
            }
            Buffers::Moved(pool) => pool.hold(&ByModule(link), pages).map(Backing::from),
            Buffers::ByHand(pool) => pool.hold(&ByHand(link), pages).map(Backing::from),
        }
    }
}

/// By connection.
static ALL: Mutex<Vec<(u32, Buffers)>> = Mutex::new(vec![]);

/// The NIC does not find pinned pages where they should be: memory moves into the window from now on, if the
/// program's user wants nothing else. Whether it does.
pub fn pin_no_more(link: &'static Link) -> bool {
    if std::env::var_os(REMAP).is_some() {
        return false;
    }
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, buffers) in all.iter_mut().filter(|(number, _)| *number == link.number()) {
        *buffers = Buffers::Moved(Pool::default());
    }
    true
}

/// Gives memory to the NIC.
fn move_in(link: &'static Link, pages: Pages) -> Result<Backing, MoveError> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().position(|(number, _)| *number == link.number());
    let at = match known {
        Some(at) => at,
        None => {
            let buffers = Buffers::wanted(link).ok_or(Unmovable::NoModule)?;
            // A connection that is gone lends no more. The module gave its memory back to the program. What the
            // library moved by itself stays where it is: the program is using it.
            for (_, gone) in all.drain(..) {
                if let Buffers::ByHand(pool) = gone {
                    std::mem::forget(pool);
                }
            }
            all.push((link.number(), buffers));
            0
        }
    };
    all[at].1.hold(link, pages)
}

/// Says, for each reason once, why memory for remote access was not registered.
fn say(why: MoveError) {
    static SAID: Mutex<Vec<String>> = Mutex::new(vec![]);
    let text = why.to_string();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.contains(&text) {
        let line = format!("memory for remote access was not registered: {text}");
        say_once(&Once::new(), || vec![line]);
        said.push(text);
    }
}

/// Finds a place in the window for `len` bytes at `addr`.
///
/// # Errors
/// What `ibv_reg_mr` says; people are told more on standard error, once.
pub fn back(link: &'static Link, addr: usize, len: usize, rights: u32) -> Result<Backing, Errno> {
    let end = addr.checked_add(len.max(1)).and_then(|end| end.checked_next_multiple_of(PAGE));
    let first = addr / PAGE * PAGE;
    let bytes = end.ok_or(EINVAL)? - first;
    let written =
        rights & (access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    match move_in(link, Pages { addr: first, bytes, written }) {
        Ok(backing) => return Ok(backing),
        Err(MoveError::Unmovable(Unmovable::NotThere | Unmovable::ReadOnly)) => {
            return Err(Errno(libc::EFAULT));
        }
        Err(why) if rights & access::REMOTE != 0 => {
            say(why);
            return Err(if matches!(why, MoveError::Full(_)) { ENOMEM } else { EOPNOTSUPP });
        }
        Err(_) => {}
    }
    let bounce = Bounce::new(link, addr, len).map_err(|_| ENOMEM)?;
    let (page, pages) = bounce.pages();
    let runs = vec![Run { buffer: bounce.handle(), page, pages }];
    Ok(Backing { runs, bounce: Some(Arc::new(bounce)), pinned: false, _buffers: vec![] })
}

/// The regions of a context that have a copy in the window, by their keys.
#[derive(Default)]
pub struct Regions {
    /// How many there are: most programs have none.
    count: AtomicUsize,
    by_key: RwLock<HashMap<u32, Arc<Bounce>>>,
}

impl Regions {
    pub fn add(&self, key: u32, bounce: Arc<Bounce>) {
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        by_key.insert(key, bounce);
        self.count.store(by_key.len(), Ordering::Release);
    }

    pub fn remove(&self, key: u32) {
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        by_key.remove(&key);
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// Whether any region has a copy.
    #[inline]
    pub fn has_bounces(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn find(&self, sge: &Sge) -> Option<Arc<Bounce>> {
        let by_key = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        by_key.get(&sge.lkey).cloned()
    }

    /// Copies what is to be sent.
    #[cold]
    pub fn copy_in(&self, sges: &[Sge]) {
        for sge in sges {
            if let Some(bounce) = self.find(sge) {
                bounce.copy_in(sge.addr as usize, sge.len as usize);
            }
        }
    }

    /// What is to be copied when these have been filled.
    #[cold]
    pub fn copy_back(&self, sges: &[Sge]) -> Option<CopyBack> {
        let parts: Vec<_> = sges.iter().map(|sge| (*sge, self.find(sge))).collect();
        parts.iter().any(|(_, bounce)| bounce.is_some()).then_some(CopyBack(parts))
    }
}

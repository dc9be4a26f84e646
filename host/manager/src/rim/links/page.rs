//! The header pages of a port, which may be given to another channel: after that nothing is
//! stored there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfun_packet::{Memory, WindowMemory};

/// The host's page and the VM's, as long as they are the port's. After that each word is 0.
#[derive(Clone)]
pub(super) struct PortPage {
    memory: Option<WindowMemory>,
    gone: Arc<AtomicBool>,
}

impl PortPage {
    pub fn new(memory: WindowMemory) -> Self {
        PortPage { memory: Some(memory), gone: Arc::default() }
    }

    /// That of a port which is gone already.
    pub fn none() -> Self {
        PortPage { memory: None, gone: Arc::new(true.into()) }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The port's channel is over: its pages are, or will be, another one's.
    pub fn goes(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    fn there(&self) -> Option<&WindowMemory> {
        self.memory.as_ref().filter(|_| !self.is_gone())
    }
}

impl Memory for PortPage {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.there().map_or(0, |m| m.load(index, order))
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        if let Some(m) = self.there() {
            m.store(index, value, order);
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.there().map_or(0, |m| m.load_own(index, order))
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.there().map_or(0, |m| m.add_own(index, value, order))
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.there().map_or(0, |m| m.sub_own(index, value, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_window::{Access, Mapping};

    #[test]
    fn a_page_that_is_gone_is_not_touched() {
        let file = vfun_window::memfd("page", 4096).unwrap();
        let map = Mapping::guarded(&file, 0, 4096, Access::ReadWrite).unwrap();
        let span = map.write().unwrap();
        let page = PortPage::new(WindowMemory::of_sides(span.clone(), span.reader()));
        let director = page.clone();
        director.store(5, 7, Ordering::Relaxed);
        assert_eq!(page.load(5, Ordering::Relaxed), 7);
        page.goes();
        director.store(5, 8, Ordering::Relaxed);
        assert_eq!(
            (span.load(5, Ordering::Relaxed), director.load_own(5, Ordering::Relaxed)),
            (7, 0)
        );
        PortPage::none().store(5, 1, Ordering::Relaxed);
    }
}

//! A window that the manager makes for links by itself: its two VMs have it as long as they need
//! it. No system: what is to be done is said.

/// How far one of its two VMs is, while the window goes out of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WayOut {
    /// It is asked to let go of it, then, ms.
    Due(u64),
    Asked,
    Gone,
}

/// See above.
#[derive(Debug, Default)]
pub(super) struct MadeWindow {
    /// Since when no link needs it, ms.
    idle: Option<u64>,
    /// It goes out, and is not used again.
    leaves: Option<[WayOut; 2]>,
    /// Why it could not be taken out of a VM, when that was tried last.
    why: [Option<String>; 2],
}

impl MadeWindow {
    /// Whether links need it now; without one for `keep` ms it goes out of its VMs.
    pub fn look(&mut self, now: u64, is_needed: bool, keep: u64) {
        if is_needed {
            self.idle = None;
        } else if now - *self.idle.get_or_insert(now) >= keep {
            self.leave(now);
        }
    }

    /// It goes out, whoever needs it.
    pub fn leave(&mut self, now: u64) {
        self.leaves.get_or_insert([WayOut::Due(now); 2]);
    }

    /// Whether it is on its way out, and may not be used any more.
    pub fn leaves(&self) -> bool {
        self.leaves.is_some()
    }

    /// Which of its VMs are to be asked now to let go of it.
    pub fn due(&self, now: u64) -> Vec<usize> {
        let ways = self.leaves.iter().flatten().enumerate();
        let is_due = |way: &WayOut| matches!(way, WayOut::Due(at) if *at <= now);
        ways.filter(|(_, way)| is_due(way)).map(|(vm, _)| vm).collect()
    }

    /// One was asked.
    pub fn asked(&mut self, vm: usize) {
        self.set(vm, WayOut::Asked);
    }

    /// One has let go of it.
    pub fn has_left(&mut self, vm: usize) {
        self.set(vm, WayOut::Gone);
        self.why[vm] = None;
    }

    /// One could not be asked, or refused. Whether that is news.
    pub fn refused(&mut self, vm: usize, again: u64, why: String) -> bool {
        self.stays(vm, again);
        self.why[vm].replace(why.clone()) != Some(why)
    }

    /// Why it could not be taken out of its VMs, by these.
    pub fn troubles(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.why.iter().enumerate();
        all.filter(|_| self.leaves()).filter_map(|(vm, why)| Some((vm, why.as_deref()?)))
    }

    /// One has not, and is asked again, then.
    pub fn stays(&mut self, vm: usize, again: u64) {
        self.set(vm, WayOut::Due(again));
    }

    fn set(&mut self, vm: usize, way: WayOut) {
        // An order from before it was to leave means nothing, and who has it no more does not
        // get it again.
        if let Some(ways) = &mut self.leaves
            && ways[vm] != WayOut::Gone
        {
            ways[vm] = way;
        }
    }

    /// Neither VM has it any more.
    pub fn is_out(&self) -> bool {
        self.leaves == Some([WayOut::Gone; 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_goes_out_some_time_after_it_was_needed_last() {
        let mut made = MadeWindow::default();
        made.look(0, true, 100);
        made.look(1000, false, 100);
        made.look(1099, false, 100);
        assert!(!made.leaves());
        made.look(1099, true, 100);
        made.look(1100, false, 100);
        made.look(1199, false, 100);
        assert!(!made.leaves(), "it was needed meanwhile");
        made.look(1200, false, 100);
        assert!(made.leaves() && made.due(1200) == [0, 1]);
        made.look(1201, true, 100);
        assert!(made.leaves(), "it is not used again");
    }

    #[test]
    fn what_keeps_it_is_news_once() {
        let mut made = MadeWindow::default();
        made.leave(0);
        assert!(made.refused(1, 10, "no".into()) && !made.refused(1, 20, "no".into()));
        assert!(made.refused(1, 30, "never".into()) && made.due(30) == [0, 1]);
        assert_eq!(made.troubles().collect::<Vec<_>>(), [(1, "never")]);
        made.has_left(1);
        assert_eq!(made.troubles().count(), 0);
    }

    #[test]
    fn it_is_out_when_both_vms_have_let_go_of_it() {
        let mut made = MadeWindow::default();
        made.has_left(0);
        assert!(!made.is_out() && made.due(9).is_empty());
        made.leave(5);
        assert!(made.due(4).is_empty());
        made.asked(0);
        made.asked(1);
        assert!(made.due(9).is_empty());
        made.has_left(1);
        made.stays(0, 20);
        assert!(made.due(19).is_empty() && made.due(20) == [0] && !made.is_out());
        made.leave(30);
        assert_eq!(made.due(30), [0], "it was on its way already");
        made.has_left(0);
        made.stays(0, 40);
        assert!(made.is_out(), "who has let go of it has it no more");
    }
}

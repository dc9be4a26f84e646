//! Functions that ask more of an app than its client's leave: a right that its session
//! has, and that no other app of its VM has the function.

use super::catalog::Function;
use super::grant::{Grant, Stage};
use super::grants::Key;
use super::nacks;
use super::sessions::Session;
use super::window::Window;
use super::{Action, Core, Level};
use vfun_kinds::Kind;
use vfun_wire::Nack;
use vfun_wire::version::Features;

impl Function {
    /// The kind of its software; none of a function that is hardware alone.
    fn kind(&self) -> Option<&'static Kind> {
        self.software.as_ref().map(vfun_kinds::of)
    }
}

impl Core {
    /// What a session may have in a window: the right over a VM's network, its ports, and tables of its pages,
    /// are for programs in a VM alone.
    pub(super) fn features_of(w: &Window) -> Features {
        let doorbell = if w.doorbell { 0 } else { Features::DOORBELL.0 };
        let of_vms = Features::NET_ADMIN.with(Features::PAGES).with(Features::PACKETS);
        let outside = if w.vm.is_some() { 0 } else { of_vms.0 };
        Features(Features::OFFERED.0 & !(doorbell | outside))
    }

    /// Whether an app's session has the right that a function needs.
    pub(super) fn check_right(&self, s: &Session, f: &Function) -> Result<(), Nack> {
        match f.kind().is_none_or(|kind| s.features.has(kind.needs)) {
            true => Ok(()),
            false => Err(nacks::no_right(&f.name)),
        }
    }

    /// Whether another app of the same VM has a function that one at a time may have.
    /// A second one is shown: it may be an agent that was started twice.
    pub(super) fn check_alone(
        &self,
        s: &Session,
        f: &Function,
        out: &mut Vec<Action>,
    ) -> Result<(), Nack> {
        let alone = f.kind().is_some_and(|kind| kind.one_per_vm);
        let Some(w) = self.windows.get(&s.window).filter(|_| alone) else { return Ok(()) };
        let vm = w.vm.as_deref();
        let has = |g: &Grant| {
            let over = matches!(g.stage, Stage::Broken { .. } | Stage::Closing { .. });
            g.subject.function == f.name && g.holder.vm.as_deref() == vm && !over
        };
        let of_client = self.grants.of(&Key::Client(w.client)).into_iter();
        let mut others = of_client.filter_map(|h| self.grants.get(h).ok());
        let Some(other) = others.find(|g| has(g)) else { return Ok(()) };
        let of = vm.map_or(String::new(), |vm| format!("in VM {vm} "));
        let text = format!(
            "the app '{}' {of}was refused the function '{}': the app '{}' has it",
            s.app, f.name, other.holder.app
        );
        out.push(Action::LogOf { client: w.client, level: Level::Warn, text });
        Err(nacks::had_by_other(&f.name, &other.holder.app))
    }
}

//! What a connection has, and how one call that was read is made.

use crate::attached::Attached;
use crate::backend::{Backend, Context, Returned};
use crate::events::Events;
use crate::objects::Objects;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vfun_remoting::{Reader, Refusal, Writer, numbers};

/// The back end of a connection and all that it may use.
pub(crate) struct Connection<B: Backend> {
    backend: B,
    objects: Objects,
    pub events: Arc<Events>,
    pub attached: Attached,
    freed: bool,
}

impl<B: Backend> Connection<B> {
    pub fn over(backend: B) -> Self {
        Connection {
            backend,
            objects: Objects::default(),
            events: Arc::default(),
            attached: Attached::default(),
            freed: true,
        }
    }

    /// Names of the objects of a kind.
    #[cfg(feature = "trial")]
    pub fn names(&self, kind: crate::Kind) -> Vec<vfun_remoting::Name> {
        self.objects.of_kind(kind).map(|(name, _)| name).collect()
    }

    /// Frees all objects, children before their parents. Whether the library ended each that
    /// this connection ever had to end so: one that it did not is no reason to keep the others.
    fn free_all(&mut self) -> bool {
        let all = self.objects.take_all();
        all.into_iter().for_each(|(kind, of)| self.freed &= self.backend.destroy(kind, of));
        self.freed
    }

    /// Makes one call: of the API, or of a buffer. By itself or as a record of a batch.
    pub fn make(
        &mut self,
        call: u16,
        mut args: Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<Returned, Refusal> {
        match call {
            numbers::DETACH => {
                let handle = only(&mut args)?;
                self.attached.remove(handle).map(|()| Returned::Fine)
            }
            numbers::END => {
                args.end()?;
                self.free_all();
                Ok(Returned::Fine)
            }
            numbers::ATTACHED => {
                let handle = only(&mut args)?;
                reply.bool(self.attached.is_there(handle));
                Ok(Returned::Fine)
            }
            _ => {
                let cx = &mut Context {
                    objects: &mut self.objects,
                    events: &self.events,
                    attached: &self.attached,
                };
                self.backend.dispatch(call, cx, args, reply)
            }
        }
    }
}

/// The only argument.
pub(crate) fn only(args: &mut Reader<'_>) -> Result<u64, Refusal> {
    let value = args.u64()?;
    args.end().map(|()| value)
}

impl<B: Backend> Drop for Connection<B> {
    fn drop(&mut self) {
        let freed = catch_unwind(AssertUnwindSafe(|| self.free_all()));
        self.events.end();
        // Only now: the library used these until its objects were gone.
        match freed {
            Ok(true) => self.attached.end(),
            Ok(false) | Err(_) => self.attached.keep_for_ever(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attached::Lending;
    use crate::{Kind, Memory, Name, Native};
    use vfun_sdk::{Config, DriverError, OpenCalls, Out};

    /// How a back end's library frees.
    enum Frees {
        All,
        NotTheFirst(bool),
        Breaks,
    }

    impl Backend for Frees {
        const DESCRIPTION: u64 = 1;
        fn open(_: &Config) -> Result<Self, DriverError> {
            Ok(Frees::All)
        }
        fn dispatch(
            &mut self,
            _: u16,
            _: &mut Context<'_>,
            _: Reader<'_>,
            _: &mut Writer<'_>,
        ) -> Result<Returned, Refusal> {
            Ok(Returned::Fine)
        }
        fn is_secret(_: u16) -> bool {
            false
        }
        fn destroy(&mut self, _: Kind, _: Native) -> bool {
            match self {
                Frees::All => true,
                Frees::NotTheFirst(refused) => std::mem::replace(refused, true),
                Frees::Breaks => panic!("a library that breaks"),
            }
        }
    }

    /// Whether a lent buffer is let go of when a connection with two objects ends.
    fn lets_go(backend: Frees) -> bool {
        let calls = OpenCalls::new(|| ());
        let call = Out::private_later(&mut [0; 8], &calls).on_event().unwrap();
        let _held = calls.hold(0);
        let mut connection = Connection::over(backend);
        let memory = Lending::Buffer(Memory { start: std::ptr::null_mut(), len: 0 });
        connection.attached.insert(7, memory, call).unwrap();
        connection.objects.insert(Name::new(0, 1), 1, 1, Name::NONE);
        connection.objects.insert(Name::new(1, 1), 1, 2, Name::NONE);
        drop(connection);
        calls.has_answers()
    }

    #[test]
    fn what_a_library_may_still_use_is_never_given_to_others() {
        assert!(lets_go(Frees::All));
        assert!(!lets_go(Frees::NotTheFirst(false)), "it did not end one, and it ended the last");
        assert!(!lets_go(Frees::Breaks));
    }
}

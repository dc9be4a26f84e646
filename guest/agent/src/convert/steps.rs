//! Carries a plan out, and puts back what was if a step fails.

use super::moved::Named;
use super::plan::Plan;
use crate::decide::options_wanted;
use crate::limits::{CONVERT_CARRIER, CONVERT_PAUSE, CONVERT_ROUTE};
use crate::links::{ACTIVE_BACKUP, Carrier, Link};
use crate::netlink::request::{self, Request};
use crate::netlink::{NetlinkError, Socket};
use rustix::io::Errno;
use std::time::Instant;

/// Makes the bond and moves everything.
///
/// # Errors
/// A sentence with the step that failed, and whether all is as it was.
pub fn carry_out(socket: &mut Socket, plan: &Plan) -> Result<(), String> {
    let mut work = Work { socket, plan, made: None, touched: false };
    let Err(why) = work.forward() else { return Ok(()) };
    match work.back() {
        Ok(()) => Err(format!("{why}. All is as it was before")),
        Err(more) => Err(format!("{why}. Then what was could not be put back: {more}")),
    }
}

struct Work<'a> {
    socket: &'a mut Socket,
    plan: &'a Plan,
    /// The bond, if it was made here.
    made: Option<u32>,
    /// Whether the interface was changed.
    touched: bool,
}

impl Work<'_> {
    fn forward(&mut self) -> Result<(), String> {
        let bond = self.bond()?;
        let interface = self.plan.interface.index;
        self.say("set the bond's MAC address", &request::set_mac(bond.index, self.plan.mac))?;
        self.say("set the bond's MTU", &request::set_mtu(bond.index, self.plan.mtu))?;
        self.touched = true;
        // Further addresses of a network before its first one, with which they would go.
        for address in self.plan.addresses.iter().rev() {
            self.unless(Errno::ADDRNOTAVAIL, "take an address away", &address.remove())?;
        }
        self.say("set the interface down", &request::set_up(interface, false))?;
        self.say("take the interface into the bond", &request::set_master(interface, bond.index))?;
        self.say("set the bond up", &request::set_up(bond.index, true))?;
        self.until_carrier(&bond.name)?;
        self.give(&bond)
    }

    /// The bond: an empty one of this name, or a new one.
    fn bond(&mut self) -> Result<Named, String> {
        let name = &self.plan.bond;
        if self.find(name)?.is_none() {
            let made = self.socket.ask(&request::make_bond(name));
            // Loading the module may have made one of this name.
            let there = made.as_ref().is_err_and(|e| e.is(Errno::EXIST));
            if let Err(e) = made.as_ref()
                && !there
            {
                return Err(format!("cannot make {name}: {e}"));
            }
            let link = self.find(name)?.ok_or_else(|| format!("{name} does not appear"))?;
            self.made = (!there).then_some(link.index);
        }
        let link = self.find(name)?.ok_or_else(|| format!("{name} is gone"))?;
        let bond = Named { index: link.index, name: name.clone() };
        let options = link.bond.ok_or_else(|| format!("{name} is no bond"))?;
        if options.mode != ACTIVE_BACKUP {
            self.say("set the bond's mode", &request::set_mode(bond.index))?;
        }
        if let Some(wanted) = options_wanted(&options) {
            for option in request::set_options(bond.index, &options, &wanted) {
                self.say("set an option of the bond", &option)?;
            }
        }
        Ok(bond)
    }

    fn find(&mut self, name: &str) -> Result<Option<Link>, String> {
        let links = self.socket.links().map_err(|e| format!("interfaces cannot be read: {e}"))?;
        Ok(links.into_iter().find(|l| l.name == name))
    }

    fn until_carrier(&mut self, bond: &str) -> Result<(), String> {
        let end = Instant::now() + CONVERT_CARRIER;
        while !self.find(bond)?.is_some_and(|l| l.carrier == Carrier::Settled) {
            if Instant::now() >= end {
                return Err(format!("{bond} gets no carrier"));
            }
            std::thread::sleep(CONVERT_PAUSE);
        }
        Ok(())
    }

    /// Gives all addresses and routes to an interface.
    fn give(&mut self, to: &Named) -> Result<(), String> {
        let from = &self.plan.interface;
        for address in &self.plan.addresses {
            let what = format!("give {} to {}", address.shown(), to.name);
            self.unless(Errno::EXIST, &what, &address.add(&from.name, to))?;
        }
        for route in &self.plan.routes {
            let what = format!("make a route over {}", to.name);
            let end = Instant::now() + CONVERT_ROUTE;
            self.until(end, &what, &route.add(from.index, to.index))?;
        }
        Ok(())
    }

    fn back(&mut self) -> Result<(), String> {
        let (plan, mut failed) = (self.plan, vec![]);
        let interface = plan.interface.index;
        if self.touched {
            failed.extend(
                self.say("take the interface out", &request::set_master(interface, 0)).err(),
            );
        }
        if let Some(index) = self.made {
            failed.extend(self.say("remove the bond", &request::remove(index)).err());
        } else if let (true, Ok(Some(bond))) = (self.touched, self.find(&plan.bond)) {
            failed.extend(self.say("set the bond down", &request::set_up(bond.index, false)).err());
            for address in plan.addresses.iter().rev() {
                // Left by a down interface, they would be there twice.
                let to = Named { index: bond.index, name: bond.name.clone() };
                let mut gone = address.add(&plan.interface.name, &to);
                gone.kind = address.remove().kind;
                let _ = self.socket.ask(&gone);
            }
        }
        if self.touched {
            for (what, request) in [
                ("set the MAC address", request::set_mac(interface, plan.mac)),
                ("set the MTU", request::set_mtu(interface, plan.mtu)),
                ("set the interface up", request::set_up(interface, plan.up)),
            ] {
                failed.extend(self.say(what, &request).err());
            }
            failed.extend(self.give(&plan.interface).err());
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    fn say(&mut self, what: &str, request: &Request) -> Result<(), String> {
        self.socket.ask(request).map_err(|e| format!("cannot {what}: {e}"))
    }

    /// As `say`; this error means that it is so already.
    fn unless(&mut self, errno: Errno, what: &str, request: &Request) -> Result<(), String> {
        match self.socket.ask(request) {
            Err(e) if !e.is(errno) => Err(format!("cannot {what}: {e}")),
            _ => Ok(()),
        }
    }

    /// Tries again for a while: an address of IPv6 is not ready at once.
    fn until(&mut self, end: Instant, what: &str, request: &Request) -> Result<(), String> {
        loop {
            match self.socket.ask(request) {
                Ok(()) => return Ok(()),
                Err(e) if e.is(Errno::EXIST) => return Ok(()),
                Err(NetlinkError::Refused(_)) if Instant::now() < end => {
                    std::thread::sleep(CONVERT_PAUSE);
                }
                Err(e) => return Err(format!("cannot {what}: {e}")),
            }
        }
    }
}

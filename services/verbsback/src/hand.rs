//! What a description cannot say: whose connection a context is, and buffers that it lent.

use crate::errno::Errno;
use crate::generated::{OK, kinds, write_vfun_nic_opened};
use crate::lent::lent;
use crate::nic::Nic;
use vfun_remoting_host::{Context, Name, Reader, Refusal, Returned, Writer};

/// A connection's place in the NIC, as long as it has one.
struct StationHold {
    nic: Nic,
    station: u32,
}

impl Drop for StationHold {
    fn drop(&mut self) {
        self.nic.end_station(self.station);
    }
}

/// What the hooks keep of a connection.
#[derive(Default)]
pub struct State {
    /// From the first context on. Channels that only hear events have none.
    station: Option<StationHold>,
}

impl State {
    fn station(&mut self, nic: &Nic) -> Result<u32, Errno> {
        if let Some(hold) = &self.station {
            return Ok(hold.station);
        }
        let station = nic.add_station()?;
        self.station = Some(StationHold { nic: nic.clone(), station });
        Ok(station)
    }
}

/// Ends a call that failed.
fn failed(errno: Errno, reply: &mut Writer<'_>) -> Result<Returned, Refusal> {
    reply.i32(errno.0);
    Ok(Returned::Failure(errno.0 as u32))
}

pub fn vfun_nic_open(
    state: &mut State,
    native: &Nic,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let (version, channel) = (args.u32()?, args.u64()?);
    let (token, name) = ([args.u64()?, args.u64()?], args.name()?);
    args.end()?;
    cx.objects.check_free(name)?;
    let is_first = state.station.is_none();
    let opened = state
        .station(native)
        .and_then(|station| native.open(version, (channel, token), (station, cx.events.clone())));
    match opened {
        Ok((context, opened)) => {
            reply.i32(OK);
            write_vfun_nic_opened(reply, &opened);
            cx.objects.insert(name, kinds::CONTEXT, context, Name::NONE);
            Ok(Returned::Fine)
        }
        Err(errno) => {
            if is_first {
                // There are not many of them, and a wrong token costs nothing.
                state.station = None;
            }
            failed(errno, reply)
        }
    }
}

pub fn vfun_nic_mr_make(
    _: &mut State,
    native: &Nic,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let pd_name = args.name()?;
    let pd = cx.objects.find(pd_name, kinds::PD)?;
    let what = (args.u64()?, args.u64()?, args.u32()?);
    let (runs, name) = (args.blob()?.unwrap_or_default(), args.name()?);
    args.end()?;
    cx.objects.check_free(name)?;
    match native.begin_region(pd, what, runs, &mut |handle| lent(cx.attached, handle)) {
        Ok((region, key)) => {
            reply.i32(OK);
            reply.u32(key);
            cx.objects.insert(name, kinds::MR, region, pd_name);
            Ok(Returned::Fine)
        }
        Err(errno) => failed(errno, reply),
    }
}

pub fn vfun_nic_mr_add(
    _: &mut State,
    native: &Nic,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let region = cx.objects.find(args.name()?, kinds::MR)?;
    let runs = args.blob()?.unwrap_or_default();
    args.end()?;
    match native.add_to_region(region, runs, &mut |handle| lent(cx.attached, handle)) {
        Ok(key) => {
            reply.i32(OK);
            reply.u32(key);
            Ok(Returned::Fine)
        }
        Err(errno) => failed(errno, reply),
    }
}

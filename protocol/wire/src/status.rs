//! How a call ended: the `status` of its answer line.

use crate::open_enum::wire_enum;

wire_enum! {
    /// The outcome of one call. Anything but [`Status::Ok`] is an error that
    /// says whose it is: the caller's, the driver's or the service's.
    pub enum Status: u32 {
        /// The results are there.
        Ok = 0 => "done",
        /// The command is not one of set, rst.
        BadCommand = 1 => "the cell's command is not one a service knows",
        /// The length exceeds the line or the cell's data space.
        BadLength = 2 => "the arguments' length does not fit the cell",
        /// A flag or reserved byte that must be zero is not.
        BadFlags = 3 => "the cell has a flag or reserved byte set that must be zero",
        /// The driver refused these arguments; results hold its code and sentence.
        DriverError = 4 => "the driver returned an error",
        /// The service died while it computed this call. It may have had effects.
        DriverCrashed = 5 => "the driver crashed during this call",
        /// The call ran past its deadline and its service was ended.
        Deadline = 6 => "the call ran past its deadline",
        /// The service was ended for another call's sake while it computed this one.
        ServiceLost = 7 => "the service was ended while it computed this call",
        /// The driver claims more results than the cell holds.
        ResultTooLarge = 8 => "the results do not fit the cell",
        /// The channel broke: its state says why. No further call is served.
        ChannelBroken = 9 => "the channel is broken",
        /// The grant was released, or its owner went away, before the call was served.
        Released = 10 => "the grant was released before the call was served",
    }
}

wire_enum! {
    /// Why a channel no longer serves calls.
    pub enum BreakReason: u32 {
        /// The channel is not broken.
        None = 0 => "the channel serves calls",
        /// A cell's sequence number was neither the last nor the next (R-CEL-3).
        BadSequence = 1 => "a cell's sequence number was neither the last one nor the next",
        /// The service crashed too often in a short time.
        CrashLoop = 2 => "its service crashed too often",
        /// The service could not be started again.
        NoService = 3 => "its service could not be started",
        /// The grant was released or its owner is gone.
        Released = 4 => "its grant was released",
        /// The manager is shutting down or laid the window out anew.
        Shutdown = 5 => "the manager is shutting down",
        /// The window's device was unplugged. Written by the guest's kernel
        /// module into the page that it puts in place of the channel's.
        DeviceGone = 6 => "the window's device was unplugged from this machine",
        /// The service of a channel of queues died, and what it kept of them with it.
        ServiceLost = 7 => "its service died, and with it what it kept of the queues",
    }
}

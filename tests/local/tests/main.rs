//! A real manager, real services and real callers, without a guest.
//!
//! One program for all files: linking is most of what a small one costs.

mod apis;
mod buffers;
mod examples;
mod failure;
mod fairness;
mod fpga;
mod functions;
mod handover;
mod hostile;
mod installed;
mod later;
mod law;
mod leases;
mod links;
mod means;
mod modeldevice;
mod moving;
mod nics;
mod opencl;
mod pkcs11;
mod policy;
mod projects;
mod queues;
mod rdma;
mod starting;
mod submit;
mod takeover;
mod trouble;
mod verbs;
mod vms;
mod wasm;
mod windows;
mod words;

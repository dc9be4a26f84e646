//! Programs in real guests.
//!
//! One program for all files: linking is most of what a small one costs.

mod agent;
mod apis;
mod attach;
mod bond;
mod debian;
mod guest;
mod libvirt;
mod links;
mod links_chain;
mod links_features;
mod links_figures;
mod links_handovers;
mod links_module;
mod links_program;
mod links_testpmd;
mod links_trouble;
mod module;
mod module_host;
mod module_pages;
mod module_ports;
mod module_ranges;
mod nested;
mod nics;
mod nics_failover;
mod nics_libvirt;
mod nics_migrate;
mod nics_openvswitch;
mod nics_programs;
mod nics_servers;
mod pinger;
mod pkcs11;
mod ports;
mod ports_figures;
mod ports_programs;
mod ports_switch;
mod ports_testpmd;
mod raw;
mod submit;
mod transports;
mod unprivileged;
mod verbs;
mod verbs_conform;
mod vms;
mod windows;

//! What a supervisor does with a server: systemd units, signals that stop it, few descriptors,
//! a disk without space, and a start under load.

mod open_files;
mod restart_under_flood;
mod signals;
mod state_dir;
mod units;

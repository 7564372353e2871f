//! What a supervisor does with a server: systemd units, signals that stop it, and few descriptors.

mod open_files;
mod signals;
mod units;

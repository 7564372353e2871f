//! What a supervisor does with a server: systemd units, and signals that stop it.

mod signals;
mod units;

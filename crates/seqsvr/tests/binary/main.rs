//! The binary as a user meets it: bad input, addresses, directories, memory.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod bad_input;
mod dev;
mod memory;

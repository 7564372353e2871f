//! The binary as a user meets it: bad input, addresses, directories, memory.

mod bad_input;
mod dev;
mod memory;

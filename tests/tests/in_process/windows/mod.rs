//! Windows and raises: the numbers that an owner may issue without a store.

mod raise_batching;
mod raise_to;
mod step_boundary;
mod waiting_commands;

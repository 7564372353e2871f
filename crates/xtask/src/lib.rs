//! Chores of the project that are programs in their own right.
//!
//! What lives here: [`model`], the protocol as a model that is checked exhaustively.
//! The binary `xtask` only parses the command line and prints; everything it runs is in
//! this library, so that the tests run the same code.
//!
//! This crate may not know the running system's crates for the model: the model is a second,
//! independent reading of the design, and would be worth nothing if it shared the code.

pub mod model;

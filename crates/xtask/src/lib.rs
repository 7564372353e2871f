//! Chores of the project that are programs in their own right.
//!
//! What lives here: [`model`], the protocol as a model that is checked exhaustively; [`accept`],
//! which runs every scenario on the release binary. The binary `xtask` only parses the command line
//! and prints; everything it runs is in this library, so that the tests run the same code.
//!
//! The model may not know the running system's crates: it is a second, independent reading of the
//! design, and would be worth nothing if it shared the code.

pub mod accept;
pub mod model;

//! Chores of the project that are programs in their own right.
//!
//! What lives here: [`model`], the protocol as a model that is checked exhaustively; [`accept`],
//! which runs every scenario on the release binary; [`peers`], which measures it beside the systems
//! people use today and the [`bare`] loop; [`instructions`], which counts those of a number in memory; [`memory`], which holds that of an AllocSvr against its budget; [`sections`], which measures stores with millions of sections; [`fuzz`], which throws bytes at what reads those of callers; [`schema`], which tests the
//! OpenAPI document; and [`sim`], which runs clusters in a simulated world. [`venv`] makes their Python environments. The
//! binary `xtask` only parses the command line and prints; everything it runs is in this library, so that
//! the tests run the same code.
//!
//! The model may not know the running system's crates: it is a second, independent reading of the
//! design, and would be worth nothing if it shared the code.

pub mod accept;
pub mod bare;
pub mod fuzz;
pub mod instructions;
pub mod memory;
pub mod model;
pub mod peers;
pub mod schema;
pub mod sections;
pub mod sim;
pub mod venv;

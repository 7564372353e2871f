//! Chores of the project that are programs in their own right.
//!
//! - [`accept`] runs every scenario on the release binary.
//! - [`peers`] measures that binary beside the systems people use today and the [`bare`] loop.
//! - [`instructions`] counts the instructions of a number.
//! - [`memory`] holds the memory of an AllocSvr against its budget.
//! - [`sections`] measures stores with millions of sections.
//! - [`sim`] runs clusters in a simulated world.
//! - [`fuzz`] runs the fuzz targets, [`schema`] tests the OpenAPI document; [`venv`] makes their
//!   Python environments.
//! - [`tidy`] checks names, layout and words.
//!
//! The binary `xtask` only parses the command line and prints. Everything it runs is in this
//! library, so that the tests run the same code.

pub mod accept;
pub mod bare;
pub mod fuzz;
pub mod instructions;
pub mod memory;
pub mod peers;
pub mod schema;
pub mod sections;
pub mod sim;
pub mod tidy;
pub mod venv;

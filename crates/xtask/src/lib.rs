//! Chores of the project that are programs in their own right.
//!
//! - [`acceptance`] runs every scenario on the release binary.
//! - [`compare`] measures that binary beside the systems people use today and the [`baseline`] loop.
//! - [`instruction_count`] counts the instructions of a number.
//! - [`memory_budget`] holds the memory of an AllocSvr against its budget.
//! - [`sections`] measures stores with millions of sections.
//! - [`sim`] runs clusters in a simulated world.
//! - [`fuzz`] runs the fuzz targets, [`schema`] tests the OpenAPI document; [`venv`] makes their
//!   Python environments.
//! - [`tidy`] checks names, layout and words.
//!
//! The binary `xtask` only parses the command line and prints. Everything it runs is in this
//! library, so that the tests run the same code.

pub mod acceptance;
pub mod baseline;
pub mod compare;
pub mod fuzz;
pub mod instruction_count;
pub mod memory_budget;
pub mod schema;
pub mod sections;
pub mod sim;
pub mod tidy;
pub mod venv;

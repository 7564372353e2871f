//! Chores of the project that are programs of their own.
//!
//! - [`acceptance`] runs every scenario on the release binary.
//! - [`compare`] compares that binary with other systems and with the [`baseline`] services.
//! - [`instruction_count`] counts the instructions per number.
//! - [`memory_budget`] compares the memory of an AllocSvr with its budget.
//! - [`sections`] measures stores with millions of sections.
//! - [`sim`] runs clusters in a simulated world.
//! - [`fuzz`] runs the fuzz targets, [`schema`] tests the OpenAPI document, and [`conformance`]
//!   compares the replies to Redis clients with Valkey's and runs holders of ids; [`venv`] makes
//!   Python environments for these two and for [`compare`].
//! - [`tidy`] checks names, layout and words.
//!
//! The binary `xtask` only parses the command line and prints. Everything that it runs is in this
//! library, so that the tests run the same code.

pub mod acceptance;
pub mod baseline;
mod child_guard;
pub mod compare;
pub mod conformance;
mod dev_server;
pub mod fuzz;
pub mod instruction_count;
pub mod memory_budget;
mod node_packages;
pub mod schema;
pub mod sections;
pub mod sim;
pub mod tidy;
mod valkey;
pub mod venv;

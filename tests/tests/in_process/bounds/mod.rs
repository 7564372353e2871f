//! Limits, overload and bad input of one server.

mod background;
mod bad_input;
mod batch_items;
mod limits;
mod overload;

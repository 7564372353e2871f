//! Those who judge a run: each answer, the insides of all servers, and the life after the healing.

pub mod online;
pub mod state;

//! Holder of workers of a family: acquires, renews and releases them, and makes ids within their
//! grants. An AllocSvr is one, and so is a process that makes ids by itself.
//!
//! ```text
//! take ----> FamilyHolder --first worker with room--> HeldWorker (generator of one worker epoch)
//!                |  ^                                       ^
//!          demand|  |shortage                         widen | seal
//!                v  |                                       |
//!              Keeper (one task) --acquire, renew, release--> WorkerCalls --> store
//! ```
//!
//! A take is one atomic change of one word below the grant: no call, no lock, no lease. All of the
//! rest is in the keeper's task. The rules are those of design.md, 4.1.

mod boot_clock;
mod family_holder;
mod floor;
mod held_worker;
mod holder_state;
mod keeper;
mod shortage;
mod store_clock;
mod worker_calls;

#[cfg(test)]
mod tests;

pub use boot_clock::BootClock;
pub use family_holder::FamilyHolder;
pub use floor::Floor;
pub use held_worker::HeldWorker;
pub use holder_state::HolderOptions;
pub use shortage::Shortage;
pub use store_clock::StoreClock;
pub use worker_calls::WorkerCalls;

//! Leases, sessions and slots: which AllocSvr may serve, and when.

mod causal_guard;
mod lease;
mod lifecycle;
mod other_cluster;
mod slot_moves;
mod startup;
mod strict;

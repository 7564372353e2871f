//! Notes that this node received the request to make the cluster it belongs to.
//!
//! Invariant: only the node that received the request to make a cluster, and drew nothing from
//! another node, may begin its log. Schedule that makes two histories under one cluster id without
//! it: node 1 makes the cluster; node 2 adopts it by node 1's first call and loses its power before
//! its vote is saved. Nodes 1 and 3 commit entries; node 3 is wiped, node 1 is cut off. The
//! operator repeats `init`, this time at node 2. Its log is empty, so openraft would let it begin
//! the log once more, and with the wiped node 3 it is a majority.
//!
//! The note is durable before the node belongs to the cluster. A node that lost its power in
//! between has no cluster, or is its founder. No other node knows that cluster then, because a node
//! calls others only after its own vote is saved.

use std::path::PathBuf;

use seqsvr_core::ids::ClusterId;

use crate::error::Error;
use crate::record;
use crate::storage::data_dir::{self, DataDir};

/// Notes, durably, that this node received the request to make the cluster.
pub(crate) fn store_founded_cluster(directory: &DataDir, cluster: ClusterId) -> Result<(), Error> {
    data_dir::replace_record(&founder_path(directory), &cluster)
}

/// Returns the cluster that this node received the request to make; None if it had no such request.
pub(crate) fn load_founded_cluster(directory: &DataDir) -> Result<Option<ClusterId>, Error> {
    let path = founder_path(directory);
    let bytes = data_dir::read_if_exists(&path)?;
    let cluster = bytes.map(|bytes| record::decode(&bytes)).transpose();
    cluster.map_err(Error::record(&path))
}

fn founder_path(directory: &DataDir) -> PathBuf {
    directory.root().join("founder")
}

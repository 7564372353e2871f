//! The service of a node, for its server.

use seqsvr_proto::v1::raft_server::RaftServer;

use super::RaftNode;
use crate::node::server::RaftService;
use crate::rpc::peer_client::MESSAGE_BYTES_MAX;

impl RaftNode {
    /// Returns the service that the other nodes call; mount it under this node's address.
    pub fn service(&self) -> RaftServer<RaftService> {
        RaftServer::new(RaftService::new(
            self.clone(),
            self.inner.identity_check.clone(),
        ))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}
